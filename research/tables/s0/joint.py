"""S0's central claim: customers and merchants optimized jointly, against each side with a budget of its own."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.world.equal_cost import Choices, attainable, best_split, value_at_cost
from benchmarks.world.training_set import training_set
from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import WORLD, size
from research.trained import config, trained
from shadowprice.campaign import SIDES, CostBasis, Side, Terms
from shadowprice.datasets.truth import true_curves
from shadowprice.learning.training_set import TrainingSet

Curves = Mapping[Side, NDArray[np.float64]]
"""Side → (J, N), the response of every held-out account at each level."""
BUDGETS = (12, 24, 36)
"""Minor units per request; ``world`` is given 24."""
BASES: Mapping[CostBasis, str] = {"on_grant": "eq. 17–20", "on_response": "eq. 16"}
"""Cost basis of merchants → S0's equations with that basis."""
JOINT, SEPARATE, TRUE = "joint training", "separate training", "true curves"
ONE_PRICE, REQUESTS, TRIAL, HINDSIGHT = (
    "one budget",
    "budgets by requests",
    "budgets by trial spend",
    "best split in hindsight",
)
FLAT = "best flat mixture"
SHARE = "attainable gain, %"
"""Column of the world's own budget under the paper's rule."""


def loss(basis: CostBasis, budget: int) -> str:
    """Name of a column: value that is missing to the optimum of the true curves, in percent."""
    return f"loss, %: {BASES[basis]}, {budget}"


MAIN = loss("on_grant", 24)


def run(seed: int, quick: bool) -> Rows:
    dataset, data = training_set("world", seed, **size(quick))
    assert dataset.truth is not None
    held_out = {
        side: rows.drop_duplicates("account_id").reset_index(drop=True) for side, rows in data.part("test").items()
    }
    truth = {
        side: true_curves(dataset.truth, side, rows["account_id"], len(data.levels[side]))
        for side, rows in held_out.items()
    }

    def curves(part: TrainingSet) -> Curves:
        model = trained(part, "joint_gnn", config(seed, quick))
        found = model.curves(part.inputs, {side: held_out[side] for side in part.rows})
        return {side: each.response.astype(np.float64) for side, each in found.items()}

    separate: dict[Side, NDArray[np.float64]] = {}
    for side in SIDES:
        separate |= curves(one_side(data, side))
    believed = {JOINT: curves(data), SEPARATE: separate, TRUE: truth}
    trial = {
        basis: {side: truth[side].shape[1] * trial_spend(data, side, terms(data.levels, basis)[side]) for side in SIDES}
        for basis in BASES
    }
    return losses(believed, truth, data.levels, trial)


def one_side(data: TrainingSet, side: Side) -> TrainingSet:
    """The training set without the requests of the other side; the graph stays whole."""
    return replace(
        data, rows={side: data.rows[side]}, serving={side: data.serving[side]}, levels={side: data.levels[side]}
    )


def terms(levels: Mapping[Side, tuple[int, ...]], merchants: CostBasis) -> dict[Side, Terms]:
    """Terms of both sides: customers are paid on response, merchants by the equations in use."""
    return {
        "customer": Terms(levels=levels["customer"], cost_basis="on_response"),
        "merchant": Terms(levels=levels["merchant"], cost_basis=merchants),
    }


def trial_spend(data: TrainingSet, side: Side, own: Terms) -> float:
    """Mean cost of a trial request of one side, minor units."""
    rows = data.part("train")[side]
    response = np.broadcast_to(rows["response"].to_numpy(dtype=np.float64), (len(own.levels), len(rows)))
    return float(own.cost(response)[rows["level"].to_numpy(dtype=np.int64), np.arange(len(rows))].mean())


