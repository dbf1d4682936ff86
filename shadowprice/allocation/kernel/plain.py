"""The kernel in numpy, for machines without a compiler and as the reference of the compiled kernel in tests."""

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.kernel.arguments import (
    Bounds,
    Edges,
    Entry,
    Matrix,
    NetCost,
    Real,
    Scored,
    Tile,
    level_type,
)

MARGIN = 4e-9
"""Lead that settles an account, as a share of its scores' terms: above the tie tolerance of the decision."""

CHUNK = 1 << 15


def score(
    tile: Tile, cost: NetCost, low: NDArray[np.float64], high: NDArray[np.float64], *, levels: bool = True
) -> Scored:
    """Score every account at both ends of its pattern's price interval; see :class:`Scored`. O(J·n)."""
    n = tile.accounts
    sums = np.zeros((low.size, 4))
    level = np.empty(n, dtype=level_type(tile.value.shape[0])) if levels else None
    unsettled: list[NDArray[np.int64]] = []
    suspect = False
    for start in range(0, n, CHUNK):
        part = slice(start, min(n, start + CHUNK))
        piece = tile.take(part)
        usable = np.isfinite(piece.value).all() and all(
            np.isfinite(plane).all() and (plane >= 0).all() for plane in piece.planes
        )
        if not usable:
            suspect = True
            unsettled.append(np.arange(start, start + piece.accounts))
            continue
        value, net = piece.value.astype(np.float64), cost.of(piece.planes)
        pattern = np.zeros(piece.accounts, dtype=np.intp) if piece.pattern is None else piece.pattern.astype(np.intp)
        ends = [_best(value, price[pattern] * net, piece.allowed) for price in (low, high)]
        best, settled = ends[0][0], (ends[0][0] == ends[1][0]) & ends[0][1] & ends[1][1]
        columns = np.arange(piece.accounts)
        terms = (value, *(np.broadcast_to(amount, value.shape) for amount in (net, cost.measure(piece.planes))))
        for column, matrix in enumerate(terms):
            np.add.at(sums[:, column], pattern[settled], matrix[best, columns][settled])
        np.add.at(sums[:, 3], pattern[settled], 1.0)
        if level is not None:
            level[part] = best
        unsettled.append(start + np.flatnonzero(~settled))
    account = np.concatenate(unsettled).astype(np.int64)
    return Scored(sums, tile.copied(account), account, level, suspect)


