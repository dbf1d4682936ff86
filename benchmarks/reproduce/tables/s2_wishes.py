"""S2's models where a wish decides both whether somebody buys and how much: networks that differ in what they hear."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import (
    CHOICE,
    FEWER,
    FIRST,
    MODELS,
    MONEY,
    OVER,
    OVER_MONEY,
    QUICK_LATER,
    TRAINING,
    TRUTH,
    Judged,
    against,
    fit,
)
from shadowprice.datasets.funds import LEAST, FundOptions, draw
from shadowprice.responses.funds.losses import LOSSES

USERS, QUICK_USERS = 5_000, 400
FUNDS, DELIVERIES = 4, 16
JUDGED_SHARE = 0.4
LATER = 512
"""Deliveries that a judged user is judged on."""
NETWORKS = 3
"""What is said is the mean of so many, which start apart: how well one of them is learnt is chance."""
LEARNING = replace(TRAINING, batch_rows=4096, epochs=40, patience=6, weight_decay=0.3)
"""Of all rows alike; the decay was chosen on deliveries that no table has."""
OFFSET = 2_200
"""Of the first delivery, from that of the other tables; everything was chosen on others."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
JOINT, HEARD = "ESDPM, joint law", "MTL-ZILN, heard as ESDPM"
MEDIAN, LOGNORMAL = "the truth's medians", "the truth's lognormals"
SAME: dict[str, Any] = {"graph": True, "given_click": True, "offer_spread": True}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ESMM": MODELS["ESMM"],
    "MTL-MSE": MODELS["MTL-MSE"],
    "MTL-ZILN": MODELS["MTL-ZILN"],
    JOINT: ("esdpm", {"loss": "esj_mass", **SAME}),
    HEARD: ("mtl_ziln", SAME),
}
BASELINES = ("ESMM", "MTL-MSE", "MTL-ZILN")
COLUMNS = ("MSE", OVER, MONEY, OVER_MONEY, "THA", CHOICE)


def laws(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> dict[str, tuple[Tensor, Tensor]]:
    """Row → E[PA] and E[log(1 + PA)] (K, N) of a purchase by two laws of amounts that have learnt without end from
    wishes N(mu, sigma): the median where no sigma is learnt, the lognormal with the true moments of log PA."""
    ranks = 0.5 * (NODES + 1)
    v = mu[..., None] - sigma[..., None] * ndtri(ndtr((mu - LEAST) / sigma)[..., None] * ranks)
    log_amount = np.log(np.expm1(v))
    mean = log_amount @ WEIGHTS / 2
    spread = np.sqrt((log_amount - mean[..., None]) ** 2 @ WEIGHTS / 2)
    found = {}
    for row, loss, middle in ((MEDIAN, "mse", v @ WEIGHTS / 2), (LOGNORMAL, "ziln", mean)):
        given = torch.from_numpy(middle), torch.from_numpy(spread)
        found[row] = LOSSES[loss].amount(*given), LOSSES[loss].log_amount(*given)
    return found


def best_of_their_kind(judged: Judged) -> dict[str, dict[str, float]]:
    """The figures of true chances with the amounts of :func:`laws`."""
    drawn = judged.drawn
    place = np.searchsorted(drawn.users["account_id"], judged.users["account_id"])
    found = laws(*(each[:, place].astype(float) for each in (drawn.mu, drawn.sigma)))
    p = judged.convert
    return {row: judged.figures(p, p * amount.numpy(), p * log.numpy()) for row, (amount, log) in found.items()}


def run(seed: int, quick: bool) -> Rows:
    """Every model on a delivery in which wishes decide, judged on later deliveries of users not learnt from."""
    users = QUICK_USERS if quick else USERS
    options = FundOptions(users=users, merchants=users // 20, funds=FUNDS, deliveries=DELIVERIES, wishes=True)
    drawn = draw(options, FIRST + OFFSET + seed)
    judged = Judged(drawn, seed, JUDGED_SHARE, QUICK_LATER if quick else LATER)
    found: dict[str, dict[str, float]] = {}
    for row, (name, given) in ROWS.items():
        starts = range(seed, seed + 1000 * NETWORKS, 1000)
        networks = [fit(name, drawn, judged.learnt, start, quick, training=LEARNING, **given) for start in starts]
        said = zip(*(judged.said(each) for each in networks), strict=True)
        found[row] = judged.figures(*(np.mean(each, axis=0) for each in said))
    return found | best_of_their_kind(judged) | {TRUTH: judged.truth()}


def reading(summary: Summary) -> str:
    """How the joint law stands to what S2 names, and how much of that is the loss and how much what it hears."""
    told = "; ".join(against(summary, column, JOINT, BASELINES) for column in COLUMNS)
    loss = "; ".join(against(summary, column, JOINT, (HEARD,)) for column in COLUMNS)
    return (
        f"{told[0].upper()}{told[1:]}. How much of it is the loss: {loss}. {HEARD} differs from {JOINT} in the loss "
        f"alone. What {MEDIAN} and {LOGNORMAL} miss no data mends: they are MTL-MSE and MTL-ZILN that know everything "
        "but the law of the amounts. The losses alone: [s2_losses](s2_losses.md)."
    )


TABLE = Table(
    title="Models where a wish decides the purchase and its amount",
    source="the claim of S2 (EOCA) that purchase and amount are to be learnt jointly",
    data=(
        f"simulated: generated data set `funds` with `wishes`, {USERS:,} users × {DELIVERIES} deliveries of {FUNDS} "
        f"funds, {JUDGED_SHARE:.0%} of the users judged, on {LATER} later deliveries each. What a row says is the mean "
        f"of {NETWORKS} networks. ESMM, MTL-MSE and MTL-ZILN are those of [s2_table1](s2_table1.md), learnt with a "
        f"weight decay of {LEARNING.weight_decay}, as all here. MSE and MAE are of the expected log(1 + amount), "
        f'errors in currency of the expected amount, in units. "{JOINT}" is ESDPM with the loss `esj_mass` '
        "that hears purchases and amounts of clicked deliveries alone, with one sigma for each fund; "
        f'"{HEARD}" is MTL-ZILN so. Behaviour and features are the same, and the graph of all but ESMM. '
        f'"{MEDIAN}" and "{LOGNORMAL}" are the true chances with the median and the lognormal that are nearest to the '
        "true amounts"
    ),
    run=run,
    reading=reading,
    compare=[(column, JOINT, other) for column in COLUMNS for other in (*BASELINES, HEARD)],
    fewer_is_better=FEWER,
)
