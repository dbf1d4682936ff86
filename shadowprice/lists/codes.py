"""Codes of coupons: a pool that gives each decision of a list one code, and no code twice."""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shadowprice.errors import Conflict, InvalidInput, NotFound, StorageFailed
from shadowprice.lists.code_file import code_key, read_codes

STATE = ".sqlite"
"""End of the name of a pool's database, after the name of its file."""
WAIT_SECONDS = 60.0
"""Time to wait for another process that writes to the pool."""
FREE = "request_id IS NULL AND returned_at IS NULL"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS code (
    number INTEGER PRIMARY KEY, code TEXT NOT NULL, key TEXT NOT NULL UNIQUE, offer TEXT NOT NULL,
    request_id TEXT UNIQUE, side TEXT, incentive INTEGER, assigned_at INTEGER, returned_at INTEGER);
CREATE TEMP TABLE incoming (line INTEGER, code TEXT, key TEXT, offer TEXT);
CREATE TEMP TABLE wanted (place INTEGER, request_id TEXT PRIMARY KEY, offer TEXT, side TEXT, incentive INTEGER,
    had TEXT);
"""


class Coded(NamedTuple):
    """A code that was given to a decision; incentive in minor units, assigned_at in seconds since 1970 (UTC)."""

    code: str
    request_id: str
    side: str
    incentive: int
    assigned_at: int


class CodePool:
    """Codes of a file, and the decisions that have them, in an sqlite file beside it.

    The file is CSV with a column ``code``, and ``offer`` or ``level`` where a code is for one of them. Codes may be
    added to the file at any time; free codes that it no longer lists leave the pool. A code is given to one request id,
    for good, in one durable transaction: a process that is killed gives all codes of its rows or none, and asking
    again returns the same. A code that was given is never free again, also after its authorization expired or was
    returned: whoever received it could still use it. Codes that differ in case alone are the same, as in most shops.

    Args:
        file: of the codes; may be gone where the database is there.
        campaign: whose decisions get the codes; a pool has one.

    Raises:
        NotFound: neither the file nor its database is there.
        InvalidInput: the file has no column ``code``, a code twice, or a cell that is empty.
        Conflict: the pool is of another campaign, or a code in it has another offer than in the file.
        StorageFailed: the database cannot be written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name) / "codes.csv"
        >>> _ = file.write_text("code\\nA1\\nA2\\n")
        >>> rows = pa.table({"request_id": ["r1"], "side": ["customer"], "level": [1], "offer_id": ["five"],
        ...                  "incentive": [500], "code": [""], "authorized": [True]})
        >>> with CodePool(file, "spring") as pool:
        ...     pool.assign(rows)["code"].to_pylist(), pool.assign(rows)["code"].to_pylist()
        (['A1'], ['A1'])
        >>> folder.cleanup()
    """

    def __init__(self, file: Path, campaign: str) -> None:
        self.file, state = file, file.with_name(file.name + STATE)
        if not file.exists() and not state.exists():
            raise NotFound(f"{file}: there is no such file of codes; write one with a column code")
        incoming = read_codes(file) if file.exists() else None
        try:
            self.db = sqlite3.connect(state, timeout=WAIT_SECONDS, isolation_level=None)
            self.db.execute("PRAGMA synchronous = EXTRA")
            self.db.execute("PRAGMA temp_store = MEMORY")
            for statement in _TABLES.split(";"):
                self.db.execute(statement)
            with self.transaction():
                self._claim(campaign)
                if incoming is not None:
                    self._take(*incoming)
        except BaseException as error:
            if hasattr(self, "db"):
                self.db.close()
            if isinstance(error, sqlite3.Error):
                raise StorageFailed(f"{state}: {error}") from error
            raise

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write to the database: all of it, durably, or nothing; other processes wait."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield self.db
            self.db.execute("COMMIT")
        except BaseException as error:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise StorageFailed(f"{self.file}{STATE}: {error}") from error
            raise

    def check(self, rows: pa.Table) -> None:
        """Refuse what :meth:`assign` would refuse; nothing is assigned. Arguments and errors are those."""
        with self.transaction():
            self._want(rows)

    def assign(self, rows: pa.Table) -> pa.Table:
        """Return the rows of a list with their codes, each new or the one that its request id has.

        Rows need a code where they have an incentive, or an offer that the file names. O(rows + pool).

        Args:
            rows: of a list, columns of :data:`shadowprice.lists.table.SCHEMA`.

        Raises:
            InvalidInput: too few codes, with the number missing for each offer; an incentive that the ledger does not
                hold; a request id twice. Nothing is assigned.
            Conflict: a request id has a code for another offer, or the list has a code that the pool did not give.
        """
        with self.transaction() as db:
            self._want(rows)
            now = int(time.time())
            for offer, asked in db.execute(f"SELECT offer, count(*) FROM wanted {_NEW} GROUP BY offer").fetchall():
                free = f"SELECT number FROM code WHERE {FREE} AND offer = ? ORDER BY number LIMIT ?"
                numbers = [number for (number,) in db.execute(free, (offer, asked))]
                new = f"SELECT request_id, side, incentive FROM wanted {_NEW} AND offer = ? ORDER BY place"
                db.executemany(
                    "UPDATE code SET request_id = ?, side = ?, incentive = ?, assigned_at = ? WHERE number = ?",
                    [(*row, now, number) for row, number in zip(db.execute(new, (offer,)), numbers, strict=True)],
                )
            given = db.execute("SELECT place, code.code FROM wanted CROSS JOIN code USING (request_id)").fetchall()
        codes = np.full(rows.num_rows, "", dtype=object)
        for place, code in given:
            codes[place] = code
        return rows.set_column(rows.schema.get_field_index("code"), "code", pa.array(codes, pa.string()))

    def hand_back(self) -> list[tuple[str, str]]:
        """Take the free codes out of the pool for good, and return every code that was ever taken out.

        Each is a pair of the code and its offer or level. A repeated call returns at least the same ones, so a caller
        that was interrupted loses none.
        """
        with self.transaction() as db:
            db.execute(f"UPDATE code SET returned_at = ? WHERE {FREE}", (int(time.time()),))
            return db.execute("SELECT code, offer FROM code WHERE returned_at IS NOT NULL ORDER BY number").fetchall()

    @property
    def matched_by(self) -> str:
        """Column of the file that says what a code is for; empty where any code fits."""
        return self._about("matched_by") or ""

    def find(self, codes: Sequence[str]) -> dict[str, Coded | None]:
        """Return key of each known code → the decision that has it, None for a code that was not given."""
        wanted = [(code_key(code),) for code in codes]
        with self.transaction() as db:
            db.execute("CREATE TEMP TABLE IF NOT EXISTS asked (key TEXT PRIMARY KEY)")
            db.execute("DELETE FROM asked")
            db.executemany("INSERT OR IGNORE INTO asked VALUES (?)", wanted)
            found = db.execute(
                "SELECT key, code, request_id, side, incentive, assigned_at FROM code JOIN asked USING (key)"
            ).fetchall()
        return {key: None if row[1] is None else Coded(*row) for key, *row in found}

    def _about(self, key: str) -> str | None:
        row = self.db.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _note(self, key: str, value: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))

    def _claim(self, campaign: str) -> None:
        owner = self._about("campaign")
        if owner not in (None, campaign):
            raise Conflict(
                f"{self.file}: the codes belong to campaign {owner!r}, not {campaign!r}; give it a file of its own"
            )
        self._note("campaign", campaign)

    def _take(self, digest: str, matched_by: str, codes: Sequence[str], offers: Sequence[str]) -> None:
        """Bring the pool to what the file lists."""
        if digest == self._about("digest"):
            return
        known = self._about("matched_by")
        if known not in (None, matched_by):
            raise Conflict(f"{self.file}: codes were matched by {known or 'nothing'} before; keep the column")
        lines = enumerate(zip(codes, offers, strict=True), 2)
        rows = ((line, code, code_key(code), offer) for line, (code, offer) in lines)
        self.db.executemany("INSERT INTO incoming VALUES (?, ?, ?, ?)", rows)
        twice = self.db.execute(
            "SELECT min(code), group_concat(line, ' and ') FROM incoming GROUP BY key HAVING count(*) > 1 LIMIT 1"
        ).fetchone()
        if twice is not None:
            raise InvalidInput(f"code {twice[0]!r} stands twice, in lines {twice[1]}; keep one", field=str(self.file))
        other = self.db.execute(
            "SELECT line, incoming.code FROM incoming JOIN code USING (key)"
            " WHERE code.offer <> incoming.offer OR code.code <> incoming.code LIMIT 1"
        ).fetchone()
        if other is not None:
            raise Conflict(f"{self.file}, line {other[0]}: code {other[1]!r} was in the pool before in another form")
        self.db.execute(f"DELETE FROM code WHERE {FREE} AND key NOT IN (SELECT key FROM incoming)")
        self.db.execute(
            "INSERT OR IGNORE INTO code (code, key, offer) SELECT code, key, offer FROM incoming ORDER BY line"
        )
        self._note("digest", digest)
        self._note("matched_by", matched_by)

    def _want(self, rows: pa.Table) -> None:
        """Fill the table ``wanted``, or raise as :meth:`assign` does."""
        offers = rows["level" if self.matched_by == "level" else "offer_id"].cast(pa.string())
        if self.matched_by == "level" and len(rows["side"].unique()) > 1:
            raise InvalidInput("the list has two sides, whose levels differ; give codes by offer", field="level")
        paid = pc.greater(rows["incentive"], 0)
        _refuse(pc.and_not(paid, rows["authorized"]), "is not authorized: a plan gets no codes", "authorized")
        needs = paid
        if self.matched_by:
            named = [offer for (offer,) in self.db.execute("SELECT DISTINCT offer FROM code")]
            needs = pc.and_(rows["authorized"], pc.or_(paid, pc.is_in(offers, pa.array(named, pa.string()))))
        _refuse(pc.and_(pc.invert(needs), pc.not_equal(rows["code"], "")), "has a code, but nothing to redeem", "code")
        place = np.flatnonzero(needs.to_numpy(zero_copy_only=False))
        chosen = rows.take(pa.array(place))
        asked = offers.take(pa.array(place)).to_pylist() if self.matched_by else [""] * len(place)
        self.db.execute("DELETE FROM wanted")
        try:
            self.db.executemany(
                "INSERT INTO wanted VALUES (?, ?, ?, ?, ?, ?)",
                zip(
                    place.tolist(),
                    chosen["request_id"].to_pylist(),
                    asked,
                    chosen["side"].to_pylist(),
                    chosen["incentive"].to_pylist(),
                    chosen["code"].to_pylist(),
                    strict=True,
                ),
            )
        except sqlite3.IntegrityError:
            raise InvalidInput("stands twice in the list; every row has its own", field="request_id") from None
        self._refuse_others()
        self._refuse_missing()

    def _refuse_others(self) -> None:
        other = self.db.execute(
            "SELECT request_id, code, had FROM wanted LEFT JOIN code USING (request_id)"
            " WHERE (code IS NOT NULL AND code.offer <> wanted.offer) OR had NOT IN ('', coalesce(code, '')) LIMIT 1"
        ).fetchone()
        if other is None:
            return
        request, code, had = other
        if had not in ("", code or ""):
            raise Conflict(
                f"{self.file}: the list has code {had!r} for request {request!r}, which this pool did not give; "
                f"restore the pool's file {self.file.name}{STATE}, or name the pool that the code is from"
            )
        raise Conflict(f"{self.file}: request {request!r} has code {code!r}, which is for another offer")

    def _refuse_missing(self) -> None:
        missing = self.db.execute(
            f"""SELECT offer, asked - coalesce(free, 0) FROM
                (SELECT offer, count(*) AS asked FROM wanted {_NEW} GROUP BY offer) LEFT JOIN
                (SELECT offer, count(*) AS free FROM code WHERE {FREE} GROUP BY offer) USING (offer)
                WHERE asked > coalesce(free, 0) ORDER BY offer"""
        ).fetchall()
        if missing:
            total = sum(number for _, number in missing)
            named = ", ".join(f"{number:,} of {self.matched_by} {offer!r}" for offer, number in missing if offer)
            raise InvalidInput(
                f"too few codes, {total:,} missing{f': {named}' if named else ''}; add them to the file; nothing was "
                "assigned",
                field=str(self.file),
            )


_NEW = "WHERE NOT EXISTS (SELECT 1 FROM code WHERE code.request_id = wanted.request_id)"


def _refuse(wrong: pa.ChunkedArray, message: str, field: str) -> None:
    InvalidInput.refuse_rows(np.asarray(wrong.to_numpy(zero_copy_only=False), dtype=np.bool_), message, field=field)
