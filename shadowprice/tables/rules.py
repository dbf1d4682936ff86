"""Rules over several columns: keys, references between tables, sides that must agree.

A rule is a query of the rows that break it. It names the columns it needs and runs when all of them were given. It
reads only cells that are known, so what a column's own check refused is not reported twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from shadowprice.campaign import NAME, NAME_RULE, RESPONSES, SIDES
from shadowprice.campaign.long_term import LongTerm
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput
from shadowprice.tables.problems import SHOWN_ROWS, Problems
from shadowprice.tables.schema import UNIQUE

Given = Mapping[str, frozenset[str]]
"""Table → columns that were given; the relation of a table has all named columns, empty where they were not."""
Fault = tuple[str, str | None, str | None, str]
"""Table, column, query of the offending rows (None where the fault is not one of rows), reason."""

FUND, VOUCHER = "fund", "voucher"
PAID = f"kind IS DISTINCT FROM '{FUND}'"
"""SQL of the offers that are levels of an incentive."""
LEVELS = ("offer.face_value", "offer.cost", "offer.order_index", "offer.percent")
"""Columns that determine the levels of a side."""
_OTHER = {"customer": "merchant", "merchant": "customer"}


@dataclass(frozen=True)
class _Rule:
    needs: tuple[str, ...]
    unless: tuple[str, ...]
    faults: Callable[[DuckDBPyConnection, Given], Iterator[Fault]]


_RULES: list[_Rule] = []
_Faults = Callable[[DuckDBPyConnection, Given], Iterator[Fault]]


def _rule(*needs: str, unless: tuple[str, ...] = ()) -> Callable[[_Faults], _Faults]:
    """Register a rule of the columns ``needs``; it is not applied where one of ``unless`` has a fault already."""

    def register(faults: _Faults) -> _Faults:
        _RULES.append(_Rule(needs, unless, faults))
        return faults

    return register


def find_broken(db: DuckDBPyConnection, given: Given, problems: Problems) -> None:
    """Add every rule that the tables break, with the first rows that break it.

    Args:
        db: with a relation per table, whose column ``row`` is the place of the row.
        given: the columns that the tables came with.
        problems: where they are added.

    A rule reads its tables once; joins that do not fit into memory go to disk.
    """
    for rule in _RULES:
        places = [need.split(".") for need in rule.needs]
        sound = not any(problems.about(*column.split(".")) for column in rule.unless)
        if sound and all(table in given and column in given[table] for table, column in places):
            for table, column, query, reason in rule.faults(db, given):
                _report(db, given, problems, (table, column, query, reason))


def _report(db: DuckDBPyConnection, given: Given, problems: Problems, fault: Fault) -> None:
    table, column, query, reason = fault
    if query is None:
        problems.add(table, column, reason)
        return
    value = f'CAST("{column}" AS VARCHAR)' if column in given[table] else "NULL"
    # Most rules find nothing: the rows are counted first, and looked at where there are some.
    ((count,),) = db.sql(f"SELECT count(DISTINCT row) FROM ({query})").fetchall()
    if not count:
        return
    if column is not None and column not in given[table]:
        problems.add(table, column, reason)
        return
    wrong = f"SELECT DISTINCT row FROM ({query}) ORDER BY row LIMIT {SHOWN_ROWS}"
    first = db.sql(f"SELECT row, {value} FROM {table} SEMI JOIN ({wrong}) USING (row) ORDER BY row").fetchall()
    problems.add(table, column, reason, [row for row, _ in first], count, first[0][1])


def _again(table: str, *key: str, where: str = "true") -> str:
    """Return the rows whose key stands in an earlier one; a key with an empty cell is none."""
    names = ", ".join(key)
    known = " AND ".join(f"{name} IS NOT NULL" for name in key)
    return f"""
        SELECT row FROM {table} JOIN (
            SELECT {names}, min(row) AS first FROM {table} WHERE {known} AND ({where})
            GROUP BY {names} HAVING count(*) > 1
        ) USING ({names}) WHERE row > first AND ({where})"""


def _unknown(table: str, column: str, known: str, where: str = "true") -> str:
    """Return the rows whose cell is not in the first column of the query ``known``."""
    return f"""
        SELECT row FROM {table} ANTI JOIN ({known}) AS known(id) ON {column} = known.id
        WHERE {column} IS NOT NULL AND ({where})"""


def _accounts(side: str) -> str:
    return f"SELECT account_id FROM account WHERE side = '{side}'"


def _joined(table: str, other: str, key: str) -> str:
    """Return the rows of a table, as ``t``, beside those of the other with the same key, as ``o``."""
    return f"SELECT t.row FROM {table} AS t JOIN {other} AS o ON t.{key} = o.{key}"


def _unique(table: str, column: str) -> _Faults:
    def faults(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
        yield table, column, _again(table, column), "must be unique, and stands earlier already"

    return faults


for _table, _column in UNIQUE.items():
    _rule(f"{_table}.{_column}")(_unique(_table, _column))


@_rule("account.account_id", "account.side", "account.snapshot_ts")
def _account_key(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _again("account", "account_id", "side", "snapshot_ts")
    yield "account", "account_id", rows, "stands twice with the same side and snapshot_ts"


def _alike(table: str, column: str) -> _Faults:
    """Return the rule that two identifiers differ by more than spaces around them and the form of their letters."""

    def faults(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
        plain = f"trim(nfc_normalize({column}))"
        odd = f"FROM {table} WHERE {column} <> {plain}"
        # Nearly always there is none, and nothing needs to be joined.
        if db.sql(f"SELECT 1 {odd} LIMIT 1").fetchall():
            twice = f"SELECT {plain} FROM (SELECT DISTINCT {column} FROM {table}) GROUP BY ALL HAVING count(*) > 1"
            reason = "is another one but for spaces around it, or for how Unicode composes its letters"
            yield table, column, f"SELECT row {odd} AND {plain} IN ({twice})", reason

    return faults


for _table, _column in (("account", "account_id"), ("offer", "offer_id")):
    _rule(f"{_table}.{_column}")(_alike(_table, _column))


@_rule("offer.side", "offer.kind", unless=LEVELS)
def _amounts(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"SELECT row FROM offer WHERE {PAID} AND face_value IS NULL AND cost IS NULL"
    yield "offer", "face_value", rows, "is missing; give the amount, or a cost where the offer has no value in money"


@_rule("offer.side", "offer.kind", "campaign.campaign_id", unless=LEVELS)
def _levels(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    """A side has its levels in one order: by face value, by ``order_index``, or with one control first."""
    for side in SIDES:
        own = f"side = '{side}' AND {PAID}"
        ((offers, amounts, least),) = db.sql(f"""
            SELECT count(*), count(DISTINCT face_value) FILTER (face_value IS NOT NULL AND percent IS NULL),
                min(coalesce(cost, face_value)) FROM offer WHERE {own}""").fetchall()
        ((said,),) = db.sql(f"SELECT bool_and(ordered_{side}) FROM campaign").fetchall()
        if said and amounts < offers:
            wrong = f"SELECT row FROM offer WHERE {own} AND order_index IS NULL"
            reason = f"is missing: the levels of {side}s are ordered, and their face values do not tell how"
            yield "offer", "order_index", f"{wrong} UNION {_again('offer', 'side', 'order_index', where=own)}", reason
        if (amounts == offers and said is not False) or said:
            continue
        again = _again("offer", "side", "order_index", where=own)
        yield "offer", "order_index", again, "stands twice on its side"
        cheapest = f"SELECT row FROM offer WHERE {own} AND coalesce(cost, face_value) = {least}"
        ((numbered, ties),) = db.sql(
            f"SELECT (SELECT count(order_index) FROM offer WHERE {own}), (SELECT count(*) FROM ({cheapest}))"
        ).fetchall()
        if not numbered and ties > 1:
            reason = "must be 0 for the control: several offers cost least, and no order tells which comes first"
            yield "offer", "order_index", None, reason


@_rule("offer.side", "offer.percent", "campaign.campaign_id")
def _percentages(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    part = "SELECT row FROM offer WHERE percent IS NOT NULL"
    capless = f"{part} AND (face_value IS NULL OR face_value < 1)"
    yield "offer", "face_value", capless, "must be the most that the offer in percent costs, its cap: at least 1"
    reason = "must be empty: an offer in percent costs a part of the order, at most its face value"
    yield "offer", "cost", f"{part} AND cost <> face_value", reason
    for side in SIDES:
        ((granted,),) = db.sql(f"SELECT bool_or(cost_basis_{side} = 'on_grant') FROM campaign").fetchall()
        if granted:
            reason = f"must be empty where {side}s are paid on grant: a percentage is of an order"
            yield "offer", "percent", f"{part} AND side = '{side}'", reason


@_rule("offer.offer_id", "offer.percent", "exposure.request_id", "outcome.request_id", "outcome.cost_paid")
def _parts_paid(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A payment is within the cap, and within the part of the order: one after its discount would be too small."""
    part = f"""{_joined("outcome", "exposure", "request_id")} JOIN offer ON o.offer_id = offer.offer_id
        WHERE offer.percent IS NOT NULL"""
    above = f"{part} AND t.cost_paid > offer.face_value"
    yield "outcome", "cost_paid", above, "is above the cap of the offer in percent, its face value"
    if "amount" in given["outcome"]:
        most = "CASE WHEN t.amount < offer.min_spend THEN 0 ELSE 1 + offer.percent / 100 * t.amount END"
        reason = "is too small for what was paid; give the amount of the order before the discount"
        yield "outcome", "amount", f"{part} AND t.cost_paid > {most}", reason


