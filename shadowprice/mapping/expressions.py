"""SQL that a mapping holds: expressions over the columns of a source, and queries of a database; nothing else runs."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb

from shadowprice.checks import require
from shadowprice.documents import parse_json
from shadowprice.errors import InvalidInput

MOST_BRACKETS = 1000
"""Opening brackets of an expression or a query at most."""
_ROUNDS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|DECIMAL")
_SIGNS = re.compile(r"(?:[-+~@!]\s*){100}")
_CLASSES = frozenset(
    (
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION"),
        *("LAMBDA", "LAMBDA_REF", "OPERATOR", "TYPE", "WINDOW"),
    )
)
"""Kinds of expressions that a mapping may have: none reads a table."""
_PLAIN = frozenset(("type", "select_list", "from_table", "cte_map", "aggregate_handling"))
"""Parts of a query that has nothing but one value."""
_UNSAFE = frozenset(("current_setting", "getvariable", "getenv", "unnest", "unlist"))
"""Functions that read anything but columns, or return several rows."""


def columns_of(db: duckdb.DuckDBPyConnection, expression: str, place: str) -> set[str]:
    """Return the names of the columns that an expression reads.

    Args:
        db: any database.
        expression: SQL of one value.
        place: of the expression, for messages.

    Raises:
        InvalidInput: it is not a single expression, or reads anything but columns.
    """
    node = _statement(db, f"SELECT {expression}", place)["node"]
    bare = node["type"] == "SELECT_NODE" and node["from_table"]["type"] == "EMPTY" and not node["cte_map"]["map"]
    more = any(value for key, value in node.items() if key not in _PLAIN)
    if not bare or more or len(node["select_list"]) != 1:
        raise InvalidInput("must be a single expression over the columns of the source", field=place)
    parts = list(_parts(node["select_list"][0]))
    for part in parts:
        _check(part, place)
    lambdas = [part["lhs"] for part in parts if part["class"] == "LAMBDA"]
    own = {name for function in lambdas for part in _parts(function) for name in part.get("column_names", ())}
    read = {part["column_names"][0] for part in parts if part["class"] == "COLUMN_REF"}
    return read - own


def refuse_rounded(db: duckdb.DuckDBPyConnection, expression: str, relation: str, place: str) -> None:
    """Refuse an expression that compares a text with a number.

    SQL rounds the text to the decimals of the number: of probabilities in a CSV file, ``p <> 1`` drops 0.5.

    Args:
        db: with the relation.
        expression: SQL of one value over its columns.
        relation: name of a table, as SQL.
        place: of the expression, for messages.

    Raises:
        InvalidInput: with what to write instead.
    """
    statement = _statement(db, f"SELECT {expression}", place)
    for part in _parts(statement["node"]["select_list"]):
        types = [_type_of(db, statement, operand, relation) for operand in _compared(part)]
        if "VARCHAR" in types and any(map(_ROUNDS.match, types)):
            reason = "compares a text with a number: write CAST(column AS DOUBLE), or the number in quotes"
            raise InvalidInput(reason, field=place)


def _compared(part: dict[str, Any]) -> list[Any]:
    """Return the expressions that another one compares with each other."""
    if part["class"] == "COMPARISON":
        return [part["left"], part["right"]]
    if str(part.get("function_name", "")).lower() == "nullif":
        return [argument["expression"] for argument in part["arguments"]]
    return list(part["children"]) if part["type"] in ("COMPARE_IN", "COMPARE_NOT_IN") else []


def _type_of(db: duckdb.DuckDBPyConnection, statement: dict[str, Any], expression: Any, relation: str) -> str:
    """Return the type of a part of a statement; empty where it has none, as within a lambda."""
    node = statement["node"] | {"select_list": [expression]}
    whole = json.dumps({"error": False, "statements": [statement | {"node": node}]})
    try:
        ((text,),) = db.execute("SELECT json_deserialize_sql(?)", [whole]).fetchall()
        ((_, found, *_),) = db.execute(f"DESCRIBE {text} FROM {relation}").fetchall()
    except duckdb.Error:
        return ""
    return str(found)


def check_query(db: duckdb.DuckDBPyConnection, query: str, place: str) -> None:
    """Refuse what is not a single query, with :class:`InvalidInput`."""
    _statement(db, query, place)


def _statement(db: duckdb.DuckDBPyConnection, text: str, place: str) -> dict[str, Any]:
    # The parser takes time in proportion to the square of the brackets that are open, and of the signs in a row.
    if text.count("(") > MOST_BRACKETS or _SIGNS.search(text):
        raise InvalidInput(f"must not have more than {MOST_BRACKETS} brackets, or 100 signs in a row", field=place)
    ((serialized,),) = db.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    try:
        parsed = parse_json(serialized)
    except ValueError as error:
        raise InvalidInput(f"is no expression: it {error}", field=place) from error
    if parsed["error"]:
        raise InvalidInput(f"is not SQL that reads: {parsed['error_message']}", field=place)
    statements: list[dict[str, Any]] = parsed["statements"]
    require(len(statements) == 1, place, f"must be one statement, got {len(statements)}")
    return statements[0]


def _parts(node: Any) -> Iterator[dict[str, Any]]:
    """Return every expression in a node; each has a class. Not recursive: nodes may be nested deeply."""
    rest = [node]
    while rest:
        current = rest.pop()
        if isinstance(current, list):
            rest += current
        elif isinstance(current, dict):
            if "class" in current:
                yield current
            rest += current.values()


def _check(part: dict[str, Any], place: str) -> None:
    if part["class"] not in _CLASSES:
        raise InvalidInput(f"must not have a {part['class'].lower().replace('_', ' ')}", field=place)
    name = str(part.get("function_name", ""))
    require(name.lower() not in _forbidden(), place, f"must not call {name}")


@cache
def _forbidden() -> frozenset[str]:
    """Return the functions whose value does not follow from the row, or that read anything but columns."""
    with duckdb.connect(":memory:") as db:
        rows = db.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
        ).fetchall()
    return _UNSAFE | {name for (name,) in rows}
