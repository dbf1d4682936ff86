"""Shared parts of S0's tables on the generated world: methods by name, their errors, and their value at one cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.world.equal_cost import Choices, attainable, value_at_cost
from benchmarks.world.training_set import training_set
from research.trained import config, trained
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.datasets.truth import true_curves
from shadowprice.evaluation import metrics

OURS, EQUATION_1 = "hazard on sgc2 (ours)", "hazard on gcn2 (equation 1)"
WORLD = "[world of S0](README.md#the-world-of-s0)"
"""Link to the description of the world, which the index has."""
SIZE: dict[str, Any] = {"customers": 2000, "merchants": 500, "both": 50}
QUICK_SIZE: dict[str, Any] = {"customers": 600, "merchants": 200, "both": 20, "trials": 4}
ERROR = "curve error"
FEWER = ["MAE_c", "MSE_c", "MAE_m", "MSE_m", ERROR, "overspend, %"]
"""Columns of :func:`measure` in which less is better."""
PAYMENTS, SHARE = "payments", "attainable gain, %"
BUDGET = 30
"""Minor units per account of the test split."""


def size(quick: bool) -> dict[str, Any]:
    """Options of the world that set its number of accounts."""
    return QUICK_SIZE if quick else SIZE


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The customers that no method was trained on.

    account_id  str (N,)
    truth       float64 (J, N), their true curves
    """

    account_id: NDArray[np.str_]
    truth: NDArray[np.float64]


def measure(
    methods: Mapping[str, str], seed: int, quick: bool, *, budget: float = BUDGET, **options: Any
) -> tuple[dict[str, dict[str, float]], HeldOut]:
    """Every method (row → recipe) on one world: errors on held-out accounts, true responses bought at one cost.

    Returns the rows and the held-out customers. ``budget`` is in minor units per account;
    ``options`` are those of the world.
    """
    dataset, data = training_set("world", seed, **{**size(quick), **options})
    assert dataset.truth is not None
    test = data.part("test")
    accounts = test["customer"].drop_duplicates("account_id").reset_index(drop=True)
    levels = np.asarray(data.levels["customer"])
    truth = true_curves(dataset.truth, "customer", accounts["account_id"], levels.size)
    found: dict[str, dict[str, float]] = {}
    for method, name in methods.items():
        model = trained(data, name, config(seed, quick))
        curves = model.curves(data.inputs, test)
        row: dict[str, float] = {}
        for side, frame in test.items():
            y = frame["response"].to_numpy(dtype=np.float64)
            p = curves[side].response[frame["level"].to_numpy(dtype=np.int64), np.arange(y.size)].astype(np.float64)
            if side == "customer":
                row["AUC_c"] = float(metrics.auc(y, p))
            row[f"MAE_{side[0]}"], row[f"MSE_{side[0]}"] = float(metrics.mae(y, p)), float(metrics.mse(y, p))
        own = model.curves(data.inputs, {"customer": accounts})["customer"].response
        row[ERROR] = float(np.sqrt(((own - truth) ** 2).mean()))
        row |= decisions(own, truth, levels, budget)
        limit = Resource.total("budget", on_response(levels), float(budget * own.shape[1]))
        chosen = solve(Problem(own, [limit])).level
        spent = float((truth[chosen, np.arange(chosen.size)] * levels[chosen]).mean())
        row["overspend, %"] = 100 * abs(spent / budget - 1)
        found[method] = row
    return found, HeldOut(accounts["account_id"].to_numpy(dtype=np.str_), truth)


def by_response(believed: NDArray[np.floating[Any]], truth: NDArray[np.float64], levels: NDArray[np.int64]) -> Choices:
    """The decisions on curves (J, N) whose incentives are paid on response."""
    paid = levels[:, None]
    return Choices(believed, paid * believed, truth, paid * truth)


def decisions(
    believed: NDArray[np.floating[Any]], truth: NDArray[np.float64], levels: NDArray[np.int64], budget: float
) -> dict[str, float]:
    """Return the payments per account at the price whose true cost per account is ``budget``, and their share.

    The share is that of the gain which the true curves earn over the best flat mixture of levels.
    """
    total = budget * truth.shape[1]
    chosen = [by_response(believed, truth, levels)]
    bought = value_at_cost(chosen, total)
    return {PAYMENTS: bought / truth.shape[1], SHARE: 100 * attainable(chosen, total).share(bought)}


def relative(found: dict[str, dict[str, float]], base: str) -> str:
    """Replace payments by their difference, %, from those of one row, and return the name of the column."""
    name = f"payments at equal cost, % over {base}"
    reference = found[base][PAYMENTS]
    for row in found.values():
        if PAYMENTS in row:
            row[name] = 100 * (row.pop(PAYMENTS) / reference - 1)
    return name