def _best(
    value: Matrix, charge: Matrix, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The best level of each account, and whether it leads by the margin."""
    result = value - charge
    if allowed is not None:
        result = np.where(allowed, result, -np.inf)
    columns = np.arange(value.shape[1])
    best = result.argmax(axis=0)
    lead = result[best, columns]
    rest = result.copy()
    rest[best, columns] = -np.inf
    terms = (np.abs(value) + np.abs(charge)).max(axis=0)
    return best, lead - rest.max(axis=0) > MARGIN * terms


def settle(
    tile: Tile,
    costs: tuple[NetCost, ...],
    low: Matrix,
    high: Matrix,
    *,
    levels: bool = True,
) -> Scored:
    """Find the accounts whose best level is the same at every price in a bracket.

    Level j of an account with pattern p scores ``value_j − Σ_m price_mp · cost_mj``, with M independent
    prices, low_mp ≤ price_mp ≤ high_mp. The best level at the center is best throughout if it leads every other by
    more than Σ_m (half the interval)_m · |difference of cost_m|, which is exact for a bracket.

    ``low``, ``high``: (M, patterns). O(M·J·n).
    """
    n, kinds = tile.accounts, len(costs)
    sums = np.zeros((low.shape[1], 2 + 2 * kinds))
    level = np.empty(n, dtype=level_type(tile.value.shape[0])) if levels else None
    unsettled: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for start in range(0, n, CHUNK):
        part = slice(start, min(n, start + CHUNK))
        piece = tile.take(part)
        value = piece.value.astype(np.float64)
        nets = [np.broadcast_to(cost.of(piece.planes), value.shape) for cost in costs]
        pattern = np.zeros(piece.accounts, dtype=np.intp) if piece.pattern is None else piece.pattern.astype(np.intp)
        columns = np.arange(piece.accounts)
        score, terms = value, np.abs(value)
        for m, net in enumerate(nets):
            charge = (0.5 * (low[m] + high[m]))[pattern] * net
            score, terms = score - charge, terms + np.abs(charge)
        if piece.allowed is not None:
            score = np.where(piece.allowed, score, -np.inf)
        best = score.argmax(axis=0)
        lead = score[best, columns] - score
        for m, net in enumerate(nets):
            lead -= (0.5 * (high[m] - low[m]))[pattern] * np.abs(net[best, columns] - net)
        lead[best, columns] = np.inf
        settled = lead.min(axis=0) > MARGIN * terms.max(axis=0)
        measures = [np.broadcast_to(cost.measure(piece.planes), value.shape) for cost in costs]
        for column, matrix in enumerate((value, *nets, *measures)):
            chosen = matrix[best, columns][settled]
            sums[:, column] += np.bincount(pattern[settled], weights=chosen, minlength=low.shape[1])
        sums[:, -1] += np.bincount(pattern[settled], minlength=low.shape[1])
        if level is not None:
            level[part] = best
        unsettled.append(start + np.flatnonzero(~settled))
    account = np.concatenate(unsettled).astype(np.int64)
    return Scored(sums, tile.copied(account), account, level)


def climb(tile: Tile, cost: NetCost, member: NDArray[np.float64], low: float, high: float) -> Edges:
    """Hull edges with slopes in [low, high] and the level above them; see :class:`Edges`. O(J²·n)."""
    value, allowed = tile.value.astype(np.float64), tile.allowed
    net = np.broadcast_to(cost.of(tile.planes), value.shape)
    if tile.pattern is not None:
        net = net * member[tile.pattern]
    n = value.shape[1]
    accounts = np.arange(n)
    permitted = np.ones(value.shape, dtype=bool) if allowed is None else allowed
    lowest = np.where(permitted, net, np.inf).min(axis=0)
    first = np.where(permitted & (net == lowest), value, -np.inf).argmax(axis=0)
    current = first.copy()
    slopes: list[NDArray[np.float64]] = [np.empty(0)]
    steps: list[NDArray[np.float64]] = [np.empty(0)]
    owners: list[NDArray[np.intp]] = [np.empty(0, dtype=np.intp)]
    while accounts.size:
        gain = value[:, accounts] - value[current, accounts]
        extra = net[:, accounts] - net[current, accounts]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steep = np.where(permitted[:, accounts] & (extra > 0) & (gain > 0), gain / extra, -np.inf)
        best = steep.max(axis=0)
        further = np.where(steep == best, extra, -np.inf).argmax(axis=0)
        rises = (best > 0) & (best >= low)
        silent = rises & (best > high)
        first[accounts[silent]] = further[silent]
        shown = rises & ~silent
        slopes.append(best[shown])
        steps.append(extra[further, np.arange(accounts.size)][shown])
        owners.append(accounts[shown])
        accounts, current = accounts[rises], further[rises]
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return Edges(
        first.astype(np.int32),
        net[first, np.arange(n)],
        np.concatenate(slopes)[order],
        np.concatenate(steps)[order],
        owner[order].astype(np.int64),
    )


def select(slope: NDArray[np.float64], step: NDArray[np.float64], budget: float, none: float) -> float:
    """Return the slope of the first edge, by falling slope, at which the steps sum to more than ``budget``."""
    order = np.argsort(-slope, kind="stable")
    at = int(np.searchsorted(np.cumsum(step[order]), budget, side="right"))
    return none if at == slope.size else float(slope[order[at]])


def scan(array: Real) -> Bounds:
    """Smallest and largest entry of a matrix, without a temporary of its size."""
    least, most, finite = np.inf, -np.inf, True
    for row in array:
        for start in range(0, row.size, CHUNK):
            part = row[start : start + CHUNK]
            finite = finite and bool(np.isfinite(part).all())
            least, most = min(least, float(part.min())), max(most, float(part.max()))
    return Bounds(least, most, finite)


def gather(matrix: NDArray[Entry], starts: NDArray[np.int64], width: int) -> NDArray[Entry]:
    """(J, blocks·width): the blocks of ``width`` neighboring columns that begin at ``starts``."""
    windows = np.lib.stride_tricks.sliding_window_view(matrix, width, axis=1)
    return np.ascontiguousarray(windows[:, starts].reshape(matrix.shape[0], -1))
