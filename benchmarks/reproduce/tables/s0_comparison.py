"""What S0's tables on the generated world share: methods by name, their errors, and what each buys at one cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reproduce.summary import Summary
from benchmarks.training_set import training_set
from shadowprice.allocation import Problem, Resource, on_response, solve
from shadowprice.evaluation import metrics
from shadowprice.learning.evaluate import true_curves
from shadowprice.learning.train import train
from shadowprice.responses.training import TrainingConfig

OURS = "hazard on graph (ours)"
SIZE: dict[str, Any] = {"customers": 3000, "merchants": 750, "both": 75}
QUICK_SIZE: dict[str, Any] = {"customers": 600, "merchants": 200, "both": 20, "trials": 4}
ERROR = "curve error"
PAYMENTS = "payments"
BUDGET = 30
"""Minor units per account of the test split."""


def measure(
    methods: Mapping[str, str], seed: int, quick: bool, **options: Any
) -> tuple[dict[str, dict[str, float]], NDArray[np.float64]]:
    """Every method (row → recipe) on one world: errors on held-out accounts, true responses bought at one cost.

    Returns the rows and the true curves (J, N) of the held-out customers. ``options`` are those of the world.
    """
    dataset, data = training_set("world", seed, **{**(QUICK_SIZE if quick else SIZE), **options})
    assert dataset.truth is not None
    config = TrainingConfig(seed=seed, epochs=40 if quick else 400)
    test = data.part("test")
    accounts = test["customer"].drop_duplicates("account_id").reset_index(drop=True)
    levels = np.asarray(data.levels["customer"])
    truth = true_curves(dataset.truth, "customer", accounts["account_id"], levels.size)
    found: dict[str, dict[str, float]] = {}
    for method, name in methods.items():
        model, _ = train(data, name, config, report=quiet)
        curves = model.curves(data.snapshots, test)
        row: dict[str, float] = {}
        for side, frame in test.items():
            y = frame["response"].to_numpy(dtype=np.float64)
            p = curves[side].response[frame["level"].to_numpy(dtype=np.int64), np.arange(y.size)].astype(np.float64)
            if side == "customer":
                row["AUC_c"] = float(metrics.auc(y, p))
            row[f"MAE_{side[0]}"], row[f"MSE_{side[0]}"] = float(metrics.mae(y, p)), float(metrics.mse(y, p))
        own = model.curves(data.snapshots, {"customer": accounts})["customer"].response
        row[ERROR] = float(np.sqrt(((own - truth) ** 2).mean()))
        row[PAYMENTS] = at_equal_cost(own, truth, levels, BUDGET)
        limit = Resource.total("budget", on_response(levels), float(BUDGET * own.shape[1]))
        chosen = solve(Problem(own, [limit])).level
        spent = float((truth[chosen, np.arange(chosen.size)] * levels[chosen]).mean())
        row["overspend, %"] = 100 * abs(spent / BUDGET - 1)
        found[method] = row
    return found, truth


def quiet(_epoch: dict[str, float]) -> None:
    """The worker shows the progress."""


def at_equal_cost(
    response: NDArray[np.floating[Any]], truth: NDArray[np.float64], levels: NDArray[np.int64], budget: float
) -> float:
    """Mean true response when everyone gets argmax f − λ·r·f at the λ whose *true* mean cost is ``budget``.

    Pacing holds the spend whatever a model believes, so this is what its choice of accounts is worth. Between the two
    prices around the budget the response is interpolated. ``response``, ``truth`` (J, N).
    """
    every = np.arange(truth.shape[1])

    def at(price: float) -> tuple[float, float]:
        chosen = np.argmax(response * (1.0 - price * levels[:, None]), axis=0)
        bought = truth[chosen, every]
        return float((bought * levels[chosen]).mean()), float(bought.mean())

    low, high = 0.0, 1.0 / float(levels[levels > 0].min())
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle)[0] > budget else (low, middle)
    (dear, much), (cheap, little) = at(low), at(high)
    share = (budget - cheap) / (dear - cheap) if dear > cheap else 0.0
    return little + float(np.clip(share, 0.0, 1.0)) * (much - little)


def against(found: Summary, column: str, others: Sequence[str]) -> str:
    """Ours against the others on one column, those of one verdict together."""
    groups: dict[str, list[str]] = {}
    for other in others:
        groups.setdefault(found.verdict(column, OURS, other), []).append(other)
    words = {"better": "better than", "worse": "worse than", "equal": "equal to"}
    parts = [f"{words.get(verdict, 'not told apart from')} {', '.join(them)}" for verdict, them in groups.items()]
    return f"on {column} {'; '.join(parts)}"
