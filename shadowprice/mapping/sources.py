"""The user's sources as views of a DuckDB database, with the number of each row."""

from __future__ import annotations

from collections.abc import Iterable
from glob import iglob
from pathlib import Path

import duckdb

from shadowprice.errors import InvalidInput, NotFound, Unavailable
from shadowprice.mapping.description import Source

ROW = "#row"
"""Column of each view: the place of the row in its source, counted from 0."""


def open_sources(db: duckdb.DuckDBPyConnection, folder: Path, sources: Iterable[Source]) -> dict[str, tuple[str, ...]]:
    """Make a view ``source_<name>`` for each source, and return its own columns.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a file cannot be read.
        Unavailable: a database cannot be attached.
    """
    found: dict[str, tuple[str, ...]] = {}
    for source in sources:
        if source.name in found:
            continue
        relation = _relation(db, folder, source)
        try:
            columns = tuple(name for name, *_ in db.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall())
            view = f"SELECT *, row_number() OVER () - 1 AS {quoted(ROW)} FROM {relation}"
            db.execute(f"CREATE VIEW {view_of(source)} AS {view}")
        except duckdb.Error as error:
            raise InvalidInput(f"{source.label} cannot be read: {error}", field=f"sources.{source.name}") from error
        found[source.name] = columns
    return found


def view_of(source: Source) -> str:
    """Return the quoted name of the view of a source."""
    return quoted(f"source_{source.name}")


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _relation(db: duckdb.DuckDBPyConnection, folder: Path, source: Source) -> str:
    if source.attach:
        return _attached(db, folder, source)
    path = folder / source.file
    if not any(iglob(source.file, root_dir=folder, recursive=True)):
        raise NotFound(f"sources.{source.name}.file: there is no file {path}")
    if path.suffix.lower() in (".parquet", ".pq"):
        return f"read_parquet({literal(str(path))})"
    options = {
        "all_varchar": "true",
        "header": "true",
        "quote": literal(source.quote),
        "encoding": literal(source.encoding),
        "nullstr": f"[{', '.join(map(literal, source.null))}]",
        **({"delim": literal(source.delimiter)} if source.delimiter else {}),
    }
    return f"read_csv({literal(str(path))}, {', '.join(f'{key} = {value}' for key, value in options.items())})"


def _attached(db: duckdb.DuckDBPyConnection, folder: Path, source: Source) -> str:
    is_file = source.type in ("duckdb", "sqlite")
    place = str(folder / source.attach) if is_file else source.attach
    if is_file and not Path(place).is_file():
        raise NotFound(f"sources.{source.name}.attach: there is no file {place}")
    name = quoted(f"database_{source.name}")
    kind = "" if source.type == "duckdb" else f"TYPE {quoted(source.type)}, "
    try:
        db.execute(f"ATTACH {literal(place)} AS {name} ({kind}READ_ONLY)")
    except duckdb.Error as error:
        raise Unavailable(
            f"sources.{source.name}.attach: {source.type} database cannot be attached: {error}; DuckDB needs its "
            f"extension {source.type}, which it downloads once where there is a network"
        ) from error
    if source.query:
        # Names in the query are those of the attached database.
        db.execute(f"USE {name}")
        held = f"memory.main.{quoted(f'query_{source.name}')}"
        try:
            db.execute(f"CREATE TABLE {held} AS {source.query}")
        except duckdb.Error as error:
            raise InvalidInput(f"cannot be run: {error}", field=f"sources.{source.name}.query") from error
        finally:
            db.execute("USE memory")
        return held
    return f"{name}.{'.'.join(map(quoted, source.table.split('.')))}"
