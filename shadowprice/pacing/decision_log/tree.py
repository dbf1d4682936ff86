"""Hash tree over the decisions of a log: one head for all rows so far, and a short proof for each of them.

The tree is that of RFC 9162 (Certificate Transparency): its head depends on the rows and their order alone. So it
needs no state in the ledger: any process that reads the log computes the same head, whichever replica wrote which
segment, after any kill, recovery or compaction. A row is hashed without account and partner, in whose place is the
commitment of its basis; so an erasure changes no head.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from shadowprice.errors import Conflict
from shadowprice.files import write_whole
from shadowprice.pacing.decision_log.basis import ERASED, commitment, parted
from shadowprice.pacing.decision_log.records import REQUIRED, Decision, columns
from shadowprice.pacing.decision_log.segments import tables_after
from shadowprice.pacing.decision_log.verify_receipt import canonical

BLOCK = 1024
"""Rows whose root is kept; a power of two, so that it is a node of every larger tree."""
PLACES = {name: place for place, name in enumerate(Decision._fields)}
EARLIER = tuple(column.earlier for column in columns(Decision))
VECTOR = PLACES["propensities"]
PERSONAL = {PLACES[name] for name in ("account_id", "partner_id", "basis")}


class Head(NamedTuple):
    """Number of rows of a log, and the root of their tree as hexadecimal digits; empty without rows."""

    rows: int
    root: str


def entry(row: Sequence[Any]) -> dict[str, Any]:
    """Return the part of a decision that is hashed, without fields at their defaults: so a new field changes no hash.

    ``row`` has the values of :class:`Decision`, times in microseconds.
    """
    kept = {
        name: list(row[place]) if isinstance(row[place], tuple) else row[place]
        for name, place in PLACES.items()
        if place not in PERSONAL and (EARLIER[place] is REQUIRED or row[place] != EARLIER[place])
    }
    if basis := row[PLACES["basis"]]:
        salt, kept["basis"] = parted(basis)
        own = row[PLACES["account_id"]], row[PLACES["partner_id"]]
        kept["owner"] = salt[1:] if salt.startswith(ERASED) else commitment(salt, *own)
    return kept


def leaf(row: Sequence[Any]) -> bytes:
    """Return the hash of a decision."""
    return sha256(b"\0" + canonical(entry(row))).digest()


def root(nodes: Sequence[bytes]) -> bytes:
    """Return the root over nodes of one height; the last may stand for fewer rows. O(n)."""
    if len(nodes) == 1:
        return nodes[0]
    half = 1 << (len(nodes) - 1).bit_length() - 1
    return sha256(b"\1" + root(nodes[:half]) + root(nodes[half:])).digest()


def path(nodes: Sequence[bytes], place: int) -> list[bytes]:
    """Return the hashes beside a node on the way to the root, from the node up. O(n)."""
    if len(nodes) == 1:
        return []
    half = 1 << (len(nodes) - 1).bit_length() - 1
    left, right = nodes[:half], nodes[half:]
    return [*path(left, place), root(right)] if place < half else [*path(right, place - half), root(left)]


def rows_after(folder: Path, read: int) -> Iterator[Decision]:
    """Yield the decisions of a log after number ``read``, each once, times in microseconds.

    Raises:
        InvalidTable: a segment is missing between others, or is damaged.
    """
    batches = (part for table in tables_after(folder, "decisions", read) for part in table.to_batches(BLOCK))
    for batch in batches:
        values = [
            (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
            for column in batch.columns
        ]
        values[VECTOR] = list(map(tuple, values[VECTOR]))
        yield from map(Decision._make, zip(*values, strict=True))


def heads_of(leaves: Iterable[bytes], rows: Container[int]) -> Iterator[Head]:
    """Yield the heads of the first rows of a log, for each number in ``rows`` that it has, in one pass."""
    blocks, tail = list[bytes](), list[bytes]()
    for number, each in enumerate(leaves, 1):
        _add(blocks, tail, each)
        if number in rows:
            yield _head(blocks, tail)


def _add(blocks: list[bytes], tail: list[bytes], leaf: bytes) -> None:
    """Add a leaf to the rest of the last block, which becomes a root when it is whole."""
    tail.append(leaf)
    if len(tail) == BLOCK:
        blocks.append(root(tail))
        tail.clear()


def _head(blocks: Sequence[bytes], tail: Sequence[bytes]) -> Head:
    nodes = [*blocks, *([root(tail)] if tail else [])]
    return Head(BLOCK * len(blocks) + len(tail), root(nodes).hex() if nodes else "")


class LogTree:
    """The tree of a log.

    ``kept`` is a file for the roots of its blocks, so that a head costs the new rows alone. The file can be deleted.

    Raises:
        InvalidTable: a segment is missing between others, or is damaged.
    """

    def __init__(self, folder: Path, kept: Path | None = None) -> None:
        self._folder, self._kept = folder, kept
        self._blocks = self._read()

    def head(self, most: int | None = None) -> Head:
        """Return the head of all rows so far, or of ``most`` more than are kept. O(rows since the last call)."""
        before, tail = len(self._blocks), list[bytes]()
        for each in islice(map(leaf, rows_after(self._folder, BLOCK * before)), most):
            _add(self._blocks, tail, each)
        if self._kept is not None and len(self._blocks) > before:
            first = leaf(next(rows_after(self._folder, 0)))
            write_whole(self._kept, "".join(f"{each.hex()}\n" for each in [first, *self._blocks]))
        return _head(self._blocks, tail)

    def proof(self, row: int, rows: int) -> list[str]:
        """Return the hashes that lead from row number ``row`` to the head of the first ``rows``. O(log rows + block).

        Raises:
            Conflict: the log has fewer rows.
        """
        block, place = divmod(row - 1, BLOCK)
        leaves = self._leaves(block, rows)
        return [each.hex() for each in [*path(leaves, place), *path(self._nodes(rows), block)]]

    def _nodes(self, rows: int) -> list[bytes]:
        self.head()
        if rows > BLOCK * (len(self._blocks) + 1):
            raise Conflict(f"the log {self._folder} has fewer than {rows} decisions: it lost some, or is another one")
        whole = rows // BLOCK
        return [*self._blocks[:whole], *([root(self._leaves(whole, rows))] if rows % BLOCK else [])]

    def _leaves(self, block: int, rows: int) -> list[bytes]:
        most = min(rows - BLOCK * block, BLOCK)
        found = [leaf(row) for row, _ in zip(rows_after(self._folder, BLOCK * block), range(most), strict=False)]
        if len(found) < most:
            raise Conflict(f"the log {self._folder} has fewer than {rows} decisions: it lost some, or is another one")
        return found

    def _read(self) -> list[bytes]:
        """Return the kept roots; none of another log, of a longer one, or of a damaged file."""
        if self._kept is None or not self._kept.exists():
            return []
        try:
            first, *blocks = map(bytes.fromhex, self._kept.read_text().split())
        except ValueError:
            return []
        begins = next(rows_after(self._folder, 0), None)
        own = begins is not None and leaf(begins) == first
        return blocks if own and next(rows_after(self._folder, BLOCK * len(blocks) - 1), None) else []
