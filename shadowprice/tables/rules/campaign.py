"""Rules of the one row of a campaign, and of what it asks of other tables."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from shadowprice.campaign import NAME, NAME_RULE, RESPONSES, SIDES
from shadowprice.campaign.long_term import LongTerm
from shadowprice.curves import AMOUNT
from shadowprice.errors import InvalidInput
from shadowprice.tables.rules.rule import Fault, Given, joined, rule


@rule("campaign.campaign_id", "offer.side")
def _cost_bases(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    offered = {side for (side,) in db.execute("SELECT DISTINCT side FROM offer").fetchall()}
    for side in SIDES:
        column = f"cost_basis_{side}"
        ((known,),) = db.execute(f"SELECT count({column}) FROM campaign").fetchall()
        if side in offered and not known:
            yield "campaign", column, None, f"is missing; the offer table has offers for the {side} side"
        if side not in offered and known:
            yield "campaign", column, None, f"must be empty; the offer table has no offer for the {side} side"


@rule("campaign.campaign_id", "account.snapshot_ts", "offer.side")
def _worth(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """Every side has a worth in money; where a column has it, the newest row of every account has one."""
    columns = "objective, weight_customer, worth_customer, weight_merchant, worth_merchant"
    row = [*db.execute(f"SELECT {columns} FROM campaign").fetchall(), (None,) * 5][0]
    offered = {side for (side,) in db.execute("SELECT DISTINCT side FROM offer").fetchall()}
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


@rule(
    "campaign.worth_customer",
    "campaign.worth_merchant",
    "outcome.request_id",
    "outcome.redeemed",
    "outcome.share_count",
    "exposure.request_id",
    "exposure.side",
    unless=("outcome.amount",),
)
def _amounts_of_responses(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A response whose worth is its amount has one, and nothing else has; not where an index predicts its worth."""
    worths = db.execute("SELECT worth_customer, worth_merchant, long_term FROM campaign").fetchall()
    if len(worths) != 1:
        return
    ((customer, merchant, long_term),) = worths
    orders, payments = "the order's money before the discount", "the money of all payments that share_count counts"
    for side, worth, counted, money in (
        ("customer", None if long_term else customer, "redeemed", orders),
        ("merchant", merchant, "share_count", payments),
    ):
        if worth != AMOUNT:
            continue
        if AMOUNT not in given["outcome"]:
            yield "outcome", AMOUNT, None, f"is missing: worth_{side} of the campaign is amount; give {money}"
            continue
        rows = f"{joined('outcome', 'exposure', 'request_id')} WHERE o.side = '{side}' AND t.mature AND"
        need = f"must be above 0: worth_{side} of the campaign is amount; give {money}"
        yield "outcome", AMOUNT, f"{rows} t.{counted} > 0 AND NOT coalesce(t.amount, 0) > 0", need
        yield "outcome", AMOUNT, f"{rows} t.{counted} = 0 AND t.amount > 0", f"must be empty or 0 where {counted} is 0"


@rule("campaign.long_term")
def _windows(db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """The outcomes have the windows that the campaign names."""
    for (text,) in db.execute("SELECT long_term FROM campaign WHERE long_term IS NOT NULL").fetchall():
        try:
            plan = LongTerm.parse(text)
        except InvalidInput as error:
            yield "campaign", "long_term", "SELECT row FROM campaign", error.reason
            return
        for name in (plan.late, *plan.early):
            if name not in given["outcome"]:
                reason = "is missing: long_term of the campaign names it"
                if name in given["exposure"]:
                    reason += "; in exposure it is a feature of the request, so move it to the table outcome"
                yield "outcome", name, None, reason


@rule("campaign.most_units_merchant", "campaign.cost_basis_merchant")
def _most_units(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = (
        "SELECT row FROM campaign WHERE most_units_merchant > 1 AND cost_basis_merchant IS DISTINCT FROM 'on_response'"
    )
    yield "campaign", "most_units_merchant", rows, "must be 1 or empty unless cost_basis_merchant is on_response"


@rule("campaign.campaign_id")
def _one_campaign(db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    ((rows,),) = db.execute("SELECT count(*) FROM campaign").fetchall()
    if rows != 1:
        yield "campaign", None, None, f"must have exactly one row, has {rows}"


@rule("campaign.campaign_id")
def _campaign_name(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"SELECT row FROM campaign WHERE NOT regexp_full_match(campaign_id, '{NAME}')"
    yield "campaign", "campaign_id", rows, NAME_RULE


@rule("campaign.budget_form", "campaign.budget_limit")
def _whole_total(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = """SELECT row FROM campaign
        WHERE budget_form = 'total' AND isfinite(budget_limit) AND budget_limit <> floor(budget_limit)"""
    yield "campaign", "budget_limit", rows, "a total is a whole number of minor units"
