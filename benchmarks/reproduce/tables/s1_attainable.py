"""What can be learned at all from the rows of S1's synthetic promotions, and what freezing the bias net costs of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s1_promotion import FIRST, judge
from shadowprice.datasets.promotion import CENTRE, WIDTH, PromotionOptions, bump, draw

REGIMES: Mapping[str, Mapping[str, Any]] = {
    "(2, 2, 2)": {"features": (2, 2, 2)},
    "(3, 5, 7)": {"features": (3, 5, 7)},
    "(2, 2, 2), control group": {"features": (2, 2, 2), "lowest_share": 0.2},
    "(3, 5, 7), control group": {"features": (3, 5, 7), "lowest_share": 0.2},
}
"""Columns → options: the promotions of s1_table2 and s1_table3, then with one account in five at the lowest level."""
ALL, FROZEN = "best attainable", "best attainable, start frozen"
LOST, WRONG, LOWEST = "lost, %", "error of the curve", "error at the lowest level"

FIRST_DRAWS = 20_000
CHAINS = 48
STEPS = 180
"""Of which the first third is forgotten."""
STEP = 2.38 / np.sqrt(2 * 4)
"""Of differential evolution in four dimensions (ter Braak 2006)."""

Array = NDArray[np.float64]


def curves_at(cube: Array, levels: Sequence[int]) -> Array:
    """(J, n): the curves at points (n, 4) of the unit cube; the promotion's law is uniform on it (NaN: drawn again)."""
    low, rise, centre, width = cube.T
    found = bump(
        CENTRE[0] + (CENTRE[1] - CENTRE[0]) * centre,
        WIDTH[0] + (WIDTH[1] - WIDTH[0]) * width,
        low,
        low + (1 - low) * rise,
    )
    return found[list(levels)]


def attainable(
    learned: pd.DataFrame, asked: pd.DataFrame, levels: Sequence[int], *, seed: int = 0
) -> NDArray[np.float64]:
    """Curves (J, N) of ``asked``: the mean of the true ones given the responses of ``learned`` and the generator's law.

    Each combination of features has a curve of its own, independent of all others, so rows of other combinations say
    nothing. Whoever decides by these means brings the most that can be expected of anyone who has seen those rows and
    no others, however he learns; no model of the tables knows the law.

    Markov chains of every combination at once: started from draws of the law in proportion to their likelihood, moved
    by differential evolution between two halves of them, which mixes however narrow the likelihood is.
    O(combinations · (draws · J + chains · steps · 101)).
    """
    names = [name for name in learned if str(name).startswith("c_")]
    cell = pd.factorize(pd.MultiIndex.from_frame(pd.concat([learned, asked])[names]))[0]
    own, other = cell[: len(learned)], cell[len(learned) :]
    count, size = int(cell.max()) + 1, len(levels)
    at = own * size + learned["level"].to_numpy()
    y = learned["response"].to_numpy(dtype=np.float64)
    yes, no = (np.bincount(at, each, count * size).reshape(count, size) for each in (y, 1 - y))
    random = np.random.default_rng(np.random.SeedSequence([seed, 0xBA7E5]))

    first = random.random((FIRST_DRAWS, 4))
    curve = np.clip(curves_at(first, levels), 1e-12, 1 - 1e-12)
    log = np.nan_to_num(yes @ np.log(curve) + no @ np.log1p(-curve), nan=-np.inf)
    # Gumbel's trick: the largest of log-likelihoods plus noise are a sample without replacement in proportion.
    noisy = log - np.log(-np.log(random.random(log.shape)))
    start = np.argpartition(-noisy, CHAINS, axis=1)[:, :CHAINS]
    place, height = first[start], np.take_along_axis(log, start, axis=1)

    def likelihood(cube: Array) -> Array:
        found = np.clip(curves_at(cube.reshape(-1, 4), levels), 1e-12, 1 - 1e-12).reshape(size, count, -1)
        told = np.einsum("cj,jcn->cn", yes, np.log(found)) + np.einsum("cj,jcn->cn", no, np.log1p(-found))
        return np.asarray(np.nan_to_num(told, nan=-np.inf))

    half = CHAINS // 2
    total, kept = np.zeros((size, count)), 0
    for step in range(STEPS):
        for moved, still in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            partner = np.argsort(random.random((count, half)), axis=1)[..., None]
            one, two = (np.take_along_axis(place[:, still], np.roll(partner, k, axis=1), axis=1) for k in (0, 1))
            # Now and then the whole difference, which jumps between modes.
            gamma = 1.0 if step % 10 == 9 else STEP
            asked_at = place[:, moved] + gamma * (one - two) + 1e-4 * random.normal(size=one.shape)
            inside = ((asked_at >= 0) & (asked_at <= 1)).all(axis=2)
            new = likelihood(np.clip(asked_at, 0, 1))
            taken = inside & (np.log(random.random(new.shape)) < new - height[:, moved])
            place[:, moved] = np.where(taken[..., None], asked_at, place[:, moved])
            height[:, moved] = np.where(taken, new, height[:, moved])
        if step >= STEPS // 3:
            total += curves_at(place.reshape(-1, 4), levels).reshape(size, count, CHAINS).mean(axis=2)
            kept += 1
    mean: NDArray[Any] = total / kept
    return np.asarray(mean[:, other])


