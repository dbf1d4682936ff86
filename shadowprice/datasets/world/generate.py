"""Generating the tables and the truth of the data set ``world``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.datasets.world.context import RequestContext, draw_context, mean_response
from shadowprice.datasets.world.graph import GraphOptions, WorldGraph, draw_graph, slices
from shadowprice.datasets.world.responses import (
    CUSTOMER_LEVELS,
    MERCHANT_LEVELS,
    customer_response,
    drifted_response,
    merchant_response,
    own_change_point_response,
)
from shadowprice.datasets.world.trial import (
    HOURLY_SHAPE,
    PART,
    TRIAL_DAYS,
    TRIAL_START,
    TrialRows,
    assign,
    expected,
    spill,
)
from shadowprice.errors import InvalidInput
from shadowprice.tables import validate_tables

MARGIN = 400.0
"""Median margin of a redemption, and the margin of a unit of merchant response, minor units."""
IN_MARGIN: Mapping[str, Any] = {"objective": "margin", "worth_customer": "x_margin", "weight_merchant": MARGIN}


@dataclass(frozen=True, kw_only=True)
class WorldOptions(GraphOptions):
    """Options of the generator, with those of its graph.

    trials                 trial requests per account and side
    rho                    strength of influence along edges, 0 for none
    threshold              whether influence counts only where it is positive, which makes it non-linear
    spillover              whether the incentives of an account's partners move its own response
    own_change_point       whether customers differ in the incentive at which they move
    drift_days             days of drift before the trial
    context                weight of a request's merchant, basket and channel in the customer's response, 0 for none
    budget_per_request     minor units per expected request of the campaign day
    day_requests           expected requests of the campaign day, both sides together
    margins                standard deviation of the logarithm of customers' margins, whose median is :data:`MARGIN`, in
                           a campaign for margin; 0: a campaign for responses

    Raises:
        InvalidInput: an option outside its range.
    """

    trials: int = 8
    rho: float = 1.0
    threshold: bool = False
    spillover: bool = False
    own_change_point: bool = False
    drift_days: float = 0.0
    context: float = 0.0
    budget_per_request: float = 24.0
    day_requests: int = 30_000
    margins: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_whole(trials=1, day_requests=1)
        self.check_real("rho", "context", "budget_per_request", "drift_days", "margins")
        if self.drift_days and self.own_change_point:
            raise InvalidInput("has no drift with own_change_point", field="options.drift_days")

    def respond(self, strength: NDArray[np.float64]) -> NDArray[np.float64]:
        """(J, N): true redemption probability of customers with the given trait strengths (N, 2)."""
        if self.own_change_point:
            return own_change_point_response(strength)
        return drifted_response(strength, self.drift_days) if self.drift_days else customer_response(strength)


def generator(seed: int) -> np.random.Generator:
    """Random numbers of the world at a seed: the graph is drawn first, then the trial."""
    return np.random.default_rng(np.random.SeedSequence([seed, 0x5AD0]))


def load(_data: str | None = None, *, seed: int = 0, **options: object) -> Dataset:
    """Generate the world. ``options`` are the fields of :class:`WorldOptions`."""
    unknown = sorted(set(options) - {field.name for field in fields(WorldOptions)})
    require(not unknown, "options of data set 'world'", f"has no option {', '.join(unknown)}")
    chosen = WorldOptions(**options)  # type: ignore[arg-type]
    random = generator(seed)
    graph = draw_graph(chosen, random)
    customers, merchants = graph.customers, graph.merchants

    strength = graph.influence(chosen.rho, chosen.threshold)
    truth_customer = true_response(chosen, graph, strength)
    truth_merchant = merchant_response(strength[merchants])
    profile = HOURLY_SHAPE / HOURLY_SHAPE.sum()

    trial_c = assign(customers, CUSTOMER_LEVELS, chosen.trials, profile, random)
    trial_m = assign(merchants, MERCHANT_LEVELS, chosen.trials, profile, random)
    context: RequestContext | None = None
    mean = expected(truth_customer, trial_c)
    if chosen.context:
        context = draw_context(graph, trial_c.node.astype(np.intp), context_generator(seed))
        mean = chosen.respond(context.moves(graph, strength[trial_c.node], chosen.context))[
            trial_c.level, np.arange(trial_c.row.size)
        ]
    if chosen.spillover:
        mean = spill(mean, trial_c, trial_m, graph)
    redeemed = random.random(mean.size) < mean
    mean = expected(truth_merchant, trial_m)
    before = random.poisson(6.0 * np.exp(0.3 * random.normal(size=mean.size)))
    shares = random.poisson(mean * np.maximum(before, 1))
    # What a large world does not need any more is let go before its tables are checked.
    del mean, strength
    trial = TrialRows(graph.ids, trial_c, trial_m, redeemed, shares, before, context)
    offer = pd.DataFrame(
        {
            "offer_id": [f"coupon-{r}" for r in CUSTOMER_LEVELS] + [f"commission-{r}" for r in MERCHANT_LEVELS],
            "side": ["customer"] * len(CUSTOMER_LEVELS) + ["merchant"] * len(MERCHANT_LEVELS),
            "kind": ["coupon"] * len(CUSTOMER_LEVELS) + ["commission"] * len(MERCHANT_LEVELS),
            "face_value": [*CUSTOMER_LEVELS, *MERCHANT_LEVELS],
        }
    )
    campaign = campaign_table(
        "world",
        pd.Timestamp(TRIAL_START) + pd.Timedelta(days=TRIAL_DAYS + 4),
        int(chosen.budget_per_request * chosen.day_requests),
        cost_basis_merchant="on_grant",
        **(IN_MARGIN if chosen.margins else {"weight_merchant": 1.0}),
        expected_requests=chosen.day_requests,
    )
    accounts = graph.account_parts(TRIAL_START, PART)
    tables = validate_tables(
        {
            "account": _with_margins(accounts, seed, chosen.margins) if chosen.margins else accounts,
            "edge": graph.edge_parts(TRIAL_START, PART, random),
            "offer": offer,
            "exposure": (trial.exposure(part) for part in slices(trial.size, PART)),
            "outcome": (trial.outcome(part) for part in slices(trial.size, PART)),
            "campaign": campaign,
        }
    )
    return Dataset(
        name="world",
        tables=tables,
        split=Split(by="account"),
        truth=_truth_frame(
            graph.ids, {"customer": (customers, truth_customer), "merchant": (merchants, truth_merchant)}
        ),
        notes={
            "source": "simulated: generated with known truth",
            "influence": f"rho = {chosen.rho:g}"
            + (", with a threshold" if chosen.threshold else "")
            + (", with spill-over of incentives" if chosen.spillover else ""),
            "change points": "60 or 120 cents, by customer" if chosen.own_change_point else "80 and 100 cents",
        },
    )


def _with_margins(parts: Iterator[pd.DataFrame], seed: int, spread: float) -> Iterator[pd.DataFrame]:
    """Accounts with the margin of a response of each customer, minor units; it depends on nothing else."""
    random = np.random.default_rng(np.random.SeedSequence([seed, 0x3A26]))
    for part in parts:
        margin = MARGIN * np.exp(spread * random.normal(size=len(part)))
        yield part.assign(x_margin=np.where(part["side"] == "customer", margin, np.nan))


def context_generator(seed: int) -> np.random.Generator:
    """Random numbers of the context of the trial's requests at a seed."""
    return np.random.default_rng(np.random.SeedSequence([seed, 0xC047]))


