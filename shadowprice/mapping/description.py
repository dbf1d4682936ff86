"""The description of a user's files: what ``mapping.yaml`` holds, read strictly.

Every scalar of the file is text, so ``yes``, ``007`` and ``2026-05-01`` stay what was written.
"""

import re
from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from shadowprice.campaign import SIDES, Side
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.mapping.document import read_yaml
from shadowprice.mapping.files.blocks import codec_of
from shadowprice.mapping.keys import COLUMN_KEYS, Kinds, Unit, currency_code, reject_unknown, split_options, time_zone
from shadowprice.tables.schema import CAMPAIGN_TABLES, FLAG, SESSION_TABLES, TEXT, TIME, WHOLE, kind_of

RESULTS = frozenset(
    ("observed_at", "mature", "cost_paid", "redeemed", "clicked", "amount", "share_count", "share_count_before")
)
"""Columns of ``outcome`` that the mapping of ``exposure`` may have, where one file holds offers and their results."""
KEYS = ("currency", "money", "timezone", "repeated_hour", "sources", "campaign", "tables", "split")
"""Keys of a mapping."""
FACE_VALUE, COST, DEMAND = "face_value", "cost", "demand"
PERCENT, MIN_SPEND = "percent", "min_spend"
OFFERED = (FACE_VALUE, COST, "order_index", PERCENT, MIN_SPEND, "valid_hours")
"""Columns of ``offer`` that the mapping of ``exposure`` may have, where no file lists the offers."""
ORDER = {
    "order_id": TEXT,
    "account_id": TEXT,
    "ordered_at": TIME,
    "canceled": FLAG,
    "code": TEXT,
    **dict.fromkeys(("total", "amount", "discount", "refunded"), WHOLE),
}
"""Columns of ``order`` and their types: lines of orders, from which the outcomes of customers follow."""
MOST_DAYS = 3650
"""Longest window of orders after an offer."""
LINES = ("", "same", "sum")
"""Ways to read an order of several lines: each line repeats the amounts of the order, or they add up."""
VOUCHER_TABLES = (*SESSION_TABLES, "offer", "outcome", "campaign")
"""Tables of a voucher log: collected vouchers, carts and orders, terms, redemptions, and the campaign."""
USER_ID = "user_id"
"""Column of ``session`` that the mapping of ``behaviour`` may have, where events name a person and no session."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Source of rows: a file, or a table or query of a database.

    file       CSV or Parquet, relative to the mapping; may hold ``*``
    attach     a database that DuckDB can attach: a file, or a connection string
    type       of the database: duckdb, sqlite, postgres or mysql
    table, query  of the database: one of them
    delimiter, quote, encoding, header, null  of a CSV file: ``header`` is the line of its names, counted from 1, and
        ``null`` lists the texts of an unknown cell
    decimal, thousands  of the numbers of the source
    """

    name: str
    file: str = ""
    attach: str = ""
    type: str = "duckdb"
    table: str = ""
    query: str = ""
    delimiter: str = ""
    quote: str = '"'
    encoding: str = ""
    header: int = 0
    null: tuple[str, ...] = ("",)
    decimal: str = "."
    thousands: str = ""

    @property
    def label(self) -> str:
        """Name of the file or table, for messages."""
        return self.file or (f"{self.attach}, {self.table or 'query'}" if self.attach else "")


