"""S2's models of a delivery: one network, a body, a loss, and what its outputs mean."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.checks import require, require_one_of
from shadowprice.curves import Curves
from shadowprice.encoders.base import GraphTensors
from shadowprice.encoders.side_by_side import side_by_side
from shadowprice.encoders.two_layers import Gat2Encoder
from shadowprice.errors import InvalidInput
from shadowprice.responses.amounts.losses import LOSSES, AmountLoss
from shadowprice.responses.funds.network import FundNetwork
from shadowprice.responses.funds.offers import OfferInputs, fit_offers
from shadowprice.responses.funds.outputs import Delivery, Outputs
from shadowprice.responses.funds.rows import (
    EventHistory,
    FundRows,
    check_instants,
    check_outcomes,
    fund_rows,
    held_out_rows,
)
from shadowprice.responses.funds.training import TRAINING, fit_network, start_of
from shadowprice.responses.joint.graph import ModelGraph
from shadowprice.responses.joint.inputs import InputScaling, fit_inputs, request_rows
from shadowprice.responses.state import State
from shadowprice.responses.tabular.module_model import ModuleModel
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.tables.schema import ACTIONS

CHUNK = 1024
"""Accounts predicted at a time."""


class FundModel(ModuleModel[FundNetwork]):
    """Model of the conversion of each offer and of its amount: account ‖ offer → body → towers → loss.

    ``curve`` is the probability of a conversion, ``value`` the expected transaction value (ETV) in minor units. The
    levels are the numbers of the offers; they have no order. Rows are deliveries with ``response`` (converted) and, as
    they are there, ``clicked`` and ``amount`` (minor units). With clicks, p = pCTR·pCVR over all deliveries (Ma et al.
    2018) and cross-entropy on the click is added; without, p has one output.

    Of its inputs it reads the snapshots of the consumption graph, behaviours and offers, as they are given. One that
    reads behaviours or a graph asks for ``snapshot_at`` (unix seconds) of every row: without it a row
    would read its own purchase.

    Options:
        loss: one of ``funds.losses.LOSSES``, in place of the model's own.
        given_click: whether purchases and amounts are learned from clicked deliveries alone (``Outputs.rows``), in
            place of p = pCTR·pCVR; needs ``clicked``.
        offer_spread: whether sigma is a number of the offer, the same for every account, and has no tower; training
            starts at that of the offer's own rows.
        new_offers: whether offers that were never delivered are scored, by their features: half of the training rows
            then hide their offer's identity, which costs precision at the offers that were delivered. By default where
            an offer of the inputs has no delivery; True where one is to be launched after training.
        unit: minor units of the least purchase; amounts are counted in it.
        clip: the expected amount of a conversion is cut at this quantile of the amounts seen.
        others: see :class:`~shadowprice.responses.tabular.module_model.ModuleModel`; ``batch_rows`` 0 means 512, with a
            graph eight steps per epoch at most.
    """

    TRAINING = TRAINING
    body: ClassVar[str] = "mmoe"
    own_loss: ClassVar[str]
    product: ClassVar[bool] = True
    ordered: ClassVar[bool] = False

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        loss: str | None = None,
        given_click: bool = False,
        offer_spread: bool = False,
        new_offers: bool | None = None,
        unit: int = 100,
        clip: float = 0.999,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        self.loss_name = loss or self.own_loss
        require_one_of(self.loss_name, sorted(LOSSES), "loss")
        chain = "asks for a model with the chain of click and conversion"
        require(self.product or not given_click, "given_click", chain)
        require(not offer_spread or self.loss.outputs > 1, "offer_spread", f"the loss {self.loss_name} has no sigma")
        require(unit >= 1, "unit", "must be at least 1 minor unit")
        require(0 < clip <= 1, "clip", "must lie in (0, 1]")
        self.acted = False
        self._events: tuple[pd.DataFrame, EventHistory] | None = None
        self.given_click = given_click
        self.offer_spread = offer_spread
        self.new_offers = new_offers
        self.unit = unit
        self.clip = clip
        self.scaling: InputScaling | None = None
        self.offer_inputs: OfferInputs | None = None
        self.outputs = Outputs(self.loss_name, 1)

    @property
    def loss(self) -> AmountLoss:
        """Law of the amounts."""
        return LOSSES[self.loss_name]

    @property
    def converts(self) -> bool:
        """True where the model has a probability of conversion."""
        return self.outputs.converts

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train; a fifth of the accounts is held out for early stopping."""
        self.check_frame(frame)
        check_outcomes(frame, amounts=self.loss.outputs > 0, model=self.name)
        held = held_out_rows(frame, self.seed)
        train = ~held
        self.inputs = fit_tabular(frame[train])
        delivered = np.bincount(frame["level"][train].astype(np.int64), minlength=self.levels.size) > 0
        self.offer_inputs = fit_offers(self.given.offers, delivered, self.new_offers)
        steps = (1 + (self.product and "clicked" in frame)) if self.converts else 0
        unclicked = self.given_click and steps < 2
        require(not unclicked, "clicked", "is missing: given_click=True asks which deliveries were clicked")
        self.outputs = Outputs.of(
            self.loss_name, steps, frame[train], self.unit, self.clip, given_click=self.given_click
        )
        if snapshots := self.given.snapshots:
            self.scaling = fit_inputs(snapshots, {self.side: frame[["account_id"]]}, {}, interactions=False)
        self.acted = self.given.behaviours is not None
        rows = self._rows(frame)
        learnt = rows.take(torch.from_numpy(train))
        # A single account is both learnt from and checked on.
        checked = rows.take(torch.from_numpy(held)) if held.any() else learnt
        config = replace(self.training, seed=self.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self.build(self.inputs)
            network.start(start_of(self.outputs, learnt, self.offer_inputs if self.offer_spread else None))
            fit_network(network, self.outputs, learnt, checked, self._graph(), config, self.progress)
        self.network = network.eval()
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Probability of a conversion (J, N) of the rows."""
        return Curves(self.levels, self.expect(frame).probability.astype(np.float32))

    def cost(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Raise :class:`InvalidInput`: an offer takes a place in the quota of its segment and costs no money."""
        del frame
        raise InvalidInput(
            "a delivered fund costs no money: its levels are numbers of segments, and what is scarce is a segment's "
            "quota; find its price by shadowprice.allocation.solve_demands",
            field="cost",
        )

    def value(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected transaction value (J, N) of delivering each offer to the rows, minor units (S2, ETV)."""
        values = np.empty((self.levels.size, len(frame)), dtype=np.float32)

        def fill(part: slice, raw: Tensor) -> None:
            values[:, part] = self.unit * self.outputs.value(raw).view(-1, self.levels.size).T.numpy()

        self._each(frame, fill)
        return values

    def log_value(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected log(1 + units) (J, N) of delivering each offer: what an error on the log scale asks for.

        The log of :meth:`value` is larger, by Jensen's inequality: the mean of log(1 + amount) over deliveries, most
        of which bring nothing, is the only prediction that minimizes its squared error.
        """
        expected = self.expect(frame)
        chance = expected.probability if self.converts else 1.0
        return np.ascontiguousarray(chance * expected.log_amount, dtype=np.float32)

    def expect(self, frame: pd.DataFrame) -> Delivery:
        """Predict every offer for the rows. O(N·J) passes through the body, O(N) through encoders."""
        expected = np.empty((len(fields(Delivery)), self.levels.size, len(frame)))

        def fill(part: slice, raw: Tensor) -> None:
            values = self.outputs.delivery(raw)
            expected[:, :, part] = values.view(len(expected), -1, self.levels.size).transpose(1, 2).numpy()

        self._each(frame, fill)
        return Delivery(*expected)

    @torch.no_grad()
    def _each(self, frame: pd.DataFrame, use: Callable[[slice, Tensor], None]) -> None:
        """Call ``use`` for all rows, with some rows of the frame at a time and their raw outputs (m·J, T), float64.

        The graph is passed over once; the rows are taken :data:`CHUNK` at a time, on as many threads as torch has.
        """
        _, network = self._fitted()
        rows, graph = self._rows(frame), self._graph()
        embedded = network.embed_graph(graph) if graph is not None else None

        def compute(first: int) -> None:
            chosen = slice(first, min(first + CHUNK, len(frame)))
            part = rows.take(chosen)
            account = network.account(part.numeric, part.category, part.events, embedded, part.node)
            use(chosen, network.every(account).flatten(0, 1).double())

        side_by_side(compute, range(0, len(frame), CHUNK))

    def state(self) -> State:
        """Weights, standardization, and what is known of the amounts."""
        inherited = super().state()
        more = {"offers": self.offer_inputs, "outputs": self.outputs, "scaling": self.scaling}
        known = {name: None if part is None else part.to_dict() for name, part in more.items()}
        return State(inherited.arrays, {**inherited.meta, **known})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``.

        Offers among the inputs replace the fitted ones; levels beyond the fitted ones are new offers.
        """
        meta = state.meta
        fitted = OfferInputs.from_dict(meta["offers"])
        self.offer_inputs = fitted if self.given.offers is None else fitted.of(self.given.offers)
        count = self.offer_inputs.identity.size
        require(count == self.levels.size, "levels", f"the model has {count} offers, not {self.levels.size}")
        self.outputs = Outputs.from_dict(meta["outputs"])
        self.scaling = None if meta["scaling"] is None else InputScaling.from_dict(meta["scaling"])
        self.acted = any(key.startswith("behaviour.") for key in state.arrays)
        spread = "last.own.weight" in state.arrays
        problem = f"the model was fitted {'with' if spread else 'without'} it"
        require(spread == self.offer_spread, "offer_spread", problem)
        super().restore(state)

    def build(self, inputs: TabularInputs) -> FundNetwork:
        """The untrained network."""
        assert self.offer_inputs is not None
        graph = None
        if self.scaling is not None:
            widths = {side: fitted.width for side, fitted in self.scaling.node.items()}
            graph = Gat2Encoder(widths, self.scaling.edge.width)
        return FundNetwork(
            inputs,
            self.offer_inputs,
            self.outputs.width,
            self.body,
            actions=len(ACTIONS) if self.acted else 0,
            graph=graph,
            last_of_offer=self.offer_spread,
        )

    def history(self) -> EventHistory:
        """The behaviours given, sorted once. O(events log events)."""
        behaviours = self.given.behaviours
        assert behaviours is not None
        if self._events is None or self._events[0] is not behaviours:
            self._events = behaviours, EventHistory(behaviours, self.levels.size)
        return self._events[1]

    def _graph(self) -> GraphTensors | None:
        return None if self.scaling is None else ModelGraph(self.given.snapshots, self.scaling).whole

    def _rows(self, frame: pd.DataFrame) -> FundRows:
        assert self.inputs is not None
        node = events = None
        read = {"snapshots": self.scaling is not None, "behaviours": self.acted}
        self.given.require([name for name, fitted in read.items() if fitted], self.name)
        if any(read.values()):
            check_instants(frame)
        if self.scaling is not None:
            node = torch.from_numpy(request_rows(frame, self.given.snapshots, self.scaling, "customer").node)
        if self.acted:
            events = self.history().before(frame["account_id"], frame["snapshot_at"].to_numpy(dtype=np.float64))
        return fund_rows(frame, self.inputs, events, node, self.unit)
