"""Sums of the events of each pair of accounts until an instant, which the next day's events are added to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from shadowprice.files import sha256, whole_file, write_whole
from shadowprice.tables.database import BATCH, Tables, instant, write_batches

INDEX = "sums.json"
"""Instants of the sums in a folder, with checksums of the files and of the events in them."""


@dataclass(frozen=True)
class TieSums:
    """Sums by source and target, in a Parquet file: number of events, weight, last instant, and each known feature.

    path   src, dst, n, weight, last (unix microseconds), and of each x_* its sum and, as ``n_x_…``, its number
    names  the features x_*
    at     the instant; no later event is in it
    """

    path: Path
    names: tuple[str, ...]
    at: datetime

    @classmethod
    def until(cls, tables: Tables, at: datetime, path: Path, before: TieSums | None = None) -> TieSums:
        """Sum the events until ``at`` and write them to ``path``.

        Args:
            tables: whose table ``edge`` is read; the database writes to disk what does not fit into memory.
            at: events after it are not read.
            path: of the file.
            before: sums until an earlier instant: only events after it are read.

        O(n) for n events that are read and the pairs before.
        """
        # One thread, because a sum must not depend on how the work was divided.
        with tables.connect(threads=1) as db, whole_file(path) as draft:
            write_batches(draft, db.sql(summed(tables, at, before)).to_arrow_reader(BATCH))
        return cls(path, features(tables), at)

    @property
    def query(self) -> str:
        """SQL that reads the sums."""
        return f"SELECT * FROM read_parquet({quoted(self.path)})"


def summed(tables: Tables, at: datetime, before: TieSums | None = None) -> str:
    """Return the SQL of :meth:`TieSums.until`, over :meth:`Tables.connect` with one thread."""
    names = features(tables)
    after = "" if before is None else f" AND ts > {instant(before.at)}"
    known = "".join(f', "{name}", CAST("{name}" IS NOT NULL AS BIGINT) AS "n_{name}"' for name in names)
    sums = "".join(f', fsum("{name}") AS "{name}", CAST(sum("n_{name}") AS BIGINT) AS "n_{name}"' for name in names)
    own = f"src, dst, 1 AS n, weight, epoch_us(ts) AS last{known}"
    events = f"SELECT {own} FROM edge WHERE ts <= {instant(at)}{after}"
    if before is not None:
        events = f"{before.query} UNION ALL {events}"
    return f"""
        SELECT src, dst, CAST(sum(n) AS BIGINT) AS n, fsum(weight) AS weight, max(last) AS last{sums}
        FROM ({events}) GROUP BY src, dst ORDER BY src, dst"""


def keep(sums: Sequence[TieSums], folder: Path, tables: Tables) -> list[TieSums]:
    """Write sums to ``folder``, in place of others, for the next call of :func:`kept`; return those there."""
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for part in sums:
        name = f"{part.at:%Y%m%dT%H%M%S%f}.parquet"
        if part.path != folder / name:
            with whole_file(folder / name) as draft:
                shutil.copyfile(part.path, draft)
        checks = {"events": digest(tables, part.at), "sha256": sha256(folder / name)}
        index.append({"file": name, "at": part.at.isoformat(), **checks})
    write_whole(folder / INDEX, json.dumps(index, indent=1))
    for path in folder.glob("*.parquet"):
        if path.name not in {record["file"] for record in index}:
            path.unlink()
    return [replace(part, path=folder / entry["file"]) for part, entry in zip(sums, index, strict=True)]


def kept(folder: Path, tables: Tables) -> list[TieSums]:
    """Return the sums in ``folder`` that are of the events which ``tables`` has until their instants."""
    if not (folder / INDEX).exists():
        return []
    names = features(tables)
    parts = []
    for load in json.loads((folder / INDEX).read_text()):
        path, at = folder / load["file"], datetime.fromisoformat(load["at"])
        if path.exists() and sha256(path) == load["sha256"] and digest(tables, at) == load["events"]:
            parts.append(TieSums(path, names, at))
    return parts


def latest(sums: Sequence[TieSums], at: datetime) -> TieSums | None:
    """Return the last sums that have no event after ``at``."""
    return max((part for part in sums if part.at <= at), key=lambda each: each.at, default=None)


def features(tables: Tables) -> tuple[str, ...]:
    """Names of the features of events."""
    return tuple(name for name in tables.columns("edge") if name.startswith("x_"))


def digest(tables: Tables, at: datetime) -> str:
    """Number of events until an instant and a hash of them in any order. O(n), without sorting or grouping."""
    columns = ", ".join(f'"{name}"' for name in sorted(tables.columns("edge")))
    with tables.connect() as db:
        query = f"SELECT count(*), sum(hash({columns})) FROM edge WHERE ts <= {instant(at)}"
        ((count, hash_sum),) = db.sql(query).fetchall()
    return f"{count} {hash_sum}"


def quoted(path: Path) -> str:
    """Return a path as a text of SQL."""
    text = str(path).replace("'", "''")
    return f"'{text}'"
