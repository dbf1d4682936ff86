"""Check the decisions of a call and prepare them for the ledger, with the answer where the budget is exhausted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice, repeat
from typing import Any

from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations, Unprocessable
from serving.ledger.clock import microseconds
from serving.ledger.records import Ceiling, Entry, Known, Row, Turn
from shadowprice.campaign import Campaign, Side, place_bounds, place_sums
from shadowprice.decision import NOTHING
from shadowprice.errors import NotFound
from shadowprice.limits import MOST_AMOUNT, Asked
from shadowprice.pacing.decision_log.records import REQUIRED, Column, Decision, columns

SENT = tuple(column for column in columns(Decision) if column.field.sent)
Levels = Mapping[Side, Sequence[int]]


def entries(campaign: Campaign, batch: Authorizations, decided_at: datetime) -> list[Entry]:
    """Return the decisions of all calls, ready to be recorded.

    A request whose incentive no longer fits the budget gets the level of no incentive, or nothing where its side has
    no such level or a rule forbids it. One whose segment is full gets the first of its further levels with a place.

    Raises:
        NotFound: another campaign.
        Unprocessable: a side, level, amount or vector of propensities that the campaign does not have.
    """
    if batch.campaign != campaign.name:
        raise NotFound(f"campaign {batch.campaign!r} is not kept here; this is {campaign.name!r}")
    items = batch.items
    if items is None:
        return []
    levels = {side: terms.unit_costs for side, terms in campaign.sides.items()}
    _check(items, levels)
    _check_further(items, levels, bool(campaign.segments))
    at = microseconds(decided_at)
    ttl = timedelta(hours=campaign.authorization_ttl_hours) // timedelta(microseconds=1)
    spare_level = {side: 0 if incentives[0] == 0 else NOTHING for side, incentives in levels.items()}
    segments = campaign.segments
    # Level 0 of a delivery is an offer; every account may be given nothing.
    nothing = len(segments) - 1 if segments and segments[-1].gives_nothing else NOTHING
    reserved = {side: terms.reserved for side, terms in campaign.sides.items()}
    units = {side: terms.most_units for side, terms in campaign.sides.items()}
    # Column by column: a call of a hundred is a hundred times each line that works by row.
    wanted = {column.name: _values(items, column) for column in SENT} | {
        "model_version": items.model_version or repeat(batch.model_version),
        "price_version": items.price_version or repeat(batch.price_version),
        "decided_at": repeat(at),
        "limited_by": repeat(""),
        "most_units": [units[side] for side in items.side],
    }
    spare = wanted | {
        "level": repeat(nothing)
        if segments
        else [
            spare_level[side] if allowed else NOTHING
            for side, allowed in zip(items.side, items.unpaid_allowed or repeat(True), strict=False)
        ],
        "incentive": repeat(0),
        "response": (not segments and items.response_unpaid) or repeat(0.0),
        "expected_cost": repeat(0.0),
        "propensity": repeat(0.0),
        "reason": repeat("budget_exhausted"),
    }
    limits = campaign.limits
    made = list(_decisions(wanted))
    asked = [asked_by(decision) for decision in made] if limits else []
    columns_of_entries: tuple[Iterable[Any], ...] = (
        made,
        _decisions(spare),
        [reserved[side] for side in items.side],
        repeat(ttl),
        [limits.sums(each, decided_at) for each in asked] if limits else repeat(()),
        [place_sums(campaign.sides[each.side], each.level, each.account_id) for each in made]
        if segments
        else repeat(()),
        [
            tuple(_turn(campaign, decision, *other) for other in zip(*further, strict=True))
            for decision, further in zip(made, _further(items), strict=True)
        ]
        if segments
        else repeat(()),
        [limits.sums_by_level(each, decided_at) for each in asked] if limits else repeat(()),
    )
    return list(map(Entry._make, zip(*columns_of_entries, strict=False)))


def _further(items: Items) -> Iterable[tuple[Sequence[int], Sequence[float]]]:
    """Return the further levels of each request, and their responses."""
    if items.further_levels is None or items.further_responses is None:
        return [((), ())] * len(items.request_id)
    return zip(items.further_levels, items.further_responses, strict=True)


def _turn(campaign: Campaign, wanted: Decision, level: int, response: float) -> Turn:
    """Return another segment for a request; nothing is paid for a place."""
    places = place_sums(campaign.sides[wanted.side], level, wanted.account_id)
    return Turn(wanted._replace(level=level, response=response), places)


def asked_by(decision: Decision) -> Asked:
    """Return the parts of a decision that tell which limits cover it."""
    groups = decision.groups.split(",") if decision.groups else ()
    return Asked(decision.account_id, decision.side, decision.partner_id, decision.arm, groups)


def _values(items: Items, column: Column) -> Iterable[Any]:
    """Return the values of a field; those of an absent column are its default."""
    values = getattr(items, column.name)
    if values is None:
        return repeat(None if column.earlier is REQUIRED else column.earlier)
    if column.field.time:
        return [None if seconds is None else round(seconds * 1e6) for seconds in values]
    return [tuple(value) for value in values] if column.type is tuple else list(values)


def _decisions(values: Mapping[str, Iterable[Any]]) -> Iterator[Decision]:
    return map(Decision._make, zip(*(values[name] for name in Decision._fields), strict=False))


def calls(batch: Authorizations, made: Sequence[Entry]) -> list[list[Row]]:
    """Return the rows of each call: its entries, in the order of :func:`entries`, then its known requests."""
    rest = iter(made)
    rows: list[list[Row]] = [list(islice(rest, size)) for size in batch.call_sizes]
    known = batch.known
    if known is not None:
        for request_id, account_id, side, call in zip(
            known.request_id, known.account_id, known.side, known.call, strict=True
        ):
            rows[call].append(Known(request_id, account_id, side))
    return rows


def ceiling(campaign: Campaign, hard_stop: bool, at: datetime) -> Ceiling | None:
    """Return the most that may be authorized and spent now; None without the hard stop, and for a mean alone."""
    if not hard_stop:
        return None
    own = (*campaign.bounds(at), *place_bounds(campaign))
    bounds, name = tuple(bound.beside(campaign.name) for bound in own), campaign.budget.name
    if campaign.budget.form != "total":
        # Only the further limits have an amount.
        return Ceiling(MOST_AMOUNT, 0, name, bounds) if bounds else None
    return Ceiling(int(campaign.budget.limit), campaign.late_reserve, name, bounds)


def _check(items: Items, levels: Levels) -> None:
    for row, (side, level, incentive) in enumerate(zip(items.side, items.level, items.incentive, strict=True)):
        offered = levels.get(side)
        if offered is None:
            raise Unprocessable(f"the campaign has {sorted(levels)}, not {side!r}", field=f"items.side[{row}]")
        if level >= len(offered):
            raise Unprocessable(f"must be below {len(offered)}", field=f"items.level[{row}]")
        if incentive != offered[level]:
            raise Unprocessable(f"level {level} is {offered[level]} minor units", field=f"items.incentive[{row}]")
    for row, (side, level, propensity, vector) in enumerate(
        zip(items.side, items.level, items.propensity, items.propensities, strict=True)
    ):
        if len(vector) != len(levels[side]):
            raise Unprocessable(
                f"must have {len(levels[side])} values, one per level", field=f"items.propensities[{row}]"
            )
        if abs(sum(vector) - 1.0) > 1e-6 or abs(vector[level] - propensity) > 1e-9:
            raise Unprocessable(
                "must sum to 1 and hold the propensity of the level given at its place",
                field=f"items.propensities[{row}]",
            )


def _check_further(items: Items, levels: Levels, delivers: bool) -> None:
    further, responses = items.further_levels, items.further_responses
    if (further is None) != (responses is None):
        raise Unprocessable("needs further_responses, one for each level", field="items.further_levels")
    if further is None or responses is None:
        return
    if not delivers:
        raise Unprocessable("must be left out: only a delivery has further segments", field="items.further_levels")
    for row, (side, others, values) in enumerate(zip(items.side, further, responses, strict=True)):
        if len(others) != len(values) or any(level >= len(levels[side]) for level in others):
            problem = f"must be levels below {len(levels[side])}, each with a response"
            raise Unprocessable(problem, field=f"items.further_levels[{row}]")
