"""S2's models on censored amounts: the printed loss, that of a mass of 1, and ZILN."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from torch import Tensor

from research.table import Primary, Rows, Summary, Table
from research.tables.s2.funds import (
    CHOICE,
    FEWER,
    FIRST,
    MASS,
    MODELS,
    NEW,
    OPEN,
    OVER,
    OVER_MONEY,
    QUICK_LATER,
    TRAINING,
    TRUTH,
    Judged,
    fit,
)
from shadowprice.datasets.funds import LEAST, FundOptions, draw
from shadowprice.responses.amounts.losses import LOSSES

USERS, QUICK_USERS = 1_200, 400
FUNDS, DELIVERIES = 4, 16
JUDGED_SHARE = 0.4
LATER = 128
"""Deliveries that a judged user is judged on."""
LEARNING = replace(TRAINING, batch_rows=4096, epochs=30, weight_decay=0.3)
"""Settings of all rows; the decay was chosen on deliveries that no table has."""
OFFSET = 2_200
"""Distance of the first delivery from that of the other tables."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
PRINTED_CLICK, MASS_CLICK, ZILN_CLICK = "ESDPM, given a click", f"{MASS}, given a click", "MTL-ZILN, given a click"
OPEN_CLICK = MASS_CLICK + NEW
MEDIAN, LOGNORMAL = "the truth's medians", "the truth's lognormals"
SAME: dict[str, Any] = {"graph": True, "given_click": True, "offer_spread": True}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ESMM": MODELS["ESMM"],
    "MTL-MSE": MODELS["MTL-MSE"],
    "MTL-ZILN": MODELS["MTL-ZILN"],
    "ESDPM": MODELS["ESDPM"],
    MASS: MODELS[MASS],
    PRINTED_CLICK: ("esdpm", SAME),
    MASS_CLICK: ("esdpm", {"loss": "esj_mass", **SAME}),
    ZILN_CLICK: ("mtl_ziln", SAME),
    OPEN_CLICK: ("esdpm", {"loss": "esj_mass", **SAME, **OPEN}),
}
PAIRS = (
    ("ESDPM", "MTL-ZILN"),
    ("ESDPM", "ESMM"),
    (MASS, "ESDPM"),
    (MASS, "MTL-ZILN"),
    (PRINTED_CLICK, ZILN_CLICK),
    (MASS_CLICK, PRINTED_CLICK),
    (MASS_CLICK, ZILN_CLICK),
    (OPEN_CLICK, MASS_CLICK),
)
COLUMNS = (OVER, OVER_MONEY, CHOICE)


def laws(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> dict[str, tuple[Tensor, Tensor]]:
    """Row → E[PA] and E[log(1 + PA)] (K, N) of a purchase by two laws of amounts, fitted to unlimited draws of wishes
    N(mu, sigma): the median where no sigma is learnt, the lognormal with the true moments of log PA."""
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
    users = QUICK_USERS if quick else USERS
    options = FundOptions(users=users, merchants=users // 20, funds=FUNDS, deliveries=DELIVERIES, censored=True)
    drawn = draw(options, FIRST + OFFSET + seed)
    judged = Judged(drawn, seed, JUDGED_SHARE, QUICK_LATER if quick else LATER)
    found = {
        row: judged.of(fit(name, drawn, judged.learnt, seed, quick, training=LEARNING, **given))
        for row, (name, given) in ROWS.items()
    }
    return found | best_of_their_kind(judged) | {TRUTH: judged.truth()}


def reading(summary: Summary) -> str:
    printed, mass = (summary.finding(CHOICE, *pair) for pair in (("ESDPM", "MTL-ZILN"), (MASS_CLICK, PRINTED_CLICK)))
    return (
        f"The printed ESJ: {printed}. The loss of a mass of 1, which is this world's own law: {mass}. Rows \"given a "
        'click" differ from each other in the loss alone; the losses without networks: [s2_losses](s2_losses.md).'
    )


TABLE = Table(
    title="Models where a latent amount decides the purchase",
    source="S2's claim that purchase and amount are to be learned jointly",
    data=f"`funds` with `censored`, {USERS:,} users × {DELIVERIES} deliveries of {FUNDS} funds, {JUDGED_SHARE:.0%} "
    f"of the users judged, on {LATER} later deliveries each; simulated. **The world is drawn from the law of "
    f'`esj_mass` ("{MASS}"), which favors that loss.** Models of [s2_table1](s2_table1.md) with weight decay '
    f'{LEARNING.weight_decay}. "Given a click": learned from clicked deliveries alone, one sigma for each fund',
    run=run,
    reading=reading,
    primary=Primary(OVER_MONEY, MASS_CLICK, ZILN_CLICK, effect=0.5, spread=0.4),
    compare=[
        (column, *pair)
        for column in COLUMNS
        for pair in PAIRS
        if (column, *pair) != (OVER_MONEY, MASS_CLICK, ZILN_CLICK)
    ],
    fewer_is_better=FEWER,
)
