"""DMBGN: a voucher's redemption from the graph of a person's behavior around it (S3, KDD 2021).

Every session's graph becomes e = e_b ‖ e_o, what was done and the voucher, with the score s = σ(e_b·e_o). Past
redeemed sessions and the target, of which only what came before the collection is known, meet in DIN's attention:

    logit = MLP(profile ‖ Σ_r w_r·e_r ‖ e_T ‖ scores of the past, raw and their max, mean, min ‖ terms of the voucher)
    loss  = log loss + α · mean_n mean_r −log s_r

Training has three steps: items are embedded from the behaviour before the last training row; vouchers and the graph
network learn to score the training sessions; everything but the items is tuned together.
``docs/explanation/voucher-models.md`` lists where paper and code differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from shadowprice.checks import require
from shadowprice.encoders.item_embedding import SIDE, ItemEmbedding, embed_items
from shadowprice.encoders.voucher_graph import RATIO, VoucherGraphEncoder
from shadowprice.encoders.voucher_groups import WIDTH, GroupEncoder
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.responses.layers.session import ServedSession
from shadowprice.responses.state import State
from shadowprice.responses.tabular.minibatch import Objective
from shadowprice.responses.tabular.network import logloss
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.training import FitResult
from shadowprice.responses.training.processes import ALONE, this_process, together, weighted_mean
from shadowprice.responses.vouchers.dmbgn_history import Encoded, Memory
from shadowprice.responses.vouchers.dmbgn_network import NODE, DmbgnNetwork, NodeInputs
from shadowprice.responses.vouchers.sessions import CHUNK, Index, Past, SessionModel, SessionRows

ITEMS = "items.vectors"
PART = 2048
"""Rows that are judged at a time."""


class DmbgnModel(SessionModel[DmbgnNetwork]):
    """S3's model.

    Options beside those of :class:`SessionModel`:
        alpha: weight of the auxiliary loss (S3: 1).
        pretraining: epochs of vouchers and graph network on the training sessions, 0 for none.
        fine_tuning: share of the gradient steps that compute the graphs anew; the others take the embeddings as they
            were last computed. 1 in the paper, 0.4 in its code; 0 leaves them as pre-trained.
        ratio: of the top-K pooling.

    O(epochs · nodes of the graphs); the graphs of a step are one block-diagonal product.
    """

    before_only: ClassVar[bool] = False

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        alpha: float = 1.0,
        pretraining: int = 20,
        fine_tuning: float = 1.0,
        ratio: float = RATIO,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        require(alpha >= 0, "alpha", "must not be negative")
        require(pretraining >= 0, "pretraining", "must not be negative")
        require(0 <= fine_tuning <= 1, "fine_tuning", "must lie between 0 and 1")
        self.alpha = alpha
        self.pretraining = pretraining
        self.fine_tuning = fine_tuning
        self.ratio = ratio
        self.items: ItemEmbedding | None = None

    def prepare(self, log: SessionLog, frame: pd.DataFrame, place: Index, at: Index) -> None:
        """Embed the items of the behaviour up to the last training row."""
        del frame
        collected = nanoseconds(log.tables.session["collected_at"])
        now = np.where(place >= 0, collected[place], at) if collected.size else at
        self.items = embed_items(log, int(now.max()) + 1 if now.size else 0)

    def build(self, inputs: TabularInputs) -> DmbgnNetwork:
        """The untrained network."""
        assert self.items is not None
        return DmbgnNetwork(
            inputs,
            NodeInputs.of(self.log(), self.items, self.vouchers()),
            embedding=self.embedding,
            hidden=self.hidden,
            history=self.history,
            encoder=self.encoder(),
            dropout=self.dropout,
            before_only=self.before_only,
        )

    def encoder(self) -> GroupEncoder:
        """The untrained network that turns a session's behaviour into e_b."""
        return VoucherGraphEncoder(NODE, ratio=self.ratio)

    def train(self, network: DmbgnNetwork, train: SessionRows, validation: SessionRows) -> list[FitResult]:
        """Pre-train on the training sessions, then tune."""
        # In parts, a person's rows should not stand in several.
        validation = validation.take(torch.argsort(validation.person, stable=True))
        results = []
        if self.pretraining:
            results.append(self._pretrain(network, train, validation))
        results.append(self._tune(network, train, validation))
        # A voucher that training never saw is taken for the mean of those it saw.
        with torch.no_grad():
            network.voucher.weight[0] = network.voucher.weight[1:].mean(dim=0)
        return results

    def state(self) -> State:
        """Weights, features, vouchers and items."""
        inherited = super().state()
        assert self.items is not None
        tokens = {column: list(values) for column, values in self.items.tokens.items()}
        return State({**inherited.arrays, ITEMS: self.items.vectors}, {**inherited.meta, "items": tokens})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        tokens = {column: tuple(state.meta["items"][column]) for column in SIDE}  # JSON keeps no order
        self.items = ItemEmbedding(tokens, np.asarray(state.arrays[ITEMS]))
        arrays = {key: value for key, value in state.arrays.items() if key != ITEMS}
        super().restore(State(arrays, state.meta))

    @torch.no_grad()
    def served_session(self, frame: pd.DataFrame) -> tuple[NDArray[np.float32], ServedSession] | None:
        """Return features, sessions redeemed by the end of the log and their number, and the network in numpy.

        None where another encoder than S3's reads the graphs.
        """
        _, network = self._fitted()
        if not isinstance(network.graph, VoucherGraphEncoder):
            return None
        assert self.items is not None
        table = self.log().tables.session
        end = max(int(nanoseconds(table[column]).max()) for column in ("collected_at", "redeemed_at"))
        asked = frame.assign(level=0, response=0.0, session_id="", snapshot_at=end / 1e9 + 1.0)
        own = []
        for first in range(0, len(asked), CHUNK):
            part = asked.iloc[first : first + CHUNK]
            own.append(network.own(self._rows(part, np.ones(len(part)))))
        stored = np.concatenate(own)
        return stored, network.served(self.items, stored)

    @torch.no_grad()
    def embed(self, session: Index) -> Encoded:
        """e_b, e_o and the score of sessions that are over, at positions of the log."""
        _, network = self._fitted()
        return network.past(session)

    def _pretrain(self, network: DmbgnNetwork, train: SessionRows, validation: SessionRows) -> FitResult:
        """Learn to score: whole graphs, as a past session is seen, and those of a target."""
        before_only = self.before_only

        def loss(rows: SessionRows) -> Tensor:
            session, level = rows.session.numpy(), rows.level.numpy()
            if before_only:
                return logloss(network.target(session, level).score, rows)
            target, whole = network.scored(session, level)
            return logloss(target.score, rows) + logloss(whole.score, rows)

        return self.descend(
            network,
            train,
            validation,
            objective=Objective(loss=lambda rows, _: loss(rows), judge=lambda rows: in_parts(loss, rows)),
            parameters=network.graph_parameters(),
            config=replace(self.training, epochs=self.pretraining),
        )

    def _tune(self, network: DmbgnNetwork, train: SessionRows, validation: SessionRows) -> FitResult:
        """The log loss and the auxiliary loss, graphs computed anew in a share of the steps."""
        random, alpha, fine_tuning = np.random.default_rng([self.seed, 1]), self.alpha, self.fine_tuning
        memo = _Memo(network, train, validation) if fine_tuning < 1 else None

        def embed(rows: SessionRows, *, anew: bool) -> tuple[Memory, Encoded]:
            if memo is None or anew:
                return network.remember(rows), network.target(rows.session.numpy(), rows.level.numpy())
            return memo.recall(rows)

        def loss(rows: SessionRows, _: int) -> Tensor:
            anew = memo is None or random.random() < fine_tuning
            memory, target = embed(rows, anew=anew)
            if memo is not None and anew:
                memo.keep(rows, memory, target)
            read, auxiliary = network.read(memory, target)
            logits = network.decide(rows, rows.level, read)
            entropy = binary_cross_entropy_with_logits(logits, rows.response, reduction="none")
            if anew and alpha:
                entropy = entropy + alpha * auxiliary
            return weighted_mean(entropy, rows.weight)

        def part(rows: SessionRows) -> Tensor:
            read, _ = network.read(*embed(rows, anew=fine_tuning > 0))
            return logloss(network.decide(rows, rows.level, read), rows)

        fixed = set(network.graph_parameters()) if fine_tuning == 0 else set()
        return self.descend(
            network,
            train,
            validation,
            objective=Objective(
                loss=loss,
                judge=lambda rows: in_parts(part, rows),
                # A person's sessions have the same past: in one step its graphs are computed once.
                code=_person,
                # What is kept of one row is read with others.
                by_row=memo is None,
            ),
            parameters=[parameter for parameter in network.parameters() if parameter not in fixed],
            carried=[random, *(() if memo is None else (*memo.past, *memo.target))],
        )


