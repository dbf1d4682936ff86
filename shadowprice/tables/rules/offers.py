"""Rules of keys and of offers: one order of the levels of a side, percentages, funds."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from shadowprice.campaign import SIDES
from shadowprice.tables.rules.rule import FUND, PAID, Fault, Faults, Given, joined, repeated, rule
from shadowprice.tables.schema import UNIQUE

LEVELS = ("offer.face_value", "offer.cost", "offer.order_index", "offer.percent")
"""Columns that determine the levels of a side."""


def _unique(table: str, column: str) -> Faults:
    def faults(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
        yield table, column, repeated(table, column), "must be unique, and stands earlier already"

    return faults


for _table, _column in UNIQUE.items():
    rule(f"{_table}.{_column}")(_unique(_table, _column))


@rule("account.account_id", "account.side", "account.snapshot_ts")
def _account_key(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = repeated("account", "account_id", "side", "snapshot_ts")
    yield "account", "account_id", rows, "stands twice with the same side and snapshot_ts"


def _alike(table: str, column: str) -> Faults:
    """Return the rule that two identifiers differ by more than spaces around them and the form of their letters."""

    def faults(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
        plain = f"trim(nfc_normalize({column}))"
        odd = f"FROM {table} WHERE {column} <> {plain}"
        # Nearly always there is none, and nothing needs to be joined.
        if db.execute(f"SELECT 1 {odd} LIMIT 1").fetchall():
            twice = f"SELECT {plain} FROM (SELECT DISTINCT {column} FROM {table}) GROUP BY ALL HAVING count(*) > 1"
            reason = "is another one but for spaces around it, or for how Unicode composes its letters"
            yield table, column, f"SELECT row {odd} AND {plain} IN ({twice})", reason

    return faults


for _table, _column in (("account", "account_id"), ("offer", "offer_id")):
    rule(f"{_table}.{_column}")(_alike(_table, _column))


@rule("offer.side", "offer.kind", unless=LEVELS)
def _amounts(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"SELECT row FROM offer WHERE {PAID} AND face_value IS NULL AND cost IS NULL"
    yield "offer", "face_value", rows, "is missing; give the amount, or a cost where the offer has no value in money"


@rule("offer.side", "offer.kind", "campaign.campaign_id", unless=LEVELS)
def _levels(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    """A side has its levels in one order: by face value, by ``order_index``, or with one control first."""
    for side in SIDES:
        own = f"side = '{side}' AND {PAID}"
        ((offers, amounts, least),) = db.execute(f"""
            SELECT count(*), count(DISTINCT face_value) FILTER (face_value IS NOT NULL AND percent IS NULL),
                min(coalesce(cost, face_value)) FROM offer WHERE {own}""").fetchall()
        ((said,),) = db.execute(f"SELECT bool_and(ordered_{side}) FROM campaign").fetchall()
        if said and amounts < offers:
            wrong = f"SELECT row FROM offer WHERE {own} AND order_index IS NULL"
            reason = f"is missing: the levels of {side}s are ordered, and their face values do not tell how"
            yield "offer", "order_index", f"{wrong} UNION {repeated('offer', 'side', 'order_index', where=own)}", reason
        if (amounts == offers and said is not False) or said:
            continue
        again = repeated("offer", "side", "order_index", where=own)
        yield "offer", "order_index", again, "stands twice on its side"
        cheapest = f"SELECT row FROM offer WHERE {own} AND coalesce(cost, face_value) = {least}"
        ((numbered, ties),) = db.execute(
            f"SELECT (SELECT count(order_index) FROM offer WHERE {own}), (SELECT count(*) FROM ({cheapest}))"
        ).fetchall()
        if not numbered and ties > 1:
            reason = "must be 0 for the control: several offers cost least, and no order tells which comes first"
            yield "offer", "order_index", None, reason


@rule("offer.side", "offer.percent", "campaign.campaign_id")
def _percentages(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    part = "SELECT row FROM offer WHERE percent IS NOT NULL"
    capless = f"{part} AND (face_value IS NULL OR face_value < 1)"
    yield "offer", "face_value", capless, "must be the most that the offer in percent costs, its cap: at least 1"
    reason = "must be empty: an offer in percent costs a part of the order, at most its face value"
    yield "offer", "cost", f"{part} AND cost <> face_value", reason
    for side in SIDES:
        ((granted,),) = db.execute(f"SELECT bool_or(cost_basis_{side} = 'on_grant') FROM campaign").fetchall()
        if granted:
            reason = f"must be empty where {side}s are paid on grant: a percentage is of an order"
            yield "offer", "percent", f"{part} AND side = '{side}'", reason


@rule("offer.offer_id", "offer.percent", "exposure.request_id", "outcome.request_id", "outcome.cost_paid")
def _parts_paid(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A payment is within the cap, and within the part of the order: one after its discount would be too small."""
    part = f"""{joined("outcome", "exposure", "request_id")} JOIN offer ON o.offer_id = offer.offer_id
        WHERE offer.percent IS NOT NULL"""
    above = f"{part} AND t.cost_paid > offer.face_value"
    yield "outcome", "cost_paid", above, "is above the cap of the offer in percent, its face value"
    if "amount" in given["outcome"]:
        most = "CASE WHEN t.amount < offer.min_spend THEN 0 ELSE 1 + offer.percent / 100 * t.amount END"
        reason = "is too small for what was paid; give the amount of the order before the discount"
        yield "outcome", "amount", f"{part} AND t.cost_paid > {most}", reason


@rule("offer.side", "offer.kind")
def _funds(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    counted = db.execute(f"SELECT side, count(*) FROM offer GROUP BY side HAVING bool_or(kind = '{FUND}')").fetchall()
    for side, offers in sorted((side, offers) for side, offers in counted if side in SIDES):
        own = f"SELECT row FROM offer WHERE side = '{side}'"
        reason = f"must be {FUND!r}: the side has funds, and what has a value is another kind"
        yield "offer", "kind", f"{own} AND kind IS DISTINCT FROM '{FUND}'", reason
        if "order_index" not in given["offer"]:
            yield "offer", "order_index", None, "is missing; it numbers the funds of a side 0, 1, …"
            continue
        wrong = f"{own} AND kind = '{FUND}' AND (order_index IS NULL OR order_index NOT BETWEEN 0 AND {offers - 1})"
        again = repeated("offer", "side", "order_index", where=f"side = '{side}' AND kind = '{FUND}'")
        reason = "must number the funds of a side 0, 1, … without gap or repetition"
        yield "offer", "order_index", f"{wrong} UNION {again}", reason
    if "fee" in given["offer"]:
        other = f"SELECT row FROM offer WHERE kind IS DISTINCT FROM '{FUND}' AND fee IS NOT NULL"
        yield "offer", "fee", other, "must be empty: only a fund has a fee"
    for column in ("face_value", "cost"):
        paid = f"SELECT row FROM offer WHERE kind = '{FUND}' AND {column} > 0"
        yield "offer", column, paid, "must be 0: nothing is paid for a fund"


@rule("offer.kind")
def _offer_features(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    for column in sorted(name for name in given["offer"] if name.startswith("x_")):
        rows = f"SELECT row FROM offer WHERE \"{column}\" IS NOT NULL AND kind <> '{FUND}'"
        yield "offer", column, rows, "must be empty: only the features of funds are read"
