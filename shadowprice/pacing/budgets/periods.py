"""Parts of a window by the days and hours that further budgets are limited in."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.campaign import Campaign, Side
from shadowprice.limits import GroupBudget, Period
from shadowprice.pacing.spend import SpendReport

MOST_PARTS = 4
"""Parts of a window that are told apart; the periods after them are one part, with the sum of their limits."""
MOST_COLUMNS = 1 << 16
"""Accounts times parts of a side: of more accounts a sample is solved."""
LATER = "later"


def parts_of(
    campaign: Campaign,
    remaining: Mapping[Side, NDArray[np.float64]],
    slot: int,
    in_hand: Mapping[str, float],
    own: Mapping[str, float] = MappingProxyType({}),
    at: float = 0.0,
) -> tuple[list[Part], list[Row]]:
    """Divide the requests to come by the periods of the campaign's budgets.

    Args:
        campaign: with further budgets.
        remaining: side → (slots,), requests expected in the rest of this slot and in each later one.
        slot: of the first entry.
        in_hand: name → minor units in hand of each further budget in its present period; those that are not named do
            not limit.
        own: name → part of a budget's later periods that is this campaign's; 1 where it is not named.
        at: hours since the window opened, where it is later than the beginning of the first slot.

    Returns:
        The parts, the present one first, and the rows. The row of a budget's present period has the budget's name. A
        later period has the whole limit, or the campaign's share of it. O(slots · budgets).
    """
    budgets = [group_budget for group_budget in campaign.group_budgets if group_budget.name in in_hand]
    periods: list[Period] = sorted({budget.period for budget in budgets} - {"campaign"})
    pieces = _pieces(campaign, periods, max(map(len, remaining.values())), slot, at)
    keys = list(dict.fromkeys(tuple(span.labels.values()) for span in pieces))
    part_of = [min(keys.index(tuple(span.labels.values())), MOST_PARTS) for span in pieces]
    rows: dict[tuple[str, str], Row] = {}
    parts = []
    for number in range(min(len(keys), MOST_PARTS + 1)):
        inside = [piece for piece, part in zip(pieces, part_of, strict=True) if part == number]
        labels = [piece.labels for piece in inside]
        here = {budget.name: _row(rows, budget, labels, pieces[0].labels, in_hand, own) for budget in budgets}
        shares: dict[Side, float] = {
            side: float(sum(mine[span.slot] * span.share for span in inside if span.slot < mine.size) / mine.sum())
            for side, mine in remaining.items()
            if mine.sum() > 0
        }
        if any(shares.values()):
            places = {row.name: campaign.group_budgets.index(row.budget) for row in here.values()}
            parts.append(Part(shares, places))
    return parts, list(rows.values())


def bending(
    rows: Sequence[Row],
    spend: SpendReport,
    bounds: Mapping[Side, Mapping[str, NDArray[np.float64]]] = MappingProxyType({}),
) -> list[Row]:
    """Return the rows of a window; once a request was decided, sums of second outcomes bend.

    The first price is refused where a sum cannot be met. Later the campaign needs a price of its money in any case.

    Args:
        rows: of the window.
        spend: so far.
        bounds: side → second outcome → (2, J), limits of the 95 % interval of its mean at each level.
    """
    begun = any(spend.requests.values())
    return [
        replace(
            row,
            bends=begun,
            bounds={side: known[row.budget.outcome] for side, known in bounds.items() if row.budget.outcome in known},
        )
        for row in rows
    ]


class _Piece(NamedTuple):
    """Part of the rest of a slot that lies in one period of each kind.

    slot    place of the slot
    share   of the rest of the slot
    labels  kind of period → the one that the piece lies in
    """

    slot: int
    share: float
    labels: dict[Period, str]


def _pieces(campaign: Campaign, periods: Sequence[Period], slots: int, slot: int, at: float) -> list[_Piece]:
    """Divide slots at the hours, at which periods begin; of the first slot only what is left counts."""
    pieces, start, calendar = [], campaign.starts_at.astimezone(UTC), campaign.limits.calendar
    for place in range(slots):
        opens = start + timedelta(hours=max(slot, 0) + place)
        begin = max(opens, start + timedelta(hours=at))
        end = opens + timedelta(hours=1)
        for one, other in pairwise(calendar.cuts(begin, end)):
            share = (other - one) / (end - begin) if end > begin else 1.0
            pieces.append(_Piece(place, share, {period: calendar.name(period, one) for period in periods}))
    return pieces


def whole_limit(campaign: Campaign, budget: GroupBudget) -> float:
    """Minor units that a further budget allows in all its periods of the window together; of a mean what it has: 0."""
    if budget.form != "total":
        return 0.0
    hours = (campaign.starts_at + timedelta(hours=hour) for hour in range(campaign.hours))
    return float(budget.limit) * len({campaign.limits.calendar.name(budget.period, hour) for hour in hours})


def plans_of(
    campaign: Campaign,
    remaining: Mapping[Side, NDArray[np.float64]],
    slot: int,
    used: Mapping[str, float],
    to_come: Mapping[str, Mapping[Side, float]],
    at: float = 0.0,
) -> dict[str, tuple[float, ...]]:
    """Return the plan of further budgets: minor units now, and at the end of each slot of its present period.

    Args:
        campaign: with further budgets.
        remaining: side → (slots,), requests expected in the rest of this slot and in each later one.
        slot: of the first entry.
        used: name → minor units so far in the present period.
        to_come: name → side → minor units that are to be spent in the rest of that period.
        at: hours since the window opened, where it is later than the beginning of the first slot.

    O(slots · budgets).
    """
    start, slots = campaign.starts_at + timedelta(hours=max(slot, 0)), max(map(len, remaining.values()))
    plans = {}
    for group_budget in campaign.group_budgets:
        if group_budget.name not in used:
            continue
        times = [start + timedelta(hours=place) for place in range(slots)]
        times[0] = max(start, campaign.starts_at + timedelta(hours=at))
        labels = [campaign.limits.calendar.name(group_budget.period, time) for time in times]
        by_slot = np.zeros(labels.count(labels[0]))
        for side, mine in remaining.items():
            ahead = mine[: by_slot.size]
            by_slot[: ahead.size] += to_come[group_budget.name].get(side, 0.0) * ahead / max(ahead.sum(), 1e-12)
        plans[group_budget.name] = (used[group_budget.name], *(used[group_budget.name] + np.cumsum(by_slot)).tolist())
    return plans


def _row(
    rows: dict[tuple[str, str], Row],
    budget: GroupBudget,
    labels: Sequence[Mapping[Period, str]],
    present: Mapping[Period, str],
    in_hand: Mapping[str, float],
    of_campaign: Mapping[str, float],
) -> Row:
    """Row of a budget in the period of some slots; periods that are merged have one row."""
    now, own = present.get(budget.period, ""), {part_labels.get(budget.period, "") for part_labels in labels}
    label = next(iter(own)) if len(own) == 1 else LATER
    if (budget.name, label) not in rows:
        name = budget.name if label == now else f"{budget.name}|{label}"
        # A period that an earlier part began has its money there.
        later = sum((budget.name, period) not in rows for period in own)
        amount = in_hand[budget.name] if label == now else budget.limit * of_campaign.get(budget.name, 1.0) * later
        rows[budget.name, label] = Row(name, budget, amount)
    return rows[budget.name, label]