def true_response(
    options: WorldOptions, graph: WorldGraph, strength: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """(J, N): true response of the customers; with context, the mean over their requests.

    ``strength`` (N, 2) is the influence in the graph, where it is known already.
    """
    strength = graph.influence(options.rho, options.threshold) if strength is None else strength
    if options.context:
        return mean_response(graph, strength, options.context, options.respond)
    return options.respond(strength[graph.customers])


def drifted_truth(days: float, *, seed: int = 0, **options: Any) -> pd.DataFrame:
    """Truth of the accounts of :func:`load` after days of drift, as :attr:`Dataset.truth`; no trial is drawn."""
    chosen = WorldOptions(**options | {"drift_days": days})
    graph = draw_graph(chosen, generator(seed))
    merchants = merchant_response(graph.influence(chosen.rho, chosen.threshold)[graph.merchants])
    customers = true_response(chosen, graph)
    return _truth_frame(graph.ids, {"customer": (graph.customers, customers), "merchant": (graph.merchants, merchants)})


def _truth_frame(
    ids: NDArray[np.str_], truth: Mapping[str, tuple[NDArray[np.intp], NDArray[np.float64]]]
) -> pd.DataFrame:
    """Rows of :attr:`Dataset.truth` from the nodes and responses (J, N) of each side; names are stored once."""
    nodes = [np.tile(own.astype(np.int32), len(response)) for own, response in truth.values()]
    levels = [np.repeat(np.arange(len(response), dtype=np.int8), own.size) for own, response in truth.values()]
    side = np.repeat(np.arange(len(truth), dtype=np.int8), [node.size for node in nodes])
    return pd.DataFrame(
        {
            "account_id": pd.Categorical.from_codes(np.concatenate(nodes), pd.Index(ids, dtype=object)),
            "side": pd.Categorical.from_codes(side, pd.Index(list(truth), dtype=object)),
            "level": np.concatenate(levels),
            "response": np.concatenate([response.ravel() for _, response in truth.values()]),
        }
    )