def losses(
    believed: Mapping[str, Curves],
    truth: Curves,
    levels: Mapping[Side, tuple[int, ...]],
    trial: Mapping[CostBasis, Mapping[Side, float]],
) -> dict[str, dict[str, float]]:
    """Return the table at one seed.

    Args:
        believed: training → its curves.
        truth: the true curves.
        levels: of each side, minor units.
        trial: basis → side → what the held-out accounts would cost at the levels of the trial.
    """
    rows: dict[str, dict[str, float]] = {}
    requests = {side: float(truth[side].shape[1]) for side in SIDES}
    for basis in BASES:
        offered = terms(levels, basis)
        sides = {name: choices(curves, truth, offered) for name, curves in believed.items()}
        for budget in BUDGETS:
            total = budget * sum(requests.values())
            between = attainable(sides[TRUE], total)
            values: dict[str, float] = {FLAT: between.flat}
            for name, each in sides.items():
                values[f"{name}, {ONE_PRICE}"] = value_at_cost(each, total)
                for how, weight in ((REQUESTS, requests), (TRIAL, trial[basis])):
                    values[f"{name}, {how}"] = split_value(each, total, weight)
            values[f"{JOINT}, {HINDSIGHT}"] = best_split(sides[JOINT], total)
            for row, value in values.items():
                rows.setdefault(row, {})[loss(basis, budget)] = 100 * (1 - value / between.best)
                if loss(basis, budget) == MAIN:
                    rows[row][SHARE] = 100 * between.share(value)
    return rows


def choices(believed: Curves, truth: Curves, offered: Mapping[Side, Terms]) -> list[Choices]:
    return [
        Choices(
            offered[side].value(believed[side]),
            offered[side].cost(believed[side]),
            offered[side].value(truth[side]),
            offered[side].cost(truth[side]),
        )
        for side in SIDES
    ]


def split_value(sides: list[Choices], total: float, weight: Mapping[Side, float]) -> float:
    """Value where each side spends its share of the budget by a price of its own."""
    mass = sum(weight.values())
    return sum(value_at_cost([each], total * weight[side] / mass) for side, each in zip(SIDES, sides, strict=True))


def reading(found: Summary) -> str:
    training, budget = (found.finding(MAIN, *pair) for pair in (TRAINING, BUDGET))
    return f"The verdict is the sum of two steps. Training: {training}; budget: {budget}."


TRAINING = (f"{JOINT}, {REQUESTS}", f"{SEPARATE}, {REQUESTS}")
BUDGET = (f"{JOINT}, {ONE_PRICE}", f"{JOINT}, {REQUESTS}")
PRIMARY = (MAIN, f"{JOINT}, {ONE_PRICE}", f"{SEPARATE}, {REQUESTS}")

TABLE = Table(
    title="Joint against separate optimization of customers and merchants",
    source="S0's claim in sections 1 and 4, which its tables do not measure",
    data=f"the {WORLD}, one request of each held-out account of both sides. Loss: true value short of the optimum at "
    "the same true cost, at 24 minor units a request. Merchants are paid for certain (eq. 17–20, the paper's rule), "
    "customers on response. Separate training has a network for each side on the same graph",
    run=run,
    primary=Primary(*PRIMARY, effect=0.5, spread=0.45),
    compare=[
        *(
            (loss(basis, budget), f"{JOINT}, {ONE_PRICE}", f"{SEPARATE}, {REQUESTS}")
            for basis in BASES
            for budget in BUDGETS
            if loss(basis, budget) != MAIN
        ),
        (MAIN, *TRAINING),
        *(
            (loss(basis, 24), f"{JOINT}, {ONE_PRICE}", other)
            for basis in BASES
            for other in (
                f"{JOINT}, {REQUESTS}",
                f"{JOINT}, {TRIAL}",
                f"{JOINT}, {HINDSIGHT}",
                f"{SEPARATE}, {ONE_PRICE}",
            )
        ),
        *(
            (loss(basis, budget), f"{TRUE}, {ONE_PRICE}", f"{TRUE}, {REQUESTS}")
            for basis in BASES
            for budget in BUDGETS
        ),
    ],
    fewer_is_better=[loss(basis, budget) for basis in BASES for budget in BUDGETS],
    reading=reading,
)