def in_parts(loss: Callable[[SessionRows], Tensor], rows: SessionRows) -> Tensor:
    """A loss that is a weighted mean, of many rows: the graphs of all of them at once would leave the caches."""
    with together(ALONE):  # several processes need not have equally many parts
        parts = (rows.take(index) for index in torch.split(torch.arange(len(rows)), PART))
        total = sum(loss(part) * part.weight.sum() for part in parts)
    return torch.as_tensor(total / this_process().share(rows.weight.sum()))


def _person(rows: SessionRows) -> Tensor:
    return rows.person


class _Memo:
    """Embeddings as they were last computed: of every session as a past one, and of every row as a target."""

    @torch.no_grad()
    def __init__(self, network: DmbgnNetwork, *parts: SessionRows) -> None:
        self.past = Encoded(*torch.zeros(2, network.nodes.graphs.sessions, WIDTH))
        self.target = Encoded(*torch.zeros(2, 1 + max(int(rows.position.max()) for rows in parts), WIDTH))
        for rows in parts:
            for index in torch.split(torch.arange(len(rows)), PART):
                part = rows.take(index)
                target = network.target(part.session.numpy(), part.level.numpy())
                self.keep(part, network.remember(part), target)

    @torch.no_grad()
    def keep(self, rows: SessionRows, memory: Memory, target: Encoded) -> None:
        """Store the embeddings that a step has computed."""
        session = torch.from_numpy(memory.session)
        for kept, at, source in ((self.past, session, memory.encoded), (self.target, rows.position, target)):
            for to, values in zip(kept, source, strict=True):
                to[at] = values

    def recall(self, rows: SessionRows) -> tuple[Memory, Encoded]:
        """Return the stored embeddings of the past and of the rows, without gradient."""
        past = Past.of(rows.past)
        session, of = np.unique(past.session, return_inverse=True)
        at = torch.from_numpy(session)
        known = Encoded(*(part[at] for part in self.past))
        return Memory(past, session, of, known), Encoded(*(part[rows.position] for part in self.target))


class DmbgnPretrainedModel(DmbgnModel):
    """S3's DMBGN-Pretrained: embeddings of graphs and vouchers stay as pre-trained."""

    def __init__(self, levels: Sequence[int], seed: int = 0, *, fine_tuning: float = 0.0, **options: Any) -> None:
        super().__init__(levels, seed, fine_tuning=fine_tuning, **options)