def run(seed: int, quick: bool) -> Rows:
    """What is lost of the true response by who has learned all there is to learn, in one phase and in two."""
    found: dict[str, dict[str, float]] = {ALL: {}, FROZEN: {}}
    for regime, options in REGIMES.items():
        drawn = draw(PromotionOptions(rows=2000 if quick else 20_000, **options), FIRST + seed)
        half = len(drawn.frame) // 2
        learned, judged, truth = drawn.frame.iloc[:half], drawn.frame.iloc[half:], drawn.response[:, half:]
        free = attainable(learned, judged, drawn.levels, seed=seed)
        start = attainable(learned[learned["level"] == 0], judged, drawn.levels, seed=seed)[0]
        curves = {ALL: free, FROZEN: np.vstack([start, np.maximum(free[1:], start)])}
        best = judge(truth, judged, truth, drawn.levels)["future response"]
        for row, each in curves.items():
            cells = judge(each, judged, truth, drawn.levels)
            found[row][f"{regime}: {LOST}"] = 100 * (1 - cells["future response"] / best)
            found[row][f"{regime}: {WRONG}"] = cells[WRONG]
            found[row][f"{regime}: {LOWEST}"] = float(np.abs(each[0] - truth[0]).mean())
    return found


def reading(found: Summary) -> str:
    """What is left to win, and what the frozen start takes of it."""
    parts = []
    for regime in REGIMES:
        lost = {row: found.cell(row, f"{regime}: {LOST}").value for row in (ALL, FROZEN)}
        wrong = {row: found.cell(row, f"{regime}: {LOWEST}").value for row in (ALL, FROZEN)}
        parts.append(
            f"{regime}: {lost[ALL]:.1f} % of the true curves' response cannot be had, {lost[FROZEN]:.1f} % when the "
            f"start is frozen ({found.verdict(f'{regime}: {LOST}', FROZEN, ALL)}); the start is off by "
            f"{wrong[ALL]:.3f} and {wrong[FROZEN]:.3f}"
        )
    return (
        f"{'. '.join(parts)}. Both rows know how promotions are drawn, which no model of the tables does: what DIPN, "
        "DNN and lattice lose beyond them is what a better method could win on these rows; what stands here, only "
        "more rows can. Frozen: the start is all that the lowest level's rows tell and nothing else may move it, as in "
        "DIPN's two phases; the rest is as well known as without."
    )


COLUMNS = [f"{regime}: {what}" for regime in REGIMES for what in (LOST, WRONG, LOWEST)]
TABLE = Table(
    title="What can be learned at all from S1's synthetic promotions",
    source="no table of S1; bounds its tables 2 and 3 as measured here (s1_table2, s1_table3)",
    data="simulated: the promotions of s1_table2 and s1_table3, and the same with one account in five at the lowest "
    "level instead of one in 21. Attainable: the mean of the true curves given the 10,000 rows that models learn from "
    "and the law they are drawn by. Lost: of the true response that the true curves would bring at the same budget of "
    "11 per account; errors: mean absolute",
    run=run,
    reading=reading,
    compare=[(f"{regime}: {what}", FROZEN, ALL) for regime in REGIMES for what in (LOST, LOWEST)],
    fewer_is_better=COLUMNS,
)
