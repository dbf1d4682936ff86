"""The network of S2: encoders of the account, experts shared by the tasks, a tower each."""

from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from shadowprice.encoders.base import WIDTH, GraphTensors
from shadowprice.encoders.behaviour import BEHAVIOUR_WIDTH, BehaviourEncoder, Behaviours
from shadowprice.encoders.short_softmax import short_softmax
from shadowprice.encoders.two_layers import Gat2Encoder
from shadowprice.responses.funds.offers import UNKNOWN, OfferInputs
from shadowprice.responses.tabular.network import FeatureEmbedding
from shadowprice.responses.tabular.rows import TabularInputs

EXPERTS = 4
EXPERT_WIDTH = 128
TOWER = (64, 32)
"""S2 prints no sizes of experts and towers."""
OFFER_WIDTH = 16
CATEGORY_WIDTH = 8
HIDDEN = 0.5
"""Share of training rows that read their offer by its features alone, where unknown offers are to be scored."""
TOGETHER = 64
"""Accounts whose pairs go through a body at a time: what is computed of them stays in a core's cache."""


class TaskLinear(nn.Module):
    """A linear layer per task, tasks outermost: (T, n, I) → (T, n, O), one product of matrices each."""

    def __init__(self, tasks: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = max(inputs, 1) ** -0.5
        self.weight = nn.Parameter(torch.empty(tasks, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(tasks, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(T, n, O)."""
        return torch.baddbmm(self.bias[:, None], x, self.weight)


class Towers(nn.Module):
    """One network per task, (n, T, I) → (n, T): I → 64 → 32 → 1. Tasks stand outermost inside, a product each."""

    def __init__(self, tasks: int, inputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TaskLinear(tasks, a, b) for a, b in pairwise((inputs, *TOWER)))
        self.last = TaskLinear(tasks, TOWER[-1], 1)

    def forward(self, x: Tensor) -> Tensor:
        """Raw outputs (n, T)."""
        x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x).relu_()
        logits: Tensor = self.last(x).squeeze(2)
        return logits.T


class Body(nn.Module, ABC):
    """Layers between the inputs (n, D) and the raw outputs of the tasks (n, T).

    It begins with one linear layer, ``first``, so that of the pairs of many accounts with the same offers that layer
    is computed of each account and each offer once, and added.
    """

    first: nn.Linear
    towers: Towers

    def forward(self, x: Tensor) -> Tensor:
        """(n, T)."""
        raw: Tensor = self.after(self.first(x))
        return raw

    @abstractmethod
    def after(self, x: Tensor) -> Tensor:
        """(n, T) of what ``first`` gave, which it may overwrite."""

    def pairs(self, account: Tensor, offer: Tensor) -> Tensor:
        """(n, J, T) of n accounts (n, A) with each of J offers (J, D − A): ``forward`` of them side by side."""
        width = account.shape[1]
        mine = account @ self.first.weight[:, :width].T
        theirs = torch.nn.functional.linear(offer, self.first.weight[:, width:], self.first.bias)
        blocks = [self.after((some[:, None] + theirs).flatten(0, 1)) for some in torch.split(mine, TOGETHER)]
        return torch.cat(blocks).view(len(account), len(offer), -1)


class Mmoe(Body):
    """Four experts that all tasks share, mixed by a gate of each task (Ma et al. 2018)."""

    def __init__(self, tasks: int, inputs: int) -> None:
        super().__init__()
        self.tasks = tasks
        self.first = nn.Linear(inputs, EXPERTS * (EXPERT_WIDTH + tasks))
        self.towers = Towers(tasks, EXPERT_WIDTH)

    def after(self, x: Tensor) -> Tensor:
        """(n, T)."""
        expert = x[:, : EXPERTS * EXPERT_WIDTH].relu_().view(-1, EXPERTS, EXPERT_WIDTH)
        gate = x[:, EXPERTS * EXPERT_WIDTH :].view(-1, self.tasks, EXPERTS)
        raw: Tensor = self.towers(short_softmax(gate) @ expert)
        return raw


class SharedBottom(Body):
    """Three layers that all tasks share (S2's Shared-Bottom)."""

    further: ClassVar[int] = 2
    """Layers behind the first."""

    def __init__(self, tasks: int, inputs: int) -> None:
        super().__init__()
        self.tasks = tasks
        self.first = nn.Linear(inputs, EXPERT_WIDTH)
        layers: list[nn.Module] = []
        for _ in range(self.further):
            layers += [nn.ReLU(), nn.Linear(EXPERT_WIDTH, EXPERT_WIDTH)]
        self.shared = nn.Sequential(*layers, nn.ReLU())
        self.towers = Towers(tasks, EXPERT_WIDTH)

    def after(self, x: Tensor) -> Tensor:
        """(n, T)."""
        raw: Tensor = self.towers(self.shared(x)[:, None].expand(-1, self.tasks, -1))
        return raw


class Plain(SharedBottom):
    """One layer before the tower: a plain deep network of one task (S2's DNN-C and DNN-V)."""

    further = 0


BODIES: dict[str, type[Mmoe] | type[SharedBottom]] = {
    "mmoe": Mmoe,
    "shared_bottom": SharedBottom,
    "plain": Plain,
}


class FundNetwork(nn.Module):
    """Account and offer → raw outputs of every task: e_user ‖ e_behaviour ‖ e_consumption, then the offer and a body.

    An offer is an embedding of its identity ‖ its features. Offers without a delivery share the identity ``UNKNOWN``.
    Where such offers are to be scored, that identity is trained on a share of all rows, whose own identity is hidden.

    Args:
        inputs: features of the account.
        offers: identities and features of the offers.
        tasks: outputs.
        body: one of ``BODIES``.
        actions: kinds of behaviour, 0 without.
        graph: widths of the node and edge features of the graph encoder, None without.
        last_of_offer: whether the last output is a number of the offer, the same for every account, and has no tower.
    """

    identity: Tensor
    numeric: Tensor

    def __init__(
        self,
        inputs: TabularInputs,
        offers: OfferInputs,
        tasks: int,
        body: str,
        *,
        actions: int = 0,
        graph: Gat2Encoder | None = None,
        last_of_offer: bool = False,
    ) -> None:
        super().__init__()
        self.features = FeatureEmbedding(inputs, CATEGORY_WIDTH)
        self.behaviour = BehaviourEncoder(offers.known + 1, actions) if actions else None
        self.graph = graph
        self.width = self.features.width + BEHAVIOUR_WIDTH * bool(actions) + WIDTH * (graph is not None)
        self.register_buffer("identity", torch.from_numpy(offers.identity), persistent=False)
        self.register_buffer("numeric", torch.from_numpy(offers.numeric), persistent=False)
        self.new = offers.new and offers.scaling.width > 0
        self.offer = nn.Embedding(offers.known + 1, OFFER_WIDTH)
        self.body = BODIES[body](tasks - last_of_offer, self.width + OFFER_WIDTH + offers.scaling.width)
        self.last = OfferNumber(offers.known + 1, offers.scaling.width) if last_of_offer else None

    def embed_graph(self, graph: GraphTensors) -> Tensor:
        """(nodes, WIDTH): the consumption embedding of every node."""
        assert self.graph is not None
        embedded: Tensor = self.graph(graph)
        return embedded

    def account(
        self,
        numeric: Tensor,
        category: Tensor,
        events: Behaviours | None,
        embedded: Tensor | None,
        node: Tensor | None,
    ) -> Tensor:
        """(n, width) of n accounts; ``node`` (n,) are their rows in ``embedded``, of :meth:`embed_graph`."""
        parts = [self.features(numeric, category)]
        if self.behaviour is not None and events is not None:
            parts.append(self.behaviour(replace(events, offer=self.identity[events.offer])))
        if embedded is not None and node is not None:
            parts.append(embedded[node])
        return torch.cat(parts, dim=1)

    def forward(self, account: Tensor, offer: Tensor) -> Tensor:
        """Raw outputs (n, T) of accounts (n, width) at an offer each, int64 (n,)."""
        identity, numeric = self.identity[offer], self.numeric[offer]
        if self.training and self.new:
            identity = identity.masked_fill(torch.rand(len(identity)) < HIDDEN, UNKNOWN)
        raw: Tensor = self.body(torch.cat([account, self.offer(identity), numeric], dim=1))
        return raw if self.last is None else torch.cat([raw, self.last(identity, numeric)], dim=1)

    def every(self, account: Tensor) -> Tensor:
        """Raw outputs (n, J, T) of accounts (n, width) at all J offers."""
        offers = torch.cat([self.offer(self.identity), self.numeric], dim=1)
        raw: Tensor = self.body.pairs(account, offers)
        if self.last is None:
            return raw
        return torch.cat([raw, self.last(self.identity, self.numeric).expand(len(raw), -1, -1)], dim=2)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameters as an optimizer takes them: weights, which decay; biases and numbers of an offer, which do not.

        A step of Adam's is at most its learning rate, and a decay of 0.3 pulls a log-amount of 3 by nearly as much.
        """
        free: list[nn.Parameter] = []
        fixed: list[nn.Parameter] = []
        for name, parameter in self.named_parameters():
            (fixed if name.endswith("bias") or name == "last.own.weight" else free).append(parameter)
        return [{"params": free}, {"params": fixed, "weight_decay": 0.0}]

    @torch.no_grad()
    def start(self, raw: Tensor) -> None:
        """Intercepts of the outputs (T,), or for each identity (known + 1, T): a tower's is their mean."""
        self.body.towers.last.bias.copy_(raw.view(-1, raw.shape[-1]).mean(dim=0)[: self.body.tasks, None])
        if self.last is not None:
            self.last.own.weight.copy_(raw[..., -1:])


class OfferNumber(nn.Module):
    """One output of an offer, (n, 1): a number of its identity and a linear function of its features, 0 at first."""

    def __init__(self, identities: int, features: int) -> None:
        super().__init__()
        self.own = nn.Embedding(identities, 1)
        self.shared = nn.Parameter(torch.zeros(features, 1))

    def forward(self, identity: Tensor, numeric: Tensor) -> Tensor:
        """(n, 1)."""
        output: Tensor = self.own(identity) + numeric @ self.shared
        return output
