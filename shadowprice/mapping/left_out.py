"""Rows that refer to rows which a ``where`` of the mapping leaves out: results of offers, carts of sessions."""

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence

import duckdb

from shadowprice.mapping.columns import column_sql
from shadowprice.mapping.description import Mapping
from shadowprice.mapping.opened import Opened, Part
from shadowprice.mapping.sources import table_of
from shadowprice.tables.schema import TEXT

NAMED_BY = {"exposure": "request_id", "session": "session_id"}
"""Table whose rows others refer to → the column that names them."""
REFERRING = {"outcome": "request_id", "behaviour": "session_id"}
"""Table whose rows refer to one of those → the column with the name."""


def leave_out(
    db: duckdb.DuckDBPyConnection,
    mapping: Mapping,
    own: MappingABC[str, Opened],
    parts: MappingABC[str, Sequence[Part]],
) -> None:
    """Delete the rows of ``parts`` that refer to a row which the ``where`` of its table leaves out.

    Args:
        db: with the sources and with a table of each part.
        mapping: description of the files.
        own: sources by their names.
        parts: of each table of the mapping, as its entries.
    """
    referring = [(part, name) for table, name in REFERRING.items() for part in parts.get(table, ())]
    for table, key in NAMED_BY.items():
        kept = "".join(f" EXCEPT SELECT {key} FROM {part.query}" for part in parts.get(table, ()))
        for entry in mapping.tables.get(table, ()):
            if not (entry.where and key in entry.columns):
                continue
            named = column_sql(db, entry.columns[key], key, TEXT, own.get(entry.source.name), mapping)
            left = f"SELECT {named} FROM {table_of(entry.source)} WHERE ({entry.where}\n) IS NOT TRUE"
            for part, name in referring:
                if name in part.columns:
                    gone = f"SELECT * FROM ({left}{kept}) AS t(key) WHERE key IS NOT NULL"
                    db.execute(f"DELETE FROM {part.query} WHERE {name} IN ({gone})")
