"""S2's models where a wish decides both whether somebody buys and how much: networks that differ in what they hear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import (
    CHOICE,
    FIRST,
    MASS,
    MODELS,
    OVER,
    TRAINING,
    TRUTH,
    Judged,
    against,
    fit,
)
from shadowprice.datasets.funds import FundOptions, draw

USERS, QUICK_USERS = 5_000, 400
JUDGED_SHARE = 0.4
LATER, QUICK_LATER = 64, 8
"""Deliveries of a judged user after those learnt from, so that the noise of outcomes is small."""
OFFSET = 700
"""Of the first delivery, from that of the other tables; everything was chosen on others."""
JOINT, HEARD = "ESDPM, joint law", "MTL-ZILN, heard as ESDPM"
SAME: dict[str, Any] = {"graph": True, "given_click": True, "offer_spread": True}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ESMM": MODELS["ESMM"],
    "MTL-MSE": MODELS["MTL-MSE"],
    "MTL-ZILN": MODELS["MTL-ZILN"],
    MASS: MODELS[MASS],
    JOINT: ("esdpm", {"loss": "esj_mass", **SAME}),
    HEARD: ("mtl_ziln", SAME),
}
BASELINES = ("ESMM", "MTL-MSE", "MTL-ZILN")
COLUMNS = ("MSE", OVER, "THA", CHOICE)


def run(seed: int, quick: bool) -> Rows:
    """Every model on a delivery in which wishes decide, judged on later deliveries of users not learnt from."""
    users = QUICK_USERS if quick else USERS
    drawn = draw(FundOptions(users=users, merchants=users // 20, wishes=True), FIRST + OFFSET + seed)
    judged = Judged(drawn, seed, JUDGED_SHARE, QUICK_LATER if quick else LATER)
    found: dict[str, dict[str, float]] = {}
    for row, (name, given) in ROWS.items():
        training = replace(TRAINING, batch_rows=2 * TRAINING.batch_rows)
        found[row] = judged.of(fit(name, drawn, judged.learnt, seed, quick, training=training, **given))
    return found | {TRUTH: judged.truth()}


def reading(summary: Summary) -> str:
    """How the joint law stands to what S2 names, and how much of that is the loss and how much what it hears."""
    told = "; ".join(against(summary, column, JOINT, BASELINES) for column in COLUMNS)
    loss = "; ".join(against(summary, column, JOINT, (HEARD, MASS)) for column in COLUMNS)
    return (
        f"{told[0].upper()}{told[1:]}. How much of it is the loss: {loss}. {HEARD} differs from {JOINT} in the loss "
        f"alone; {MASS} in what it hears and in whose sigma it is. The losses alone: [s2_losses](s2_losses.md)."
    )


TABLE = Table(
    title="Models where a wish decides the purchase and its amount",
    source="the claim of S2 (EOCA) that purchase and amount are to be learnt jointly",
    data=(
        f"simulated: generated data set `funds` with `wishes`, {USERS:,} users × 8 deliveries of 8 funds, "
        f"{JUDGED_SHARE:.0%} of the users judged, on {LATER} later deliveries each. ESMM, MTL-MSE, MTL-ZILN and "
        f'"{MASS}" are those of [s2_table1](s2_table1.md). "{JOINT}" is ESDPM with the loss `esj_mass` '
        "that hears purchases and amounts of clicked deliveries alone, with one sigma for each fund; "
        f'"{HEARD}" is MTL-ZILN so. Behaviour and features are the same, and the graph of all but ESMM'
    ),
    run=run,
    reading=reading,
    compare=[(column, JOINT, other) for column in COLUMNS for other in (*BASELINES, HEARD, MASS)],
    fewer_is_better=("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", "RMSE, currency"),
)
