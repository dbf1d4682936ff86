"""The user's sources as tables of a DuckDB database, which reads nothing else from then on."""

import errno
import tempfile
from collections.abc import Collection, Iterable, Mapping
from glob import has_magic, iglob
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

from shadowprice.checks import require
from shadowprice.errors import InvalidInput, NotFound, Unavailable
from shadowprice.mapping.description import Source
from shadowprice.mapping.expressions import check_query
from shadowprice.mapping.faults import unusable
from shadowprice.mapping.opened import ROW, Opened, literal, quoted
from shadowprice.mapping.rows import Rows

MOST_FILES = 10_000
"""Files of a pattern at most."""
ALLOW = """allow it with `shadowprice check --outside`, and with `shadowprice run --options '{"outside": true}'`"""
Wanted = Mapping[str, Collection[str] | None]
"""Source → names of the columns that are read; None: all of them."""
_FULL = ("No space left on device", "max_temp_directory_size", "failed to offload data block")


def open_sources(
    db: duckdb.DuckDBPyConnection,
    folder: Path,
    sources: Iterable[Source],
    wanted: Wanted,
    *,
    outside: bool = False,
) -> dict[str, Opened]:
    """Read each source into a table ``source_<name>``, and return its columns.

    The database can reach no file and no network afterwards, and its settings cannot be changed.

    Args:
        db: an empty database.
        folder: that files are relative to.
        sources: to be read; one that is named twice is read once.
        wanted: columns that are read.
        outside: whether files may lie outside of the folder and of the working folder, and databases elsewhere.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a file cannot be read, or lies outside.
        InvalidTable: rows are refused; with their lines.
        Unavailable: a database cannot be attached, or there is no disk space left.
    """
    unique = {source.name: source for source in sources}
    for source in unique.values():
        if source.attach:
            _attach(db, folder, source, outside)
    opened = {
        name: _read(db, source, files_of(folder, source, outside), wanted.get(name))
        for name, source in unique.items()
        if source.file
    }
    # A name that is no table would be taken for a file, or for a variable of this program.
    db.execute("SET python_enable_replacements = false; SET enable_external_access = false")
    opened |= {name: _copied(db, source, wanted.get(name)) for name, source in unique.items() if source.attach}
    db.execute("SET lock_configuration = true")
    return {name: opened[name] for name in unique}


def table_of(source: Source) -> str:
    """Return the quoted name of the table that holds a source."""
    return quoted(f"source_{source.name}")


def files_of(folder: Path, source: Source, outside: bool) -> dict[str, Path]:
    """Return the files of a source by the names that messages give them; raises as :func:`open_sources` does."""
    place = f"sources.{source.name}.file"
    parts = Path(source.file).parts
    start = next((at for at, part in enumerate(parts) if has_magic(part)), len(parts))
    _check_inside(folder, Path(*parts[:start]), outside, place)
    names = sorted(islice(iglob(source.file, root_dir=folder, recursive=True), MOST_FILES + 1))
    files = {name: folder / name for name in names if not (folder / name).is_dir()}
    if not files:
        raise NotFound(f"{place}: there is no file {folder / source.file}")
    require(len(names) <= MOST_FILES, place, f"{source.file} names more than {MOST_FILES} files")
    for name in files:
        _check_inside(folder, Path(name), outside, place)
    return files


