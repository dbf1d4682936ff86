"""S2's consumption graph alone: what it is worth where wealth flows along it, and where it does not."""

from __future__ import annotations

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import APART, CHOICE, FIRST, MODELS, OVER, TRUTH, Judged, fit, options
from shadowprice.datasets.funds import draw

COLUMNS = ("AUC", "MSE", OVER, "Gini", CHOICE)
PAIRS = [("ESDPM", "ESDPM-NCG"), ("ESDPM" + APART, "ESDPM-NCG" + APART), ("ESDPM", "ESMM")]


def run(seed: int, quick: bool) -> Rows:
    """The model with and without the graph on both kinds of delivery, and ESMM where wealth flows."""
    found: dict[str, dict[str, float]] = {}
    for suffix, strength, rows in (
        ("", 0.9, ("ESMM", "ESDPM-NCG", "ESDPM")),
        (APART, 0.0, ("ESDPM-NCG", "ESDPM")),
    ):
        judged = Judged(draw(options(quick, strength=strength), FIRST + seed), seed)
        for row in rows:
            name, given = MODELS[row]
            found[row + suffix] = judged.of(fit(name, judged.drawn, judged.learnt, seed, quick, **given))
        found[TRUTH + suffix] = judged.truth()
    return found


def reading(summary: Summary) -> str:
    """Whether the graph helps exactly where it can."""
    told = ["; ".join(summary.sentence(column, *pair) for column in (OVER, "AUC", CHOICE)) for pair in PAIRS]
    return f"{told[0]}. Where no wealth flows along the graph: {told[1]}. Against conversions alone: {told[2]}."


TABLE = Table(
    title="What the consumption graph is worth",
    source="ESDPM against ESDPM-NCG in the offline comparison of S2 (EOCA), data set LCT-D",
    data=(
        "simulated: generated data set `funds`, 700 users × 8 deliveries of 8 funds, 35 % of the users judged; wealth "
        "flows along the consumption graph but in the rows named so"
    ),
    run=run,
    reading=reading,
    seeds=3,
    published={
        "ESMM": {"AUC": 0.8303},
        "ESDPM-NCG": {"AUC": 0.8342, "MSE": 0.0365},
        "ESDPM": {"AUC": 0.8327, "MSE": 0.0362},
    },
    compare=[(column, *pair) for pair in PAIRS for column in COLUMNS],
    fewer_is_better=("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", "RMSE, currency"),
)
