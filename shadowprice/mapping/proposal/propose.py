"""A first mapping of a user's files: which column is probably which canonical one, with the reason to check it."""

import math
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import duckdb

from shadowprice.errors import InvalidInput
from shadowprice.mapping.opened import literal
from shadowprice.mapping.proposal.alternatives import alternatives, control, named_offer, unit_cost
from shadowprice.mapping.proposal.chances import chance, drawn_by
from shadowprice.mapping.proposal.guesses import (
    Proposed,
    hinted,
    is_value,
    likely_values,
    names_rows,
    value_reason,
)
from shadowprice.mapping.proposal.parts import Free, Part, Proposal, refers
from shadowprice.mapping.proposal.percent import in_percent
from shadowprice.mapping.proposal.profile import Profile, profiles
from shadowprice.mapping.proposal.results import orders, outcome, results
from shadowprice.mapping.sources import table_of
from shadowprice.tables.database import empty_database

KEY: Mapping[str, str] = {"customers": "customer", "merchants": "merchant"}
"""Source of accounts → its side."""


def propose(folder: Path, files: Mapping[str, Path]) -> Proposal:
    """Read the first rows of the files and propose a mapping.

    Args:
        folder: that the mapping will lie in.
        files: ``trials``, the offers that were made, and where known ``customers``, ``merchants`` and ``outcomes``.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a file cannot be read, or the trials have no time.
    """
    with empty_database() as db:
        tables = profiles(db, folder, files)
        keys = {
            name: key for name, table in tables.items() if name in KEY and (key := _key(db, table, tables["trials"]))
        }
        made = _exposure(db, tables, keys)
        parts = [made]
        if "outcomes" in tables:
            parts.append(orders(db, tables["outcomes"], made) or outcome(db, tables["outcomes"], made))
        first, last = _window(made)
        zoned = all(column.zoned for one in tables.values() for column in one.columns if column.kind == "time")
        day_after = last + timedelta(days=1)
        accounts = [
            _account(tables[name], side, keys.get(name, ""), _day(first, zoned), alone="merchants" not in tables)
            for name, side in KEY.items()
            if name in tables
        ]
        return Proposal(
            parts=[*accounts, *parts],
            has_zone=zoned,
            starts_at=_day(day_after, zoned),
            budget_limit=_budget(db, made, (day_after - first).days),
            counted=_counted(made),
        )


def _exposure(db: duckdb.DuckDBPyConnection, found: Mapping[str, Profile], keys: Mapping[str, str]) -> Part:
    trials = found["trials"]
    free = Free(trials)
    columns = free.columns
    for source, name in (("customers", "account_id"), ("merchants", "partner_id")):
        if source in keys:
            own = refers(db, found[source], keys[source], trials, free.left)
            free.take(name, own, reason=f"its values are {keys[source]} of {found[source].source.file}")
    names = [cells.name for cells in free.left if names_rows(cells)]
    many = [cells.name for cells in free.left if cells.kind == "text" and not cells.values and not cells.unique]
    keys_like = [cells for cells in free.left if cells.kind == "text" or (cells.whole and not cells.values)]
    called = [cells.name for cells in keys_like if hinted(cells, "account_id")]
    if called or many or names:
        reason = "by its name" if called else "many different values"
        free.take("account_id", (called or many or names)[0], reason=reason, check=True)
    requests = [name for name in names if name in free.names]
    if requests:
        free.take("request_id", requests[0], reason="no two rows have the same value")
    else:
        columns["request_id"] = Proposed(keys={"row": "R"}, reason="no column names a row: the number of the row does")
    times = [cells for cells in free.left if cells.kind == "time"]
    if not times:
        own = ", ".join(trials.opened.names)[:300]
        raise InvalidInput(
            f"has no column of times, which tells when the offers were made; it has {own}. Where times have "
            "another form, or cells another delimiter, write the mapping by hand",
            field=trials.source.file,
        )
    free.times("decided_at", lambda _: True, "when the offer was made")
    parts = in_percent(free.left, trials)
    columns |= parts
    chosen = {name: free.names.pop(column.own) for name, column in parts.items() if column.own}
    offered = [] if parts else likely_values([cells for cells in free.left if is_value(cells, trials)])
    if offered:
        free.take("face_value", offered[0].name, reason=value_reason(offered[0]), check=True)
    names_offers = None if offered or parts else alternatives(free.left)
    if names_offers is not None:
        free.put("offer_id", named_offer(names_offers))
        columns["cost"] = unit_cost(names_offers)
    offers = chosen.get("offer_id", names_offers) or next(iter([*chosen.values(), *offered]), None)
    free.put("propensity", chance(db, trials, offers, free.left))
    if offers is not None and columns.get("account_id", Proposed()).own:
        free.put("cluster", drawn_by(db, trials, offers, columns["account_id"].own, free.left))
    if "outcomes" not in found:
        columns |= results(free.names, trials.cells(columns["decided_at"].own), times)
    required = ["account_id", "face_value" if names_offers is None else "offer_id"]
    required += [] if "outcomes" in found else ["redeemed"]
    return free.part("exposure", [name for name in required if name not in columns])


