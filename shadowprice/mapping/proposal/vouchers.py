"""A first mapping of a user's voucher log."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import duckdb

from shadowprice.mapping.proposal.guesses import (
    Proposed,
    has_two_values,
    hinted,
    named,
    names_rows,
)
from shadowprice.mapping.proposal.parts import Free, Part, Proposal, refers
from shadowprice.mapping.proposal.profile import Profile, profiles
from shadowprice.tables.database import empty_database

ORDERED = ("order", "buy", "purchase", "kauf", "bestell", "pedid", "compr", "achat", "command", "acquist")
"""Parts of words for an order among those for carts."""


def propose_vouchers(folder: Path, files: Mapping[str, Path]) -> Proposal:
    """Read the first rows of the files of a voucher log and propose a mapping.

    Args:
        folder: that the mapping will lie in.
        files: ``vouchers``, those that were collected, and where known ``offers``, their terms, ``outcomes``, their
            redemptions, and ``behaviors``, carts and orders.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a file cannot be read.
    """
    with empty_database() as db:
        tables = profiles(db, folder, files)
        offer = _offer(tables["offers"]) if "offers" in tables else None
        session = _session(db, tables["vouchers"], offer, "outcomes" in tables)
        parts = [session, *([] if offer is None else [offer])]
        if "outcomes" in tables:
            parts.append(_outcome(db, tables["outcomes"], session))
        if "behaviors" in tables:
            parts.append(_behaviour(db, tables["behaviors"], session))
        zoned = all(column.zoned for one in tables.values() for column in one.columns if column.kind == "time")
        return Proposal(parts=parts, has_zone=zoned, starts_at="", budget_limit="")


def _session(db: duckdb.DuckDBPyConnection, rows: Profile, offer: Part | None, outcomes: bool) -> Part:
    free = Free(rows)
    if offer is not None and "offer_id" in offer.columns:
        key = offer.columns["offer_id"].own
        own = refers(db, offer.profile, key, rows, rows.columns)
        free.take("voucher_id", own, reason=f"its values are {key} of {offer.profile.source.file}")
    keys = [cells for cells in free.left if cells.kind == "text" or cells.whole]
    free.first("session_id", filter(names_rows, keys), reason="no two rows have the same value")
    if "session_id" not in free.columns:
        free.columns["session_id"] = Proposed(keys={"row": "S"}, reason="no column names a row: its number does")
    free.first("voucher_id", (cells for cells in keys if hinted(cells, "face_value")))
    many = [cells for cells in keys if cells.name in free.names and not cells.values]
    free.first("user_id", [cells for cells in many if hinted(cells, "account_id")] or many)
    free.times("expires_at", lambda cells: hinted(cells, "expires_at"), "when the voucher expired")
    if not outcomes:
        free.times("redeemed_at", lambda cells: not cells.full, "when it was redeemed")
    free.times("collected_at", lambda _: True, "when the voucher was collected")
    if offer is None:
        free.terms("discount")
    terms = ("discount", "min_spend") if offer is None else ()
    results = () if outcomes else ("redeemed_at",)
    needed = ("user_id", "voucher_id", "collected_at", *terms, *results)
    missing = [name for name in needed if name not in free.columns]
    numbers = [cells.name for cells in free.left if cells.kind == "number"]
    texts = [cells.name for cells in free.left if cells.kind == "text" and cells.values]
    return replace(free.part("session", missing), numbers=numbers, texts=texts, unused=free.unused(numbers, texts))


def _offer(rows: Profile) -> Part:
    free = Free(rows)
    free.first("offer_id", filter(names_rows, free.left), reason="no two rows have the same value")
    free.terms("face_value")
    # Terms are what such a file is for.
    free.first("min_spend", (cells for cells in free.left if cells.kind == "number"))
    return free.part("offer", [name for name in ("offer_id", "face_value", "min_spend") if name not in free.columns])


def _outcome(db: duckdb.DuckDBPyConnection, rows: Profile, session: Part) -> Part:
    free = Free(rows)
    free.key(db, "request_id", session, "session_id")
    free.times("observed_at", lambda _: True, "when the voucher was redeemed")
    return free.part("outcome", [name for name in ("request_id", "observed_at") if name not in free.columns])


def _behaviour(db: duckdb.DuckDBPyConnection, rows: Profile, session: Part) -> Part:
    free = Free(rows)
    free.key(db, "session_id", session, "session_id")
    if "session_id" not in free.columns:
        free.key(db, "user_id", session, "user_id")
    free.times("ts", lambda _: True, "when it happened")
    actions = [cells for cells in free.left if cells.kind == "text" and has_two_values(cells)]
    if actions:
        own = actions[0]
        values = {word: "order" if any(part in word.casefold() for part in ORDERED) else "cart" for word in own.values}
        free.take("action", own.name, keys={"values": values}, reason="put into a cart, or ordered", check=True)
    for name in ("category", "brand", "price_level"):
        free.first(name, (cells for cells in free.left if hinted(cells, name)))
    items = [cells for cells in free.left if cells.kind == "text" or cells.whole]
    free.first("item_id", named(items, "item_id"))
    missing = [name for name in ("item_id", "action", "ts") if name not in free.columns]
    return free.part(
        "behaviour", [*([] if {"session_id", "user_id"} & set(free.columns) else ["session_id"]), *missing]
    )