def disk_full(error: Exception) -> Unavailable | None:
    """Return the error to raise where a disk is full; None where something else went wrong."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or any(sign in str(error) for sign in _FULL)
    if not full:
        return None
    return Unavailable(
        f"there is no space left for temporary files in {tempfile.gettempdir()}; free some, or name another folder in "
        "the variable TMPDIR"
    )


def is_inside(folder: Path, path: Path) -> bool:
    """Return whether a file lies below the folder of the mapping, or below the working folder."""
    real, here = (folder / path).resolve(), Path.cwd()
    if real.is_relative_to(folder.resolve()):
        return True
    # A home folder holds more than what somebody works on, and so does a hidden folder.
    if here in (Path.home(), Path(here.anchor)) or not real.is_relative_to(here):
        return False
    return not any(part.startswith(".") for part in real.relative_to(here).parts)


def _check_inside(folder: Path, path: Path, outside: bool, place: str) -> None:
    if not outside and not is_inside(folder, path):
        fault = f"{path} is outside of the folder of the mapping; move the file there, or {ALLOW}"
        raise InvalidInput(fault, field=place)


def _read(
    db: duckdb.DuckDBPyConnection, source: Source, files: Mapping[str, Path], wanted: Collection[str] | None
) -> Opened:
    label, field, table = next(iter(files)), f"sources.{source.name}", table_of(source)
    try:
        rows = Rows(source, files, wanted)
        db.register("incoming", pa.RecordBatchReader.from_batches(rows.schema, rows.batches()))
        db.execute(f"CREATE TABLE {table} AS SELECT * FROM incoming")
        db.unregister("incoming")
        label = rows.label
        if rows.error is not None:
            raise rows.error
    except (OSError, ValueError, pa.ArrowException, duckdb.Error) as error:
        raise disk_full(error) or InvalidInput(f"{label} cannot be read: {error}", field=field) from error
    if rows.problems:
        raise unusable(rows.problems)
    ((kept,),) = db.execute(f"SELECT count(*) FROM {table}").fetchall()
    require(kept == rows.rows, field, f"{label} has {rows.rows} rows, of which {kept} were kept")
    return rows.opened


def _attach(db: duckdb.DuckDBPyConnection, folder: Path, source: Source, outside: bool) -> None:
    field = f"sources.{source.name}.attach"
    is_file = source.type in ("duckdb", "sqlite")
    place = str(folder / source.attach) if is_file else source.attach
    if is_file:
        _check_inside(folder, Path(source.attach), outside, field)
        if not Path(place).is_file():
            raise NotFound(f"{field}: there is no file {place}")
    elif not outside:
        raise InvalidInput(f"a {source.type} database is outside of the folder of the mapping; {ALLOW}", field=field)
    kind = "" if source.type == "duckdb" else f"TYPE {quoted(source.type)}, "
    try:
        db.execute(f"ATTACH {literal(place)} AS {_database(source)} ({kind}READ_ONLY)")
    except duckdb.Error as error:
        raise Unavailable(
            f"{field}: {source.type} database cannot be attached: {error}; DuckDB needs its "
            f"extension {source.type}, which it downloads once where there is a network"
        ) from error


def _copied(db: duckdb.DuckDBPyConnection, source: Source, wanted: Collection[str] | None) -> Opened:
    """Read a table or a query of an attached database."""
    field = f"sources.{source.name}"
    try:
        held = _queried(db, source) if source.query else _table(source)
        own = tuple(name for name, *_ in db.execute(f"DESCRIBE SELECT * FROM {held}").fetchall())
        opened = Opened(source=source, names=own)
        columns = [f"{quoted(own[place])} AS {quoted(opened.alias(place))}" for place in opened.places_of(wanted)]
        selected = ", ".join([*columns, f"row_number() OVER () - 1 AS {quoted(ROW)}"])
        db.execute(f"CREATE TABLE {table_of(source)} AS SELECT {selected} FROM {held}")
    except duckdb.Error as error:
        raise disk_full(error) or InvalidInput(f"{source.label} cannot be read: {error}", field=field) from error
    return opened


def _queried(db: duckdb.DuckDBPyConnection, source: Source) -> str:
    """Run a query, whose names are those of the attached database, and return the table that holds its rows."""
    field = f"sources.{source.name}.query"
    check_query(db, source.query, field)
    held = f"memory.main.{quoted(f'query_{source.name}')}"
    db.execute(f"USE {_database(source)}")
    try:
        db.execute(f"CREATE TABLE {held} AS {source.query}")
    except duckdb.Error as error:
        raise disk_full(error) or InvalidInput(f"cannot be run: {error}", field=field) from error
    finally:
        db.execute("USE memory")
    return held


def _table(source: Source) -> str:
    return f"{_database(source)}.{'.'.join(map(quoted, source.table.split('.')))}"


def _database(source: Source) -> str:
    return quoted(f"database_{source.name}")
