"""Files of a run that name accounts, and the rows of an account in them."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from feature_repo.names import entity_key
from operations.common.workspace import GROUPS
from operations.erasure.record import Erasures
from operations.erasure.source import Source, word
from shadowprice.campaign import SIDES
from shadowprice.files import whole_file
from shadowprice.graphs.snapshot import META, rename
from shadowprice.groups import Groups
from shadowprice.pacing.decision_log.basis import erased
from shadowprice.pacing.decision_log.segments import SCHEMAS

IDENTIFIERS = ("account_id", "partner_id", "src", "dst", "user_id", *map(entity_key, SIDES))
"""Columns that name accounts, in tables, logs, features and sessions."""
REQUESTS, DECIDED, BASIS = ("request_id", "session_id"), "decided_at", "basis"
"""Columns that name requests; a session of vouchers is one."""
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
PARQUET, ARRAY = b"PAR1", b"\x93NUMPY"


def source_of(path: Path) -> Source | None:
    """Return how a file is read, by its first bytes; None where it can hold no account.

    Raises:
        ValueError: it is damaged, such as the draft of a process that was killed.
    """
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(PARQUET):
        return Parquet(path)
    if start.startswith(ARRAY):
        if path.name == GROUPS:
            return GroupsFile(path)
        return Names(path) if path.stem == "account_id" and (path.parent / META).exists() else None
    return Text(path) if start and b"\0" not in start else None


class Parquet(Source):
    """A parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path
        self._schema = pq.read_schema(path)
        texts = [field.name for field in self._schema if _is_text(field)]
        self._own = [name for name in texts if name in IDENTIFIERS]
        self.owned = bool(self._own)
        # Outcomes that come later name the requests of a log as its callers did.
        logged = path.name.partition("-")[0] in SCHEMAS
        self._asked = [name for name in texts if name in REQUESTS and not logged]

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows; a row of curves or embeddings with what the arrays beside it hold."""
        asked = self._own or [name for name in self._schema.names if name in REQUESTS]
        wanted = pa.array([account] if self._own else sorted(requests), pa.string())
        first, count = 0, pq.read_metadata(self._path).num_rows
        for table in self._tables() if asked else ():
            matching = _any(table, asked, wanted)
            for place, row in zip(np.flatnonzero(matching), table.filter(pa.array(matching)).to_pylist(), strict=True):
                yield row | _beside(self._path, count, first + int(place))
            first += len(table)

    def erase(self, erasures: Erasures) -> int:
        """Write the file again with pseudonyms, under its name.

        They are also put into ids of requests that contain an identifier, as those of a trial often do.
        """
        names = erasures.match(set().union(*(pc.unique(column).to_pylist() for column in self._columns(self._own))))
        inside = {
            name: erasure.pseudonym
            for name, erasure in erasures.met.items()
            if any(pc.any(_contains(column, name)).as_py() for column in self._columns(self._asked))
        }
        if not names and not inside:
            return 0
        known, new, rows = pa.array(list(names), pa.string()), pa.array([e.pseudonym for e in names.values()]), 0
        schema = pa.schema(
            [_field(column_field, [*self._own, *self._asked]) for column_field in self._schema], self._schema.metadata
        )
        with whole_file(self._path, durable=True) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as out:
            for table in self._tables():
                due = np.zeros(len(table), dtype=bool)
                before: dict[str, Any] = {}
                for name in (*self._own, *self._asked):
                    plain = changed = _plain(table[name])
                    if name in REQUESTS:
                        for old, pseudonym in inside.items():
                            changed = pc.replace_substring_regex(changed, word(old), rf"\1{pseudonym}\2")
                    elif names:
                        place = pc.index_in(plain, value_set=known)
                        own = pc.and_(place.is_valid(), _before(table, place, names, erasures))
                        changed = pc.if_else(own, new.take(place), plain)
                    due |= np.asarray(pc.fill_null(pc.not_equal(changed, plain), False))
                    before.setdefault(name, plain)
                    field = schema.field(name)
                    coded = changed.dictionary_encode() if pa.types.is_dictionary(field.type) else changed
                    table = table.set_column(table.schema.get_field_index(name), field, coded)
                rows += int(due.sum())
                out.write_table(_without_salts(table, due, before))
        return rows

    def mentions(self, account: str) -> int:
        """Count the rows of each text column that contain the identifier."""
        texts = [field.name for field in self._schema if _is_text(field) or field.name in IDENTIFIERS]
        return sum(pc.sum(_contains(column, account)).as_py() or 0 for column in self._columns(texts))

    def _tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        with pq.ParquetFile(self._path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, columns)

    def _columns(self, names: list[str]) -> Iterator[Any]:
        return (_plain(column) for table in self._tables(names) for column in table.columns) if names else iter(())


def _without_salts(table: pa.Table, due: Any, before: Mapping[str, Any]) -> pa.Table:
    """Return rows of a log whose due ones have no salt of account and partner, which are given as they were."""
    if BASIS not in table.schema.names or not due.any():
        return table
    values = (table[BASIS].to_pylist(), *(before[name].to_pylist() for name in ("account_id", "partner_id")))
    kept = [
        erased(basis, *owners) if changed else basis
        for changed, basis, *owners in zip(due.tolist(), *values, strict=True)
    ]
    place = table.schema.get_field_index(BASIS)
    return table.set_column(place, table.schema.field(place), pa.array(kept, pa.string()))


class Names(Source):
    """The array of identifiers of a graph snapshot."""

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - names no request
        """Yield what the arrays of the folder hold at the place of the account."""
        names = np.load(self.place, allow_pickle=False)
        for place in np.flatnonzero(names == account):
            yield _beside(Path(self.place), names.size, int(place))

    def erase(self, erasures: Erasures) -> int:
        """Replace identifiers and the checksum."""
        names = erasures.match(np.load(self.place, allow_pickle=False).tolist())
        return rename(Path(self.place).parent, {name: erasure.pseudonym for name, erasure in names.items()})


class GroupsFile(Source):
    """Groups of accounts, by hashes of their identifiers."""

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - names no request
        """Yield the group of the account, where it has one."""
        (group,) = Groups.load(Path(self.place)).units([account])
        if group != account:
            yield {"account_id": account, "group": group}

    def erase(self, erasures: Erasures) -> int:
        """Replace the hashes of the identifiers that other files held."""
        groups = Groups.load(Path(self.place))
        names = {name: erasure.pseudonym for name, erasure in erasures.met.items() if groups.units([name]) != [name]}
        if names:
            groups.renamed(names).save(Path(self.place))
        return len(names)


class Text(Source):
    """A text, such as a log of a service. Nothing is replaced in it."""

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - names no request
        """Yield the lines that contain the identifier."""
        pattern = re.compile(word(account).encode())
        with open(self.place, "rb") as file:
            for number, line in enumerate(file, 1):
                if pattern.search(line):
                    yield {"line": number, "text": line.decode(errors="replace").rstrip("\n")}


def _is_text(field: pa.Field) -> bool:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _field(field: pa.Field, own: list[str]) -> pa.Field:
    coded = field.name in own and pa.types.is_dictionary(field.type)
    # An encoding of the written texts has places of 32 bits.
    return field.with_type(pa.dictionary(pa.int32(), pa.string())) if coded else field


def _plain(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.string()).combine_chunks()


def _contains(column: Any, account: str) -> Any:
    return pc.match_substring_regex(column, word(account))


def _any(table: pa.Table, columns: list[str], wanted: pa.Array) -> Any:
    mask = np.zeros(len(table), dtype=bool)
    for name in columns:
        mask |= np.asarray(pc.is_in(_plain(table[name]), value_set=wanted))
    return mask


def _before(table: pa.Table, place: Any, names: Mapping[str, Any], erasures: Erasures) -> Any:
    """Return whether each row was decided before the erasure of its account; rows without a time were."""
    if DECIDED not in table.schema.names:
        return pa.scalar(True)
    until = pa.array([erasures.until(name) or NEVER for name in names], pa.timestamp("us", "UTC"))
    decided = table[DECIDED].cast(pa.timestamp("us", "UTC"), safe=False).combine_chunks()
    return pc.fill_null(pc.less_equal(decided, until.take(place)), True)


def _beside(path: Path, count: int, place: int) -> dict[str, Any]:
    """Return what the arrays in the folder of a list of accounts hold of one of them."""
    values = {}
    for file in sorted(path.parent.glob("*.npy")) if path.stem == "account_id" else ():
        array = np.load(file, mmap_mode="r", allow_pickle=False)
        if count in array.shape:
            values[file.stem] = array.take(place, axis=array.shape.index(count)).tolist()
    return values
