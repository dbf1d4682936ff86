"""Rules of edges, exposures, actions and outcomes: what they name stands in other tables, and before them."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from shadowprice.campaign import SIDES
from shadowprice.tables.rules.rule import FUND, Fault, Given, accounts, joined, rule, unknown

_OTHER = {"customer": "merchant", "merchant": "customer"}


@rule("edge.src", "edge.dst", "account.account_id", "account.side")
def _edge_ends(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for column, side in (("src", "customer"), ("dst", "merchant")):
        yield "edge", column, unknown("edge", column, accounts(side)), f"is not a {side} of the account table"


@rule("exposure.account_id", "exposure.side", "account.account_id", "account.side")
def _exposed_account(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for side in SIDES:
        rows = unknown("exposure", "account_id", accounts(side), f"side = '{side}'")
        yield "exposure", "account_id", rows, f"is not a {side} of the account table"


@rule("exposure.partner_id", "exposure.side", "account.account_id", "account.side")
def _partner(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for side in SIDES:
        other = _OTHER[side]
        rows = unknown("exposure", "partner_id", accounts(other), f"side = '{side}'")
        yield "exposure", "partner_id", rows, f"is not a {other} of the account table"


@rule("exposure.account_id", "exposure.cluster")
def _one_cluster(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    # An account in two clusters would make them depend on each other.
    rows = """SELECT row FROM exposure JOIN (
        SELECT account_id FROM exposure GROUP BY account_id HAVING count(DISTINCT cluster) > 1
    ) USING (account_id)"""
    yield "exposure", "cluster", rows, "must be the same in all rows of an account that have one"


@rule("exposure.offer_id", "offer.offer_id")
def _offered(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = unknown("exposure", "offer_id", "SELECT offer_id FROM offer")
    yield "exposure", "offer_id", rows, "is not in the offer table"


@rule("exposure.offer_id", "exposure.side", "offer.offer_id", "offer.side")
def _offer_side(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    sides = ", ".join(f"'{side}'" for side in SIDES)
    rows = f"""{joined("exposure", "offer", "offer_id")}
        WHERE t.side <> o.side AND t.side IN ({sides}) AND o.side IN ({sides})"""
    yield "exposure", "offer_id", rows, "is an offer for the other side"


@rule("action.account_id", "action.offer_id", "account.account_id", "offer.offer_id")
def _acted(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = unknown("action", "account_id", "SELECT account_id FROM account")
    yield "action", "account_id", rows, "is not in the account table"
    rows = unknown("action", "offer_id", "SELECT offer_id FROM offer")
    yield "action", "offer_id", rows, "is not in the offer table"


@rule("outcome.request_id", "exposure.request_id")
def _exposed(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = unknown("outcome", "request_id", "SELECT request_id FROM exposure")
    yield "outcome", "request_id", rows, "is not in the exposure table"


@rule("outcome.request_id", "outcome.observed_at", "exposure.request_id", "exposure.decided_at")
def _cause_first(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = f"{joined('outcome', 'exposure', 'request_id')} WHERE t.observed_at < o.decided_at"
    yield "outcome", "observed_at", rows, "is before the exposure's decided_at"


@rule("outcome.request_id", "outcome.mature", "exposure.request_id", "exposure.side")
def _labels(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    for column, side in (("redeemed", "customer"), ("share_count", "merchant"), ("share_count_before", "merchant")):
        mature = f"{joined('outcome', 'exposure', 'request_id')} WHERE o.side = '{side}' AND t.mature"
        rows = f"{mature} AND t.{column} IS NULL"
        yield "outcome", column, rows, f"is missing; a mature outcome of a {side} needs it"


@rule(
    "outcome.request_id", "outcome.redeemed", "exposure.request_id", "exposure.offer_id", "offer.offer_id", "offer.kind"
)
def _bought(_db: DuckDBPyConnection, given: Given) -> Iterator[Fault]:
    """A conversion of a fund has an amount and follows a click."""
    funds = f"""
        {joined("outcome", "exposure", "request_id")} JOIN offer ON o.offer_id = offer.offer_id
        WHERE offer.kind = '{FUND}' AND t.redeemed IS NOT NULL"""
    if "amount" in given["outcome"]:
        rows = f"{funds} AND (t.amount > 0) <> (t.redeemed = 1)"
        yield "outcome", "amount", rows, "must be above 0 exactly where a fund was bought (redeemed is 1)"
    if "clicked" in given["outcome"]:
        rows = f"{funds} AND t.redeemed = 1 AND t.clicked = 0"
        yield "outcome", "clicked", rows, "must be 1 where a fund was bought"
