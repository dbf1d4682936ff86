"""Posterior mean of S1's synthetic response curves: the best that can be learned from given rows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.datasets.promotion import PARAMETERS, curves_at

FIRST_DRAWS = 20_000
CHAINS = 48
STEPS = 180
"""Steps of a chain; the first third is discarded."""
STEP = 2.38 / np.sqrt(2 * PARAMETERS)
"""Scale of the differences in differential evolution (ter Braak 2006)."""
LEAST = 1e-12
"""Least distance of a response from 0 and 1, which keeps logarithms finite."""

Array = NDArray[np.float64]


def posterior_mean(learned: pd.DataFrame, asked: pd.DataFrame, levels: Sequence[int], *, seed: int = 0) -> Array:
    """Return the curves (J, N) of ``asked``: the mean of the true ones, given the rows ``learned``.

    The prior is the law of the generator, which no model of the tables knows. No method that learns from the same
    rows decides better on average. Each combination of features has a curve of its own, independent of all others.

    Markov chains of all combinations run together. They start from draws of the prior, taken in proportion to
    their likelihood. Differential evolution between two halves of the chains moves them, whatever the width of the
    likelihood. O(combinations · (draws · J + chains · steps · 101)).
    """
    names = [name for name in learned if str(name).startswith("c_")]
    cell = pd.factorize(pd.MultiIndex.from_frame(pd.concat([learned, asked])[names]))[0]
    own, other = cell[: len(learned)], cell[len(learned) :]
    count, size, rows = int(cell.max()) + 1, len(levels), list(levels)
    at = own * size + learned["level"].to_numpy()
    y = learned["response"].to_numpy(dtype=np.float64)
    yes, no = (np.bincount(at, each, count * size).reshape(count, size) for each in (y, 1 - y))
    random = np.random.default_rng(np.random.SeedSequence([seed, 0xBA7E5]))

    first = random.random((FIRST_DRAWS, PARAMETERS))
    curve = np.clip(curves_at(first)[rows], LEAST, 1 - LEAST)
    log = np.nan_to_num(yes @ np.log(curve) + no @ np.log1p(-curve), nan=-np.inf)
    # Gumbel's trick: the largest of log-likelihoods plus noise are a sample without replacement in proportion.
    noisy = log - np.log(-np.log(random.random(log.shape)))
    start = np.argpartition(-noisy, CHAINS, axis=1)[:, :CHAINS]
    place, height = first[start], np.take_along_axis(log, start, axis=1)

    def at_places(places: Array) -> Array:
        return curves_at(places.reshape(-1, PARAMETERS))[rows].reshape(size, count, -1)

    def likelihood(places: Array) -> Array:
        found = np.clip(at_places(places), LEAST, 1 - LEAST)
        logs = np.einsum("cj,jcn->cn", yes, np.log(found)) + np.einsum("cj,jcn->cn", no, np.log1p(-found))
        return np.asarray(np.nan_to_num(logs, nan=-np.inf))

    half = CHAINS // 2
    total, kept = np.zeros((size, count)), 0
    for step in range(STEPS):
        for moved, still in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
            partner = np.argsort(random.random((count, half)), axis=1)[..., None]
            one, two = (np.take_along_axis(place[:, still], np.roll(partner, k, axis=1), axis=1) for k in (0, 1))
            # The whole difference, now and then, jumps between modes.
            gamma = 1.0 if step % 10 == 9 else STEP
            proposed = place[:, moved] + gamma * (one - two) + 1e-4 * random.normal(size=one.shape)
            inside = ((proposed >= 0) & (proposed <= 1)).all(axis=2)
            new = likelihood(np.clip(proposed, 0, 1))
            taken = inside & (np.log(random.random(new.shape)) < new - height[:, moved])
            place[:, moved] = np.where(taken[..., None], proposed, place[:, moved])
            height[:, moved] = np.where(taken, new, height[:, moved])
        if step >= STEPS // 3:
            total += at_places(place).mean(axis=2)
            kept += 1
    return np.asarray((total / kept)[:, other])