@_rule("offer.side", "offer.kind")
def _funds(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    counted = db.sql(f"SELECT side, count(*) FROM offer GROUP BY side HAVING bool_or(kind = '{FUND}')").fetchall()
    for side, offers in sorted((side, offers) for side, offers in counted if side in SIDES):
        own = f"SELECT row FROM offer WHERE side = '{side}'"
        reason = f"must be {FUND!r}: the side has funds, and what has a value is another kind"
        yield "offer", "kind", f"{own} AND kind IS DISTINCT FROM '{FUND}'", reason
        if "order_index" not in given["offer"]:
            yield "offer", "order_index", None, "is missing; it numbers the funds of a side 0, 1, …"
            continue
        wrong = f"{own} AND kind = '{FUND}' AND (order_index IS NULL OR order_index NOT BETWEEN 0 AND {offers - 1})"
        again = _again("offer", "side", "order_index", where=f"side = '{side}' AND kind = '{FUND}'")
        reason = "must number the funds of a side 0, 1, … without gap or repetition"
        yield "offer", "order_index", f"{wrong} UNION {again}", reason
    if "fee" in given["offer"]:
        other = f"SELECT row FROM offer WHERE kind IS DISTINCT FROM '{FUND}' AND fee IS NOT NULL"
        yield "offer", "fee", other, "must be empty: only a fund has a fee"
    for column in ("face_value", "cost"):
        paid = f"SELECT row FROM offer WHERE kind = '{FUND}' AND {column} > 0"
        yield "offer", column, paid, "must be 0: nothing is paid for a fund"


@_rule("offer.kind")
def _offer_features(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    for column in sorted(name for name in given["offer"] if name.startswith("x_")):
        rows = f"SELECT row FROM offer WHERE \"{column}\" IS NOT NULL AND kind <> '{FUND}'"
        yield "offer", column, rows, "must be empty: only the features of funds are read"


@_rule("edge.src", "edge.dst", "account.account_id", "account.side")
def _edge_ends(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for column, side in (("src", "customer"), ("dst", "merchant")):
        yield "edge", column, _unknown("edge", column, _accounts(side)), f"is not a {side} of the account table"


@_rule("exposure.account_id", "exposure.side", "account.account_id", "account.side")
def _exposed_account(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for side in SIDES:
        rows = _unknown("exposure", "account_id", _accounts(side), f"side = '{side}'")
        yield "exposure", "account_id", rows, f"is not a {side} of the account table"


@_rule("exposure.partner_id", "exposure.side", "account.account_id", "account.side")
def _partner(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for side in SIDES:
        other = _OTHER[side]
        rows = _unknown("exposure", "partner_id", _accounts(other), f"side = '{side}'")
        yield "exposure", "partner_id", rows, f"is not a {other} of the account table"


@_rule("exposure.offer_id", "offer.offer_id")
def _offered(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _unknown("exposure", "offer_id", "SELECT offer_id FROM offer")
    yield "exposure", "offer_id", rows, "is not in the offer table"


@_rule("exposure.offer_id", "exposure.side", "offer.offer_id", "offer.side")
def _offer_side(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    sides = ", ".join(f"'{side}'" for side in SIDES)
    rows = f"""{_joined("exposure", "offer", "offer_id")}
        WHERE t.side <> o.side AND t.side IN ({sides}) AND o.side IN ({sides})"""
    yield "exposure", "offer_id", rows, "is an offer for the other side"


@_rule("action.account_id", "action.offer_id", "account.account_id", "offer.offer_id")
def _acted(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _unknown("action", "account_id", "SELECT account_id FROM account")
    yield "action", "account_id", rows, "is not in the account table"
    rows = _unknown("action", "offer_id", "SELECT offer_id FROM offer")
    yield "action", "offer_id", rows, "is not in the offer table"


@_rule("outcome.request_id", "exposure.request_id")
def _exposed(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _unknown("outcome", "request_id", "SELECT request_id FROM exposure")
    yield "outcome", "request_id", rows, "is not in the exposure table"


@_rule("outcome.request_id", "outcome.observed_at", "exposure.request_id", "exposure.decided_at")
def _cause_first(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"{_joined('outcome', 'exposure', 'request_id')} WHERE t.observed_at < o.decided_at"
    yield "outcome", "observed_at", rows, "is before the exposure's decided_at"


@_rule("outcome.request_id", "outcome.mature", "exposure.request_id", "exposure.side")
def _labels(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for column, side in (("redeemed", "customer"), ("share_count", "merchant"), ("share_count_before", "merchant")):
        mature = f"{_joined('outcome', 'exposure', 'request_id')} WHERE o.side = '{side}' AND t.mature"
        rows = f"{mature} AND t.{column} IS NULL"
        yield "outcome", column, rows, f"is missing; a mature outcome of a {side} needs it"


@_rule(
    "outcome.request_id", "outcome.redeemed", "exposure.request_id", "exposure.offer_id", "offer.offer_id", "offer.kind"
)
def _bought(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A conversion of a fund has an amount and follows a click."""
    funds = f"""
        {_joined("outcome", "exposure", "request_id")} JOIN offer ON o.offer_id = offer.offer_id
        WHERE offer.kind = '{FUND}' AND t.redeemed IS NOT NULL"""
    if "amount" in given["outcome"]:
        rows = f"{funds} AND (t.amount > 0) <> (t.redeemed = 1)"
        yield "outcome", "amount", rows, "must be above 0 exactly where a fund was bought (redeemed is 1)"
    if "clicked" in given["outcome"]:
        rows = f"{funds} AND t.redeemed = 1 AND t.clicked = 0"
        yield "outcome", "clicked", rows, "must be 1 where a fund was bought"


@_rule("campaign.campaign_id", "offer.side")
def _cost_bases(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    offered = {side for (side,) in db.sql("SELECT DISTINCT side FROM offer").fetchall()}
    for side in SIDES:
        column = f"cost_basis_{side}"
        ((known,),) = db.sql(f"SELECT count({column}) FROM campaign").fetchall()
        if side in offered and not known:
            yield "campaign", column, None, f"is missing; the offer table has offers for the {side} side"
        if side not in offered and known:
            yield "campaign", column, None, f"must be empty; the offer table has no offer for the {side} side"


@_rule("campaign.campaign_id", "account.snapshot_ts", "offer.side")
def _worth(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """Every side has a worth in money; where a column has it, the newest row of every account has one."""
    columns = "objective, weight_customer, worth_customer, weight_merchant, worth_merchant"
    row = [*db.sql(f"SELECT {columns} FROM campaign").fetchall(), (None,) * 5][0]
    offered = {side for (side,) in db.sql("SELECT DISTINCT side FROM offer").fetchall()}
    for side, weight, worth in ((SIDES[0], *row[1:3]), (SIDES[1], *row[3:])):
        if row[0] not in (None, RESPONSES) and side in offered and weight is None and worth is None:
            yield (
                "campaign",
                f"worth_{side}",
                None,
                (f"is missing: name the column of the accounts that says it, or give weight_{side} in minor units"),
            )
        if worth is None or worth == AMOUNT:
            continue
        if worth not in given["account"]:
            yield "campaign", f"worth_{side}", None, f"names {worth}, which the account table does not have"
            continue
        newest = "row_number() OVER (PARTITION BY account_id ORDER BY snapshot_ts DESC) = 1"
        known = f"SELECT row, \"{worth}\" AS worth FROM account WHERE side = '{side}' QUALIFY {newest}"
        rows = f"SELECT row FROM ({known}) WHERE worth IS NULL OR NOT worth >= 0"
        yield "account", worth, rows, "is the worth of a response: it must be known and not be negative"


@_rule(
    "campaign.worth_customer",
    "outcome.request_id",
    "outcome.redeemed",
    "exposure.request_id",
    "exposure.side",
    unless=("outcome.amount",),
)
def _amounts_of_responses(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A response whose worth is its amount has one, and nothing else has; not where an index predicts its worth."""
    if db.sql("SELECT worth_customer, long_term FROM campaign").fetchall() != [(AMOUNT, None)]:
        return
    if AMOUNT not in given["outcome"]:
        yield "outcome", AMOUNT, None, "is missing: worth_customer of the campaign is amount"
        return
    rows = f"{_joined('outcome', 'exposure', 'request_id')} WHERE o.side = 'customer' AND t.mature AND"
    need = "must be above 0: worth_customer of the campaign is amount; give the order's money before the discount"
    yield "outcome", AMOUNT, f"{rows} t.redeemed = 1 AND NOT coalesce(t.amount, 0) > 0", need
    yield "outcome", AMOUNT, f"{rows} t.redeemed = 0 AND t.amount > 0", "must be empty or 0 where redeemed is 0"


@_rule("campaign.long_term")
def _windows(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """The outcomes have the windows that the campaign names."""
    for (text,) in db.sql("SELECT long_term FROM campaign WHERE long_term IS NOT NULL").fetchall():
        try:
            plan = LongTerm.parse(text)
        except InvalidInput as error:
            yield "campaign", "long_term", "SELECT row FROM campaign", error.reason
            return
        for name in (plan.late, *plan.early):
            if name not in given["outcome"]:
                yield "outcome", name, None, "is missing: long_term of the campaign names it"


@_rule("campaign.most_units_merchant", "campaign.cost_basis_merchant")
def _most_units(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = (
        "SELECT row FROM campaign WHERE most_units_merchant > 1 AND cost_basis_merchant IS DISTINCT FROM 'on_response'"
    )
    yield "campaign", "most_units_merchant", rows, "must be 1 or empty unless cost_basis_merchant is on_response"


@_rule("campaign.campaign_id")
def _one_campaign(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    ((rows,),) = db.sql("SELECT count(*) FROM campaign").fetchall()
    if rows != 1:
        yield "campaign", None, None, f"must have exactly one row, has {rows}"


@_rule("campaign.campaign_id")
def _campaign_name(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"SELECT row FROM campaign WHERE NOT regexp_full_match(campaign_id, '{NAME}')"
    yield "campaign", "campaign_id", rows, NAME_RULE


@_rule("campaign.budget_form", "campaign.budget_limit")
def _whole_total(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = """SELECT row FROM campaign
        WHERE budget_form = 'total' AND isfinite(budget_limit) AND budget_limit <> floor(budget_limit)"""
    yield "campaign", "budget_limit", rows, "a total is a whole number of minor units"


@_rule("session.label", "session.redeemed_at")
def _redeemed(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = "SELECT row FROM session WHERE label = 1 AND redeemed_at IS NULL"
    yield "session", "redeemed_at", rows, "is missing; a session with label 1 needs it"
    rows = "SELECT row FROM session WHERE label = 0 AND redeemed_at IS NOT NULL"
    yield "session", "redeemed_at", rows, "must be empty where the label is 0"


@_rule("session.collected_at", "session.redeemed_at")
def _collected_first(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = "SELECT row FROM session WHERE redeemed_at < collected_at"
    yield "session", "redeemed_at", rows, "is before collected_at"


@_rule("session.collected_at", "session.expires_at")
def _expires_later(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    yield "session", "expires_at", "SELECT row FROM session WHERE expires_at < collected_at", "is before collected_at"


@_rule("session.voucher_id", "session.min_spend", "session.discount")
def _voucher_terms(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    known = "voucher_id IS NOT NULL AND min_spend IS NOT NULL AND discount IS NOT NULL"
    terms = f"""SELECT voucher_id, arg_min(min_spend, row) AS min_spend, arg_min(discount, row) AS discount
        FROM session WHERE {known} GROUP BY voucher_id"""
    for column in ("min_spend", "discount"):
        rows = f"""SELECT t.row FROM session AS t JOIN ({terms}) AS o USING (voucher_id)
            WHERE t.{column} IS NOT NULL AND t.{column} <> o.{column}"""
        yield "session", column, rows, "differs from that of the same voucher above"


@_rule("behaviour.session_id", "session.session_id")
def _behaved_in(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _unknown("behaviour", "session_id", "SELECT session_id FROM session")
    yield "behaviour", "session_id", rows, "is not in the session table"


@_rule("behaviour.session_id", "behaviour.ts", "behaviour.phase", "session.session_id", "session.collected_at")
def _phase(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = _joined("behaviour", "session", "session_id")
    late = f"{rows} WHERE t.phase = 'before' AND t.ts > o.collected_at"
    yield "behaviour", "phase", late, "is not that of its ts, which is after the session's collected_at"
    early = f"{rows} WHERE t.phase = 'after' AND t.ts <= o.collected_at"
    yield "behaviour", "phase", early, "is not that of its ts, which is not after the session's collected_at"