@dataclass(frozen=True, kw_only=True)
class Column:
    """Origin of one canonical column: exactly one of ``column``, ``constant``, ``expression`` and ``row``.

    column      the user's own column
    constant    the same text in every row
    expression  SQL over the user's own columns, in DuckDB's dialect
    row         a prefix, which the number of the row follows
    values      own value → canonical value
    format      of a time: as for strptime, or seconds, milliseconds or microseconds since 1970, or excel
    timezone    of a time without one
    plus_days   added to a time
    unit        of an amount, or of a number x_… that is one: major or minor
    """

    column: str = ""
    constant: str | None = None
    expression: str = ""
    row: str | None = None
    values: MappingABC[str, str] = field(default_factory=dict)
    format: str = ""
    timezone: str = ""
    plus_days: float = 0.0
    unit: str = ""

    @property
    def label(self) -> str:
        """The origin in the source, for messages; empty where it is in the mapping alone."""
        return self.column or self.expression


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of one canonical table that come from one source; ``where`` is SQL that keeps some of them.

    days   of ``order``: window after an offer in which orders are its outcome
    lines  of ``order``: one of :data:`LINES`
    """

    source: Source
    columns: MappingABC[str, Column]
    where: str = ""
    days: float = 7.0
    lines: str = ""


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """Everything that ``mapping.yaml`` holds: a log of offers, or one of vouchers, which has ``session``.

    folder    that files are relative to
    currency  of all amounts; ``unit`` says whether the files have major units (2.50) or minor ones (250)
    timezone  of times without one; empty: such times are refused
    repeated_hour  which of the two hours is meant where clocks are set back: first or second; empty: it is refused
    tables    canonical table → its parts
    split     options of the split
    """

    folder: Path
    currency: str
    unit: str
    timezone: str
    repeated_hour: str
    tables: MappingABC[str, Sequence[Table]]
    split: MappingABC[str, Any]

    @property
    def digits(self) -> int:
        """Decimals of an amount in major units."""
        return Currency.of(self.currency).digits


def read_mapping(path: str | Path) -> Mapping:
    """Read ``mapping.yaml``; nothing of the files it names is read.

    Raises:
        NotFound: there is no such file.
        InvalidInput: a key is unknown, missing or has a wrong value; the message names its place.
    """
    file = Path(path)
    document = read_yaml(file)
    reject_unknown(document, KEYS, file.name)
    sources = {
        name: source_of(name, source, f"sources.{name}")
        for name, source in Kinds.mapping(document.get("sources"), "sources").items()
    }
    require(sources, "sources", "names no file; add one, such as log: {file: offers.csv}")
    tables = {
        name: [_table(name, part, sources, place) for place, part in _parts(name, entry)]
        for name, entry in Kinds.mapping(document.get("tables"), "tables").items()
    }
    one = len(tables.get("order", [])) <= 1
    require(one, "tables.order", "is one table; files of the same columns are one source, with a * in its name")
    vouchers = "session" in tables
    known = VOUCHER_TABLES if vouchers else (*CAMPAIGN_TABLES, "order")
    unknown = sorted(set(tables) - set(known))
    require(not unknown, "tables", f"{unknown} are no tables; there are {', '.join(known)}")
    campaign = Kinds.texts(document.get("campaign"), "campaign")
    if campaign:
        require("campaign" not in tables, "campaign", "is given here and among the tables; keep one of them")
        _check_columns("campaign", campaign, "campaign")
        columns = {name: Column(constant=value) for name, value in campaign.items()}
        tables["campaign"] = [Table(source=Source(name=""), columns=columns)]
    if "exposure" not in tables and not vouchers:
        reason = "the table is missing: it holds the offers that were made; a voucher log has session in its place"
        raise InvalidInput(reason, field="tables.exposure")
    return Mapping(
        folder=file.parent,
        currency=currency_code(document.get("currency", "USD")),
        unit=Kinds.choice(document.get("money", "major"), get_args(Unit), "money"),
        timezone=time_zone(document.get("timezone", ""), "timezone"),
        repeated_hour=Kinds.choice(document.get("repeated_hour", ""), ("", "first", "second"), "repeated_hour"),
        tables={name: _with_sides(name, parts, campaign) for name, parts in tables.items()},
        split=split_options(document, time_zone(document.get("timezone", ""), "timezone"), vouchers),
    )


def _parts(table: str, entry: Any) -> list[tuple[str, Any]]:
    place = f"tables.{table}"
    if isinstance(entry, list):
        return [(f"{place}[{number}]", part) for number, part in enumerate(entry)]
    return [(place, entry)]


def source_of(name: str, given: Any, place: str) -> Source:
    """Return a source, or raise :class:`InvalidInput` that names its place in the mapping."""
    entry = {"file": given} if isinstance(given, str) else Kinds.mapping(given, place)
    reject_unknown(entry, [key for key in Source.__dataclass_fields__ if key != "name"], place)
    null = entry.pop("null", [""])
    header = Kinds.whole(entry.pop("header", "0"), f"{place}.header")
    texts = Kinds.texts(entry, place)
    require(bool(texts.get("file")) != bool(texts.get("attach")), place, "needs either file or attach")
    if texts.get("attach") and bool(texts.get("table")) == bool(texts.get("query")):
        raise InvalidInput("needs either table or query", field=place)
    if texts.get("delimiter") == r"\t":
        texts["delimiter"] = "\t"
    unknown = tuple({"": 0, **dict.fromkeys(Kinds.listed(null, f"{place}.null"))})
    source = Source(name=name, null=unknown, header=header, **texts)
    for key in ("delimiter", "quote", "decimal", "thousands"):
        sign = getattr(source, key)
        require(len(sign) <= 1, f"{place}.{key}", f"must be one character, got {sign!r}")
        if key in ("delimiter", "quote") and (sign in "\r\n\0" or not sign.isascii()) and sign:
            raise InvalidInput(f"must be a character of ASCII, got {sign!r}", field=f"{place}.{key}")
    if source.quote and source.quote == source.delimiter:
        raise InvalidInput(f"must differ from the delimiter, {source.delimiter!r}", field=f"{place}.quote")
    try:
        codec_of(source.encoding or "utf-8")
    except ValueError as error:
        raise InvalidInput(str(error), field=f"{place}.encoding") from error
    if source.thousands and source.thousands == source.decimal:
        reason = f"must differ from decimal, {source.decimal!r}; name both where numbers have them"
        raise InvalidInput(reason, field=f"{place}.thousands")
    return source


def _table(table: str, given: Any, sources: MappingABC[str, Source], place: str) -> Table:
    entry = Kinds.mapping(given, place)
    reject_unknown(
        entry, ("from", "columns", "features", "where", *(("days", "lines") if table == "order" else ())), place
    )
    name = Kinds.text(entry.get("from", next(iter(sources)) if len(sources) == 1 else ""), f"{place}.from")
    require(name in sources, f"{place}.from", f"must be one of the sources {', '.join(sources)}; got {name!r}")
    columns = {
        column: column_of(origin, f"{place}.columns.{column}")
        for column, origin in Kinds.mapping(entry.get("columns", {}), f"{place}.columns").items()
    }
    columns |= _features(entry.get("features", {}), f"{place}.features")
    _check_columns(table, columns, f"{place}.columns")
    days = Kinds.number(entry.get("days", "7"), f"{place}.days")
    require(0 < days <= MOST_DAYS, f"{place}.days", f"must be above 0 and at most {MOST_DAYS}")
    return Table(
        source=sources[name],
        columns=columns,
        where=Kinds.text(entry.get("where", ""), f"{place}.where"),
        days=days,
        lines=Kinds.choice(entry.get("lines", ""), LINES, f"{place}.lines"),
    )


def column_of(given: Any, place: str) -> Column:
    """Return the origin of a column, or raise :class:`InvalidInput` that names its place in the mapping."""
    if isinstance(given, str):
        return Column(column=given)
    entry = Kinds.mapping(given, place)
    reject_unknown(entry, COLUMN_KEYS, place)
    values = Kinds.texts(entry.pop("values", {}), f"{place}.values")
    texts: dict[str, Any] = Kinds.texts(entry, place)
    if sum(key in texts for key in ("column", "constant", "expression", "row")) != 1:
        raise InvalidInput("needs exactly one of column, constant, expression and row", field=place)
    if "plus_days" in texts:
        texts["plus_days"] = Kinds.number(texts["plus_days"], f"{place}.plus_days")
    if "unit" in texts:
        Kinds.choice(texts["unit"], get_args(Unit), f"{place}.unit")
    if "timezone" in texts:
        time_zone(texts["timezone"], f"{place}.timezone")
    return Column(values=values, **texts)


def _features(given: Any, place: str) -> dict[str, Column]:
    """Return the columns of ``features``: ``numbers`` and ``texts`` list own columns, which keep their names."""
    entry = Kinds.mapping(given, place)
    reject_unknown(entry, ("numbers", "texts"), place)
    features: dict[str, Column] = {}
    for key, prefix in (("numbers", "x_"), ("texts", "c_")):
        for own in Kinds.listed(entry.get(key, []), f"{place}.{key}"):
            name = prefix + re.sub(r"\W+", "_", own.strip().lower())
            require(name not in features, place, f"{own!r} has the name {name} of an earlier one; map it by columns")
            features[name] = Column(column=own)
    return features


def _check_columns(table: str, columns: MappingABC[str, Any], place: str) -> None:
    if table not in (*CAMPAIGN_TABLES, *SESSION_TABLES, "order"):
        return
    more = {"exposure": RESULTS | {*OFFERED}, "behaviour": {USER_ID}, "order": {*ORDER}}.get(table, frozenset())
    for name in columns:
        if name not in more and (table == "order" or kind_of(table, name) is None):
            page = "mapping" if table == "order" else "tables"
            raise InvalidInput(
                f"is not a column of {table}; docs/reference/{page}.md lists them, and features are named "
                "x_… (numbers) or c_… (text)",
                field=f"{place}.{name}",
            )


def _with_sides(table: str, parts: Sequence[Table], campaign: MappingABC[str, str]) -> Sequence[Table]:
    """Fill in the side where the campaign has only one."""
    sides: list[Side] = [side for side in SIDES if campaign.get(f"cost_basis_{side}")]
    if len(sides) != 1 or table not in ("account", "offer", "exposure"):
        return parts
    return [
        part
        if "side" in part.columns
        else Table(source=part.source, columns={**part.columns, "side": Column(constant=sides[0])}, where=part.where)
        for part in parts
    ]
