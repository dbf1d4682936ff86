"""Readers of files and messages, for input of any kind: each takes it, or raises its own error."""

import csv
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb

from operations.common.workspace import read_campaign
from serving.ledger.api.corrections import read_corrections
from serving.ledger.api.events import read_events
from serving.predictor.bundle import read_version
from shadowprice.errors import InvalidInput, PriceRejected, ShadowpriceError
from shadowprice.mapping import read_mapping
from shadowprice.mapping.expressions import columns_of
from shadowprice.mapping.files.blocks import text_blocks
from shadowprice.mapping.files.delimited import Delimited
from shadowprice.mapping.files.dialect import find_dialect
from shadowprice.mapping.files.structure import split_records
from shadowprice.price import PriceRecord

FOLDER = Path(tempfile.mkdtemp(prefix="shadowprice-fuzz-"))
DATABASE = duckdb.connect(":memory:")


def mapping(data: bytes) -> None:
    """Read a description."""
    _expect(InvalidInput, lambda: read_mapping(_written("mapping.yaml", data)))


def delimited(data: bytes) -> None:
    """Read a file, whose rows are those of Python's own reader or are refused."""
    path = _written("log.csv", data)
    try:
        dialect = find_dialect(path)
        file = Delimited(path, dialect)
        rows = [row for batch in file.batches(range(len(file.names)), [""]) for row in batch.to_pylist()]
    except ValueError:
        return
    text = b"".join(text_blocks(path))
    records, _ = split_records(text, dialect.delimiter, dialect.quote)
    assert file.above + 1 + file.rows + file.refused + file.blank == len(records)
    if not file.refused:
        below = text[records.ends[file.above] :].decode()
        own = [
            row for row in csv.reader(io.StringIO(below, newline=""), delimiter=dialect.delimiter, strict=True) if row
        ]
        assert [[row[str(place)] or "" for place in range(len(file.names))] for row in rows] == own


def expression(data: bytes) -> None:
    """Check SQL of a mapping."""
    _expect(InvalidInput, lambda: columns_of(DATABASE, data.decode(errors="replace"), "where"))


def price(data: bytes) -> None:
    """Read a price record."""
    _expect(PriceRejected, lambda: PriceRecord.from_json(data))


def event(data: bytes) -> None:
    """Read outcomes and corrections, in all modes of CloudEvents."""
    binary = {"ce-specversion": "1.0", "ce-id": "e", "ce-source": "s", "ce-type": "t"}
    for headers in ({}, binary):
        _expect(ShadowpriceError, lambda headers=headers: read_events(data, headers))
        _expect(ShadowpriceError, lambda headers=headers: read_corrections(data, headers))


def model(data: bytes) -> None:
    """Read the metadata of a model."""
    _written("model.json", data)
    _expect(InvalidInput, lambda: read_version(FOLDER))


def campaign(data: bytes) -> None:
    """Read a campaign."""
    _expect(InvalidInput, lambda: read_campaign(_written("campaign.json", data)))


READERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (mapping, delimited, expression, price, event, model, campaign)
}
_OUTCOME = {"request_id": "r", "redeemed": True, "cost": 5, "observed_at": "2026-03-01T10:00:00+01:00"}
_EVENT = {"specversion": "1.0", "type": "t", "source": "s", "id": "e", "data": _OUTCOME}
SEEDS: dict[str, list[bytes]] = {
    "mapping": [
        b"currency: EUR\nsources: {log: {file: log.csv, null: [NA]}}\ntables: {exposure: {columns: {x_a: a}}}",
        b"a: &a [*a]",
        b"? [a]\n: b",
    ],
    "delimited": [
        b'no,who\n1,"a ""b""\r\n c"\n\n2,\n',
        b"# x\nsep=;\nno;who\r1;2\r",
        "\ufeff\ufeffno,who\n1,2\n\ufeff3,4\n".encode("utf-16"),
        b'no,"a"b"\n1,2\n',
        b'a\tb\n"',
        "a;b\n1,5;2".encode("utf-16"),
    ],
    "expression": [b"CASE WHEN a > 1 THEN 'x' END", b"(SELECT 1)", b"a -> a + 1", b"$1"],
    "price": [
        json.dumps({"schema_version": 6, "plan": [10**400]}).encode(),
        b"[" * 3000,
        b'{"schema_version": true}',
        b'{"solved_at": "0001-01-01T00:00+23:59"}',
    ],
    "event": [json.dumps(_EVENT).encode(), json.dumps([_EVENT]).encode(), json.dumps(_OUTCOME).encode(), b"[" * 3000],
    "model": [b'{"model_version": "m1"}', b"[]", b"\xff"],
    "campaign": [b'{"name": "spring", "sides": {"customer": {"levels": [0, 50]}}}', b"[" * 3000, b"[[]]"],
}
"""Inputs to begin with, and those that once ended in an error."""


def _written(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _expect(error: type[Exception], read: Callable[[], object]) -> None:
    with suppress(error):
        read()