def _account(rows: Profile, side: str, key: str, first_day: str, *, alone: bool) -> Part:
    columns: dict[str, Proposed] = {}
    if key and rows.cells(key).unique:
        columns["account_id"] = Proposed(own=key, reason="no two rows have the same value")
    elif key:
        reason = "several rows have the same value: keep one of each, or map snapshot_ts to their own times"
        columns["account_id"] = Proposed(own=key, reason=reason, check=True)
    if not alone:
        columns["side"] = Proposed(keys={"constant": side})
    columns["snapshot_ts"] = Proposed(
        keys={"constant": first_day}, reason="when the other columns were true: before the first offer", check=True
    )
    rest = [column for column in rows.columns if column.name != key]
    numbers = [cells.name for cells in rest if cells.kind == "number" and not names_rows(cells)]
    texts = [cells.name for cells in rest if cells.kind == "text" and cells.values]
    return Part(
        table="account",
        profile=rows,
        columns=columns,
        numbers=numbers,
        texts=texts,
        missing=[] if key else ["account_id"],
        unused=[cells.name for cells in rest if cells.name not in (*numbers, *texts)],
    )


def _key(db: duckdb.DuckDBPyConnection, rows: Profile, trials: Profile) -> str:
    """Return the column of a file of accounts that the trials refer to, one that no two rows share before others."""
    unique = [column.name for column in rows.columns if names_rows(column)]
    many = [column for column in rows.columns if not column.values and (column.kind == "text" or column.whole)]
    for candidate in [*unique, *(column.name for column in many if column.name not in unique)]:
        if refers(db, rows, candidate, trials, trials.columns):
            return candidate
    return next(iter(unique), "")


def _window(made: Part) -> tuple[date, date]:
    """Return the days of the first and the last offer."""
    sent = made.profile.cells(made.columns["decided_at"].own)
    if sent.first is None or sent.last is None:
        raise InvalidInput(f"has no time in {sent.name}", field=made.profile.source.file)
    return sent.first.date(), sent.last.date()


def _day(day: date, zoned: bool) -> str:
    """Return the first moment of a day, with its zone where the mapping has none for times without one."""
    return f"{day.isoformat()}T00:00Z" if zoned else day.isoformat()


def _counted(made: Part) -> bool:
    """Return whether the budget counts offers: they have names and no amounts."""
    return "offer_id" in made.columns and "percent" not in made.columns


def _budget(db: duckdb.DuckDBPyConnection, made: Part, days: int) -> str:
    """Return the value that was redeemed on a mean day, or that was offered where results are in another file.

    Of offers without an amount, it is the number of those that were given and that cost something.
    """
    if _counted(made):
        names = made.profile.cells(made.columns["offer_id"].own)
        costly = f"SELECT count(*) FROM {table_of(made.profile.source)} WHERE {made.profile.sql(names.name)} <> ?"
        ((spent,),) = db.execute(costly, [control(names)]).fetchall()
        return str(max(math.ceil(spent / days), 1))
    if "face_value" not in made.columns:
        return ""
    value, redeemed = made.columns["face_value"].own, made.columns.get("redeemed")
    where = "true" if redeemed is None else _where(made.profile, redeemed)
    counted = db.execute(
        f"""SELECT {made.profile.sql(value)}, count(*) FROM {table_of(made.profile.source)}
        WHERE {where} GROUP BY 1"""
    ).fetchall()
    amounts = made.profile.cells(value).values
    total = sum(made.profile.number(amount) * rows for amount, rows in counted if amount in amounts)
    return str(max(math.ceil(total / days), 1))


def _where(rows: Profile, redeemed: Proposed) -> str:
    """Return the SQL of the rows that were redeemed."""
    expression, values = redeemed.keys.get("expression"), redeemed.keys.get("values")
    if expression:
        return f"{expression} = 1"
    yes = next(own for own, flag in values.items() if flag == "1") if isinstance(values, Mapping) else "1"
    return f"{rows.sql(redeemed.own)} = {literal(yes)}"
