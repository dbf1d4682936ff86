"""Results of offers with what was paid for them, where no column has it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from shadowprice.campaign import SIDES
from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.mapping.description import COST, DEMAND, FACE_VALUE, MIN_SPEND, PERCENT, RESULTS, Mapping
from shadowprice.mapping.opened import ROW, Part, quoted

TERMS = (COST, FACE_VALUE, PERCENT, MIN_SPEND)
"""Columns of an offer that tell what it pays."""


def own_results(part: Part, mapping: Mapping) -> Part:
    """Return the results that are columns of the offers that were made; a row without any has none yet.

    Raises:
        InvalidInput: there is no column for the time, or for what was paid.
    """
    names = [name for name in part.columns if name in RESULTS]
    require("observed_at" in names, "tables.exposure.columns.observed_at", "is missing: when the result was known")
    selected = ", ".join([quoted(ROW), "request_id", *names])
    if "mature" not in names:
        selected += ", 'true' AS mature"
    if "cost_paid" not in names:
        paid = _paid(part.columns, mapping, "exposure", part.source)
        selected += f", {paid} AS cost_paid"
    known = " OR ".join(f"{name} IS NOT NULL" for name in names if name not in ("observed_at", "mature"))
    columns = tuple(dict.fromkeys(["request_id", *names, "mature", "cost_paid"]))
    paid_by = next((part.labels[name] for name in ("cost_paid", COST, FACE_VALUE) if name in part.labels), "")
    query = f"(SELECT {selected} FROM {part.query} WHERE {known or 'true'})"
    return replace(part, query=query, columns=columns, labels={**part.labels, "cost_paid": paid_by})


def completed(part: Part, made: Sequence[Part], offers: Sequence[Part], mapping: Mapping, *, used: str = "") -> Part:
    """Return outcomes with ``mature`` and ``cost_paid``: final, and the cost of their offer where it was used.

    Args:
        part: rows of the table outcome.
        made: offers that were made.
        offers: terms of the offers; none where the offers that were made have them.
        mapping: with the cost basis of the campaign.
        used: column of the query that is 1 where the offer was paid; empty: redeemed.

    Raises:
        InvalidInput: nothing tells what was paid.
    """
    more = {} if "mature" in part.columns else {"mature": "'true'"}
    labels, query = dict(part.labels), part.query
    if "cost_paid" not in part.columns and "request_id" in part.columns:
        held = offers or made
        names = [name for name in TERMS if any(name in each.columns for each in held)]
        more["cost_paid"] = _paid([*part.columns, *names, used], mapping, "outcome", part.source, used or "redeemed")
        labels["cost_paid"] = labels.get("redeemed", "")
        terms = _union(made, "request_id", "side", *(["offer_id"] if offers else names))
        if offers:
            terms = f"({terms} LEFT JOIN {_union(offers, 'offer_id', *names)} USING (offer_id))"
        chosen = ", ".join(["request_id", "side", *names])
        # A number that stands twice is refused by its own table.
        query = f"({query} AS u LEFT JOIN (SELECT DISTINCT ON (request_id) {chosen} FROM {terms}) USING (request_id))"
    if not more:
        return part
    selected = ", ".join([quoted(ROW), *part.columns, *(f"{sql} AS {name}" for name, sql in more.items())])
    query = f"(SELECT {selected} FROM {query} ORDER BY {quoted(ROW)})"
    return replace(part, query=query, columns=(*part.columns, *more), labels=labels)


def refuse_results(part: Part) -> None:
    """Refuse results in the table exposure beside a table outcome or order, which alone would be read."""
    names = [f"{name} ({part.labels[name]})" for name in part.columns if name in RESULTS]
    if names:
        reason = f"has results beside the table outcome: move {', '.join(names)} there, with request_id"
        raise InvalidInput(reason, field="tables.exposure.columns")


def _union(parts: Sequence[Part], *names: str) -> str:
    rows = (f"SELECT {', '.join(name for name in names if name in part.columns)} FROM {part.query}" for part in parts)
    return f"({' UNION ALL BY NAME '.join(rows)})"


def _paid(columns: Collection[str], mapping: Mapping, table: str, source: str, used: str = "redeemed") -> str:
    """Return the SQL of what was paid: the cost of the offer, always where the campaign pays on grant, else where used.

    Of an offer in percent that is its part of the order's amount. A place of a delivery costs nothing.
    """
    field = f"tables.{table}.columns.cost_paid"
    priced = [name for name in (COST, FACE_VALUE) if name in columns]
    if any(DEMAND in offers.columns for offers in mapping.tables.get("offer", ())):
        priced = ["'0'"]
    if used not in columns or not priced:
        reason = f"is missing in {source}: what was paid; it follows from redeemed and a face_value or cost"
        raise InvalidInput(reason, field=field)
    granted = "false"
    if "campaign" in mapping.tables:
        bases = {side: mapping.tables["campaign"][0].columns.get(f"cost_basis_{side}") for side in SIDES}
        sides = [f"'{side}'" for side, base in bases.items() if base and base.constant == "on_grant"]
        granted = f"side IN ({', '.join(sides)})" if sides else granted
    paid = f"coalesce({', '.join(priced)})"
    if PERCENT in columns:
        paid = f"CASE WHEN {PERCENT} IS NULL THEN {paid} ELSE {_part_paid(columns, field)} END"
    return f"CASE WHEN TRY_CAST({used} AS DOUBLE) = 1 OR {granted} THEN {paid} ELSE '0' END"


def _part_paid(columns: Collection[str], field: str) -> str:
    """Return the SQL of what an offer in percent pays for its order.

    Raises:
        InvalidInput: the amounts of orders, or the caps, are not mapped.
    """
    for name in ("amount", FACE_VALUE):
        if name not in columns:
            reason = f"is missing: what was paid; or map {name}, from which offers in percent tell it"
            raise InvalidInput(reason, field=field)
    order, percent, cap = (f"TRY_CAST({name} AS DOUBLE)" for name in ("amount", PERCENT, FACE_VALUE))
    paid = f"CAST(CAST(least(round({percent} / 100 * {order}), {cap}) AS BIGINT) AS VARCHAR)"
    if MIN_SPEND not in columns:
        return paid
    return f"CASE WHEN {order} < coalesce(TRY_CAST({MIN_SPEND} AS DOUBLE), 0) THEN '0' ELSE {paid} END"
