"""Rules of sessions of vouchers and of the behaviors in them."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from shadowprice.tables.rules.rule import Fault, Given, joined, rule, unknown


@rule("session.label", "session.redeemed_at")
def _redeemed(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = "SELECT row FROM session WHERE label = 1 AND redeemed_at IS NULL"
    yield "session", "redeemed_at", rows, "is missing; a session with label 1 needs it"
    rows = "SELECT row FROM session WHERE label = 0 AND redeemed_at IS NOT NULL"
    yield "session", "redeemed_at", rows, "must be empty where the label is 0"


@rule("session.collected_at", "session.redeemed_at")
def _collected_first(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = "SELECT row FROM session WHERE redeemed_at < collected_at"
    yield "session", "redeemed_at", rows, "is before collected_at"


@rule("session.collected_at", "session.expires_at")
def _expires_later(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    yield "session", "expires_at", "SELECT row FROM session WHERE expires_at < collected_at", "is before collected_at"


@rule("session.voucher_id", "session.min_spend", "session.discount")
def _voucher_terms(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    known = "voucher_id IS NOT NULL AND min_spend IS NOT NULL AND discount IS NOT NULL"
    terms = f"""SELECT voucher_id, arg_min(min_spend, row) AS min_spend, arg_min(discount, row) AS discount
        FROM session WHERE {known} GROUP BY voucher_id"""
    for column in ("min_spend", "discount"):
        rows = f"""SELECT t.row FROM session AS t JOIN ({terms}) AS o USING (voucher_id)
            WHERE t.{column} IS NOT NULL AND t.{column} <> o.{column}"""
        yield "session", column, rows, "differs from that of the same voucher above"


@rule("behaviour.session_id", "session.session_id")
def _behaved_in(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = unknown("behaviour", "session_id", "SELECT session_id FROM session")
    yield "behaviour", "session_id", rows, "is not in the session table"


@rule("behaviour.session_id", "behaviour.ts", "behaviour.phase", "session.session_id", "session.collected_at")
def _phase(_db: DuckDBPyConnection, _given: Given) -> Iterator[Fault]:
    rows = joined("behaviour", "session", "session_id")
    late = f"{rows} WHERE t.phase = 'before' AND t.ts > o.collected_at"
    yield "behaviour", "phase", late, "is not that of its ts, which is after the session's collected_at"
    early = f"{rows} WHERE t.phase = 'after' AND t.ts <= o.collected_at"
    yield "behaviour", "phase", early, "is not that of its ts, which is not after the session's collected_at"
