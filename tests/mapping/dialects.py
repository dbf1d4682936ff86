"""Random tables, and the files that people write of them, for test_dialects."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import combinations
from random import Random
from unicodedata import category
from zoneinfo import ZoneInfo

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "windows-1252", "iso-8859-1", "iso-8859-15", "cp1251")
OF_ONE_BYTE = ENCODINGS[4:]
FORMATS = (
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y/%m/%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S%z"),
    *("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%d-%m-%Y %H:%M"),
    *("%d.%m.%y %H:%M", "%m/%d/%y %H:%M", "%d/%m/%y %H:%M", "%m/%d/%Y %I:%M %p", "%d %b %Y %H:%M", "%d.%m.%Y"),
)
"""Forms of times; init knows all but the last but one."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
CHANGES = (datetime(2026, 3, 29, 0), datetime(2026, 10, 25, 0), datetime(2026, 11, 1, 4), datetime(2026, 4, 4, 14))
"""Instants shortly before clocks are set in one of the zones."""
AWKWARD = (
    *("#7", "# 7", "007", "1,5", "1.5", "a;b", "x|y", "tab\there", 'say "hi"', "it's"),
    *("NA", "-", "TRUE", "1e5", "€", ""),
)
SIGNS = [sign for sign in map(chr, range(0x20000)) if category(sign)[0] in "LNPS" or category(sign) == "Zs"]
"""Characters of notes; keys have letters and numbers alone."""
CENTS = (120_000, 100_000, 50_000, 250)
CHOICES: dict[str, Sequence[object]] = {
    "delimiter": ",,;;\t|",
    "quote": ['"', '"', '"', "'", ""],
    "always_quoted": [False, True],
    "decimal": ".,",
    "thousands": ["", "", "", ",", ".", " ", "'", "\u00a0"],
    "currency": ["", "", "", "€{}", "{} €", "EUR {}"],
    "encoding": ("utf-8", "utf-8", *ENCODINGS),
    "line_end": ["\n", "\n", "\r\n", "\r"],
    "last_end": [False, True],
    "above": ["", "", "", "# export of the shop", "Report\n", "sep=", "\n", "Offers, by day;all"],
    "below": ["", "\n", "# 8 rows", "Total"],
    "format": FORMATS,
    "zone": ZONES,
    "packed": [False, True],
    "mishap": ["", "long row", "short row", "open quote", "quote within", "NUL", "name twice"],
    "prefix": ["R", "#", "00", ""],
    "values": [(250, 500), (50_000, 120_000), (120_000, 75_000), (100, 300)],
}
"""Values of each field of a dialect; one that stands here more often is drawn more often."""


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
    prefix: str
    values: tuple[int, int]


def files(count: int, draw: Random) -> Iterator[tuple[list[Row], Dialect, bytes]]:
    """Draw tables, dialects and files of them, such that any two choices soon were in one file together.

    Each file has that dialect of sixty which has the most pairs of choices that no file had before, of those that can
    write a table. Three of four have no fault.
    """
    had: set[tuple[object, ...]] = set()
    for number in range(count):
        drawn = [_drawn(draw, faulty=number % 4 == 0) for _ in range(60)]
        for dialect, pairs in sorted(drawn, key=lambda one: len(one[1] - had), reverse=True):
            table = _table(draw, dialect)
            if (content := write(table, dialect)) is not None:
                had |= pairs
                yield table, dialect, content
                break


def _drawn(draw: Random, faulty: bool) -> tuple[Dialect, set[tuple[object, ...]]]:
    """Draw a dialect, and return its pairs of choices."""
    chosen = {field: draw.choice(choices) for field, choices in CHOICES.items()}
    # A file with a few quotes of a rare kind does not tell whether they are quotes.
    chosen["always_quoted"] = chosen["always_quoted"] or chosen["quote"] != '"'
    if not faulty:
        chosen |= {"mishap": "", "below": draw.choice(["", "\n"])}
    if chosen["thousands"] in (chosen["decimal"], chosen["quote"]):
        chosen["thousands"] = ""
    return Dialect(**chosen), set(combinations(chosen.items(), 2))  # type: ignore[arg-type]


def _table(draw: Random, dialect: Dialect) -> list[Row]:
    rows = [_row(draw, dialect, f"{dialect.prefix}{1000 + place}") for place in range(draw.randint(4, 8))]
    # Without two values and two results init finds no columns for them.
    rows[:2] = [replace(row, cents=dialect.values[place], used=place == 0) for place, row in enumerate(rows[:2])]
    return rows


def _row(draw: Random, dialect: Dialect, order: str) -> Row:
    keys = (
        draw.choice(["", "#"]) + draw.choice(["A", "KB", "XYZ"]) + str(draw.randint(0, 99_999)),
        str(draw.randint(100, 999_999_999)),
        "".join(filter(str.isalnum, _text(draw, dialect, 8))) or "K",
    )
    near = draw.choice(CHANGES) + timedelta(minutes=draw.randint(0, 240))
    anywhere = datetime(2019, 1, 1) + timedelta(minutes=draw.randrange(12 * 365 * 1440))
    return Row(
        order=order,
        customer=draw.choice(keys),
        at=draw.choice([near, anywhere]),
        cents=draw.choice([5 * draw.randint(0, 500_000), draw.choice(CENTS)]),
        used=draw.random() < 0.5,
        note=draw.choice([_text(draw, dialect, 12), _encoded(draw.choice(AWKWARD), dialect)]),
        basket=f"{draw.randint(0, 500_000) / 100:.2f}".removesuffix(".00"),
    )


def _text(draw: Random, dialect: Dialect, most: int) -> str:
    signs = SIGNS[: draw.choice([95, 95, 400, len(SIGNS)])]
    return _encoded("".join(draw.choices(signs, k=draw.randint(0, most))), dialect)


def _encoded(text: str, dialect: Dialect) -> str:
    """Leave out what an encoding lacks."""
    return text.encode(dialect.encoding, "ignore").decode(dialect.encoding)


def amount(cents: int, dialect: Dialect) -> str:
    """Return an amount as the dialect writes it; whole ones without decimals."""
    whole, part = divmod(cents, 100)
    text = f"{whole:,}".replace(",", dialect.thousands) + (f"{dialect.decimal}{part:02}" if part else "")
    return dialect.currency.format(text) if dialect.currency else text


def moment(at: datetime, dialect: Dialect) -> str:
    """Return an instant (UTC without a zone) as the dialect writes it."""
    instant = at.replace(tzinfo=ZoneInfo("UTC"))
    local = instant if dialect.format.endswith("Z") else instant.astimezone(ZoneInfo(dialect.zone))
    return local.strftime(dialect.format)


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
    if dialect.encoding in OF_ONE_BYTE and not content.isascii():
        with suppress(UnicodeDecodeError):
            # Its letters are UTF-8 by chance.
            content.decode()
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
