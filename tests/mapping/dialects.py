"""Random tables, and the files that people write of them: the strategies of test_dialects."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "windows-1252", "iso-8859-1", "iso-8859-15", "cp1251")
FORMATS = (
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y/%m/%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S%z"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%d-%m-%Y %H:%M"),
    *("%d.%m.%y %H:%M", "%m/%d/%y %H:%M", "%d/%m/%y %H:%M", "%m/%d/%Y %I:%M %p", "%d %b %Y %H:%M", "%d.%m.%Y"),
)
"""Forms of times; init knows all but the last but one."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
CHANGES = (datetime(2026, 3, 29, 0), datetime(2026, 10, 25, 0), datetime(2026, 11, 1, 4), datetime(2026, 4, 4, 14))
"""Instants shortly before clocks are set in one of the zones."""
NOTES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
AWKWARD = st.sampled_from(
    [
        *(
            "#7",
            "# 7",
            "007",
            "1,5",
            "1.5",
            "a;b",
            "x|y",
            "tab\there",
            'say "hi"',
            "it's",
            "NA",
            "-",
            "TRUE",
            "1e5",
            "€",
        ),
        "",
    ]
)
KEYS = st.one_of(
    st.from_regex(r"#?[A-Z]{1,3}[0-9]{1,5}", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{2,8}", fullmatch=True),
    st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=8),
)


@dataclass(frozen=True)
class Row:
    """What one line says; ``local`` is the time as clocks of the zone showed it."""

    order: str
    customer: str
    at: datetime
    cents: int
    used: bool
    note: str
    basket: str


@dataclass(frozen=True)
class Dialect:
    """How a file is written; ``mishap`` is what went wrong with it."""

    delimiter: str
    quote: str
    always_quoted: bool
    decimal: str
    thousands: str
    currency: str
    encoding: str
    line_end: str
    last_end: bool
    above: str
    below: str
    format: str
    zone: str
    packed: bool
    mishap: str


rows = st.builds(
    Row,
    order=st.just(""),
    customer=KEYS,
    at=st.one_of(
        st.datetimes(datetime(2019, 1, 1), datetime(2031, 1, 1)),
        st.builds(lambda at, minutes: at + timedelta(minutes=minutes), st.sampled_from(CHANGES), st.integers(0, 240)),
    ).map(lambda at: at.replace(second=0, microsecond=0)),
    cents=st.one_of(st.integers(0, 500_000).map(lambda n: 5 * n), st.sampled_from([120_000, 100_000, 50_000, 250])),
    used=st.booleans(),
    note=st.one_of(NOTES, AWKWARD),
    basket=st.decimals(0, 5000, places=2).map(str),
)
tables = st.lists(rows, min_size=4, max_size=8)
dialects = st.builds(
    Dialect,
    delimiter=st.sampled_from(",,;;\t|"),
    quote=st.sampled_from(['"', '"', '"', "'", ""]),
    always_quoted=st.booleans(),
    decimal=st.sampled_from(".,"),
    thousands=st.sampled_from(["", "", "", ",", ".", " ", "'", "\u00a0"]),
    currency=st.sampled_from(["", "", "", "€{}", "{} €", "EUR {}"]),
    encoding=st.sampled_from(("utf-8", "utf-8", *ENCODINGS)),
    line_end=st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    last_end=st.booleans(),
    above=st.sampled_from(["", "", "", "# export of the shop", "Report\n", "sep=", "\n", "Offers, by day;all"]),
    below=st.sampled_from(["", "", "", "", "\n", "# 8 rows", "Total"]),
    format=st.sampled_from(FORMATS),
    zone=st.sampled_from(ZONES),
    packed=st.booleans(),
    mishap=st.sampled_from([*[""] * 12, "long row", "short row", "open quote", "quote within", "NUL", "name twice"]),
)


def amount(cents: int, dialect: Dialect) -> str:
    """Return an amount as the dialect writes it; whole ones without decimals."""
    whole, part = divmod(cents, 100)
    text = f"{whole:,}".replace(",", dialect.thousands) + (f"{dialect.decimal}{part:02}" if part else "")
    return dialect.currency.format(text) if dialect.currency else text


def moment(at: datetime, dialect: Dialect) -> str:
    """Return an instant (UTC without a zone) as the dialect writes it."""
    instant = at.replace(tzinfo=ZoneInfo("UTC"))
    local = instant if dialect.format.endswith("Z") else instant.astimezone(ZoneInfo(dialect.zone))
    text = local.strftime(dialect.format)
    return text


def cells(row: Row, dialect: Dialect) -> list[str]:
    """Return the cells of a line."""
    basket = row.basket.replace(".", dialect.decimal)
    return [
        *(row.order, row.customer, moment(row.at, dialect), amount(row.cents, dialect)),
        *("ja" if row.used else "nein", row.note, basket),
    ]


HEADER = ("order", "customer", "sent", "coupon value", "redeemed", "note", "basket")


def write(table: list[Row], dialect: Dialect) -> bytes | None:
    """Return the file, or None where the dialect cannot write it: such a file nobody has."""
    if dialect.thousands in (dialect.decimal, dialect.quote) and dialect.thousands:
        return None
    lines = [_line(HEADER, dialect), *(_line(cells(row, dialect), dialect) for row in table)]
    if None in lines:
        return None
    text = [line or "" for line in lines]
    if dialect.mishap == "name twice":
        text[0] = text[0].replace("basket", "customer")
    text[2] = _mishap(text[2], dialect)
    above = dialect.above + dialect.delimiter if dialect.above == "sep=" else dialect.above
    joined = dialect.line_end.join([*above.splitlines(), *text, *dialect.below.splitlines()])
    joined += dialect.line_end if dialect.last_end else ""
    try:
        content = joined.encode(dialect.encoding)
    except UnicodeEncodeError:
        return None
    return gzip.compress(content, 1) if dialect.packed else content


def _mishap(line: str, dialect: Dialect) -> str:
    d, q = dialect.delimiter, dialect.quote
    long = line + d + "7"
    if q != '"' and "quote" in dialect.mishap:
        # A single quote, or one in a file without quotes, is a character like others.
        return long
    changed = {
        "long row": long,
        "short row": "lone",
        "open quote": f"{q}{line}",
        "quote within": f"{q}x{q}y{line}" if line.startswith(q) else f"x{q}{line}",
        "NUL": line[:1] + "\0" + line[1:],
    }
    return changed.get(dialect.mishap, line)


def _line(texts: list[str] | tuple[str, ...], dialect: Dialect) -> str | None:
    found = []
    for text in texts:
        awkward = any(sign in text for sign in (dialect.delimiter, "\r", "\n", dialect.quote or "\0"))
        if dialect.quote and (awkward or dialect.always_quoted):
            text = dialect.quote + text.replace(dialect.quote, 2 * dialect.quote) + dialect.quote
        elif awkward or (text[:1] in "\"'" and text):
            return None
        found.append(text)
    return dialect.delimiter.join(found)
