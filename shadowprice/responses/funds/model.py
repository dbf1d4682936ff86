"""S2's models of a delivery: one network, a body, a loss, and what its outputs mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.encoders.base import GraphTensors
from shadowprice.encoders.gat2 import Gat2Encoder
from shadowprice.encoders.side_by_side import side_by_side
from shadowprice.errors import InvalidInput
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.funds.losses import LOSSES, AmountLoss
from shadowprice.responses.funds.neighbourhoods import Neighbourhoods
from shadowprice.responses.funds.network import FundNetwork
from shadowprice.responses.funds.offers import OfferInputs, fit_offers
from shadowprice.responses.funds.outputs import Delivery, Outputs
from shadowprice.responses.funds.rows import EventHistory, FundRows, check_instants, check_outcomes
from shadowprice.responses.joint.inputs import InputScaling, fit_inputs, graph_tensors, request_rows
from shadowprice.responses.state import State
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.config import Progress, TrainingConfig
from shadowprice.responses.training.loop import descend
from shadowprice.responses.uplift.two_outcome import held_out_rows
from shadowprice.tables.schema import ACTIONS

TRAINING = TrainingConfig(learning_rate=3e-3, decay=0.95, epochs=30, patience=5, weight_decay=0.3)
BATCH_ROWS = 512
"""Rows of a step (S2)."""
STEPS_ON_A_GRAPH = 8
"""Steps of an epoch at most where each one passes over a graph and the configuration leaves its rows open."""
CHUNK = 1024
"""Accounts predicted at a time."""


class FundModel(ResponseModel):
    """Model of the conversion of each offer and of its amount: account ‖ offer → body → towers → loss.

    ``curve`` is the probability of a conversion, ``value`` the expected transaction value (ETV) in minor units. The
    levels are the numbers of the offers; they have no order. Rows are deliveries with ``response`` (converted) and, as
    they are there, ``clicked`` and ``amount`` (minor units). With clicks, p = pCTR·pCVR over all deliveries (Ma et al.
    2018) and cross-entropy on the click is added; without, p has one output.

    A model that reads behaviours or a graph asks for ``snapshot_at`` (unix seconds) of every row: without it a row
    would read its own purchase. An offer that was never delivered is scored by its features.

    Options:
        graph: consumption graph, snapshots in order of time.
        behaviours: account_id, level, action, ts; a row sees what was before its ``snapshot_at``.
        offers: level and numbers x_* of every offer, such as the mean yearly return of a fund.
        loss: one of ``funds.losses.LOSSES``, in place of the model's own.
        given_click: whether purchases and amounts are learnt from clicked deliveries alone (``Outputs.rows``), in place
            of p = pCTR·pCVR over all of them; needs ``clicked``.
        offer_spread: whether sigma is a number of the offer, the same for every account, and has no tower; training
            starts at that of the offer's own rows.
        unit: minor units of the least purchase; amounts are counted in it.
        clip: the expected amount of a conversion is cut at this quantile of the amounts seen.
        training: how to train; its seed is replaced by the model's; ``batch_rows`` 0 means 512, with a graph eight
            steps per epoch at most.
        progress: called after every epoch.
    """

    body: ClassVar[str] = "mmoe"
    own_loss: ClassVar[str]
    product: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()
    monotone: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    sides: ClassVar[tuple[Side, ...]] = ("customer",)

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        graph: Sequence[GraphSnapshot] | None = None,
        behaviours: pd.DataFrame | None = None,
        offers: pd.DataFrame | None = None,
        loss: str | None = None,
        given_click: bool = False,
        offer_spread: bool = False,
        unit: int = 100,
        clip: float = 0.999,
        training: TrainingConfig | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(levels, seed)
        given = {"graph": graph, "behaviours": behaviours}
        meaning = {"graph": "the consumption graph (snapshots)", "behaviours": "what accounts did before (a table)"}
        for name in self.needs:
            if given[name] is None:
                raise InvalidInput(f"is missing: this model reads {meaning[name]}; give it as {name}=", field=name)
        self.loss_name = loss or self.own_loss
        if self.loss_name not in LOSSES:
            raise InvalidInput(f"must be one of {sorted(LOSSES)}, got {loss!r}", field="loss")
        if given_click and not self.product:
            raise InvalidInput("asks for a model with the chain of click and conversion", field="given_click")
        if offer_spread and self.loss.outputs < 2:
            raise InvalidInput(f"the loss {self.loss_name} has no sigma", field="offer_spread")
        if unit < 1:
            raise InvalidInput("must be at least 1 minor unit", field="unit")
        if not 0 < clip <= 1:
            raise InvalidInput("must lie in (0, 1]", field="clip")
        self.graph = graph
        self.history = None if behaviours is None else EventHistory(behaviours, self.levels.size)
        self.offers = offers
        self.given_click = given_click
        self.offer_spread = offer_spread
        self.unit = unit
        self.clip = clip
        self.training = training or TRAINING
        self.progress = progress
        self.inputs: TabularInputs | None = None
        self.scaling: InputScaling | None = None
        self.offer_inputs: OfferInputs | None = None
        self.network: FundNetwork | None = None
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
        self.offer_inputs = fit_offers(self.offers, delivered)
        steps = (1 + (self.product and "clicked" in frame)) if self.converts else 0
        if self.given_click and steps < 2:
            raise InvalidInput("is missing: given_click=True asks which deliveries were clicked", field="clicked")
        self.outputs = Outputs.of(
            self.loss_name, steps, frame[train], self.unit, self.clip, given_click=self.given_click
        )
        if self.graph is not None:
            self.scaling = fit_inputs(self.graph, {"customer": frame[["account_id"]]}, {}, interactions=False)
        rows = self._rows(frame)
        learnt = rows.take(torch.from_numpy(train))
        # A single account is both learnt from and checked on.
        checked = rows.take(torch.from_numpy(held)) if held.any() else learnt
        graph = self._graph()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self._build()
            network.start(self._start(learnt))
            config = replace(self.training, seed=self.seed, batch_rows=self._batch_rows(len(learnt)))
            around = Neighbourhoods(graph, self.seed)
            descend(
                network,
                shuffled(len(learnt), config),
                lambda index, _: self._loss(network, learnt.take(index), around),
                lambda: float(self._loss(network, checked, graph)),
                config,
                parameters=network.parameter_groups(),
                carried=[around.random],
                progress=self.progress,
                keep_start=True,
            )
        self.network = network.eval()
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Probability of a conversion (J, N) of the rows."""
        return Curves(self.levels, self.expect(frame).probability.astype(np.float32))

    def cost(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Refused: an offer costs a seat of its segment and no money.

        Raises:
            InvalidInput: always.
        """
        del frame
        raise InvalidInput(
            "a delivered fund costs no money: its levels are numbers of segments and what is scarce is a seat; "
            "price seats by shadowprice.allocation.solve_demands",
            field="cost",
        )

    def value(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected transaction value (J, N) of delivering each offer to the rows, minor units (S2, ETV)."""
        found = np.empty((self.levels.size, len(frame)), dtype=np.float32)

        def fill(part: slice, raw: Tensor) -> None:
            found[:, part] = self.unit * self.outputs.value(raw).view(-1, self.levels.size).T.numpy()

        self._each(frame, fill)
        return found

    def log_value(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Expected log(1 + units) (J, N) of delivering each offer: what an error on the log scale asks for.

        The log of :meth:`value` is larger, by Jensen's inequality: the mean of log(1 + amount) over deliveries, most
        of which bring nothing, is the only prediction that minimises its squared error.
        """
        found = self.expect(frame)
        chance = found.probability if self.converts else 1.0
        return np.ascontiguousarray(chance * found.log_amount, dtype=np.float32)

    def expect(self, frame: pd.DataFrame) -> Delivery:
        """Predict every offer for the rows. O(N·J) passes through the body, O(N) through encoders."""
        found = np.empty((len(fields(Delivery)), self.levels.size, len(frame)))

        def fill(part: slice, raw: Tensor) -> None:
            values = self.outputs.delivery(raw)
            found[:, :, part] = values.view(len(found), -1, self.levels.size).transpose(1, 2).numpy()

        self._each(frame, fill)
        return Delivery(*found)

    @torch.no_grad()
    def _each(self, frame: pd.DataFrame, use: Callable[[slice, Tensor], None]) -> None:
        """Give ``use`` some rows of the frame and their raw outputs (m·J, T), float64, for all rows.

        The graph is passed over once; the rows are taken :data:`CHUNK` at a time, on as many threads as torch has.
        """
        network = self.network
        if network is None:
            raise InvalidInput("fit the model before asking for curves", field="model")
        rows, graph = self._rows(frame), self._graph()
        embedded = network.embed_graph(graph) if graph is not None else None

        def compute(first: int) -> None:
            chosen = slice(first, min(first + CHUNK, len(frame)))
            part = rows.take(chosen)
            account = network.account(part.numeric, part.category, part.events, embedded, part.node)
            use(chosen, network.every(account).flatten(0, 1).double())

        side_by_side(compute, range(0, len(frame), CHUNK))

    def state(self) -> State:
        """Weights, standardisation, and what is known of the amounts."""
        if self.network is None or self.inputs is None or self.offer_inputs is None:
            raise InvalidInput("fit the model before saving it", field="model")
        known = {
            "inputs": self.inputs.to_dict(),
            "offers": self.offer_inputs.to_dict(),
            "outputs": self.outputs.to_dict(),
            "scaling": None if self.scaling is None else self.scaling.to_dict(),
        }
        return State({name: value.numpy() for name, value in self.network.state_dict().items()}, known)

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``.

        ``offers`` given to the constructor replace the fitted ones; levels beyond the fitted ones are new offers.
        """
        meta = state.meta
        self.inputs = TabularInputs.from_dict(meta["inputs"])
        fitted = OfferInputs.from_dict(meta["offers"])
        self.offer_inputs = fitted if self.offers is None else fitted.of(self.offers)
        if self.offer_inputs.identity.size != self.levels.size:
            raise InvalidInput(
                f"the model has {self.offer_inputs.identity.size} offers, not {self.levels.size}", field="levels"
            )
        self.outputs = Outputs.from_dict(meta["outputs"])
        self.scaling = None if meta["scaling"] is None else InputScaling.from_dict(meta["scaling"])
        for name, wanted, given in (
            ("graph", self.scaling is not None, self.graph is not None),
            ("offer_spread", "last.own.weight" in state.arrays, self.offer_spread),
            ("behaviours", any(key.startswith("behaviour.") for key in state.arrays), self.history is not None),
        ):
            if wanted != given:
                raise InvalidInput(f"the model was fitted {'with' if wanted else 'without'} it", field=name)
        network = self._build().eval()
        network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.arrays.items()})
        self.network = network

    def _build(self) -> FundNetwork:
        assert self.inputs is not None
        assert self.offer_inputs is not None
        graph = None
        if self.scaling is not None:
            widths = {side: fitted.width for side, fitted in self.scaling.node.items()}
            graph = Gat2Encoder(widths, self.scaling.edge.width)
        return FundNetwork(
            self.inputs,
            self.offer_inputs,
            self.outputs.width,
            self.body,
            actions=0 if self.history is None else len(ACTIONS),
            graph=graph,
            last_of_offer=self.offer_spread,
        )

    def _graph(self) -> GraphTensors | None:
        if self.scaling is None or self.graph is None:
            return None
        return graph_tensors(self.graph, self.scaling)

    def _batch_rows(self, rows: int) -> int:
        if self.training.batch_rows:
            return self.training.batch_rows
        return BATCH_ROWS if self.scaling is None else max(BATCH_ROWS, math.ceil(rows / STEPS_ON_A_GRAPH))

    def _start(self, rows: FundRows) -> Tensor:
        """Raw outputs (T,) at which training starts; where sigma is the offer's, one row for each identity."""
        overall = self.outputs.start(rows)
        if not self.offer_spread:
            return overall
        assert self.offer_inputs is not None
        each = [rows.take(rows.level == level) for level in np.flatnonzero(self.offer_inputs.identity).tolist()]
        # Two purchases are the least that say anything of a spread.
        own = [self.outputs.start(part) if int((part.v > 0).sum()) > 1 else overall for part in each]
        return torch.stack([overall, *own])

    def _rows(self, frame: pd.DataFrame) -> FundRows:
        assert self.inputs is not None
        n = len(frame)
        node = events = None
        if self.history is not None or self.graph is not None:
            check_instants(frame)
        if self.scaling is not None and self.graph is not None:
            node = torch.from_numpy(request_rows(frame, self.graph, self.scaling, "customer").node)
        if self.history is not None:
            events = self.history.before(frame["account_id"], frame["snapshot_at"].to_numpy(dtype=np.float64))

        def column(name: str, default: float) -> NDArray[np.float64]:
            return frame[name].to_numpy(dtype=np.float64) if name in frame else np.full(n, default)

        # Without amounts every conversion is one unit: only v > 0 is read then.
        units = column("amount", 0.0) / self.unit if "amount" in frame else column("response", 0.0)
        v = np.log1p(units)
        return FundRows(
            numeric=torch.from_numpy(self.inputs.numeric(frame)),
            category=torch.from_numpy(self.inputs.category(frame)),
            events=events,
            node=node,
            level=torch.from_numpy(column("level", 0.0).astype(np.int64)),
            clicked=torch.from_numpy(column("clicked", 0.0).astype(np.float32)),
            v=torch.from_numpy(v.astype(np.float32)),
            weight=torch.from_numpy((column("weight", 1.0) * column("balancing_weight", 1.0)).astype(np.float32)),
        )

    def _loss(self, network: FundNetwork, rows: FundRows, graph: GraphTensors | Neighbourhoods | None) -> Tensor:
        node = rows.node
        if isinstance(graph, Neighbourhoods):
            graph, node = graph.of(node)
        embedded = network.embed_graph(graph) if graph is not None else None
        raw = network(network.account(rows.numeric, rows.category, rows.events, embedded, node), rows.level)
        total = self.outputs.rows(raw, rows)
        return (total * rows.weight).sum() / rows.weight.sum()
