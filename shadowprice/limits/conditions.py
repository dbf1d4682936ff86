"""Conditions over a request in the Common Expression Language, the language of Kubernetes' validation rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput, MissingExtra

MOST_CHARACTERS = 2000
"""Length of an expression."""
REMEMBERED = 1 << 16
"""Results that are kept, by expression and values: an expression is evaluated once for equal values."""

Reading = tuple[str, str]
"""What a condition reads: the noun and the name of its value, such as ``("account", "c_region")``."""
OFFER = {"offer_id": "", "level": 0, "incentive": 0}
"""Values of an offer, each with one of its type."""
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_READING = re.compile(r"(?<![\w.])(account|partner|context|offer|side)\b(?:\s*\.\s*(\w+))?")
_BOUND = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_COLUMN = re.compile(r"[xc]_\w+")


@dataclass(frozen=True)
class Condition:
    """An expression that is true or false of a request, or of a request and an offer.

    source    the expression
    field     how errors name it
    of_offer  whether it may read the offer

    It reads ``account.x_*`` and ``account.c_*`` (columns of the account table), the same of ``partner``, values of
    ``context``, ``side``, and ``offer.offer_id``, ``offer.level`` and ``offer.incentive``. ``c_*`` are texts, ``x_*``
    are numbers. A value that is not known is absent: test it with ``has(account.x_age)``.

    Raises:
        InvalidInput: no expression, an unknown name, or no truth value; names the position, from 1 on.
        MissingExtra: the library that evaluates expressions is not installed.

    Example:
        >>> Condition("account.x_age < 18", "rules.minors").reads
        (('account', 'x_age'),)
    """

    source: str
    field: str
    of_offer: bool = False

    def __post_init__(self) -> None:
        given: Any = self.source
        if not isinstance(given, str) or not 0 < len(given) <= MOST_CHARACTERS:
            raise self._wrong(f"must be an expression of at most {MOST_CHARACTERS} characters")
        try:
            program = _program(self.source)
        except ValueError as error:
            found = re.search(r"<input>:(\d+):(\d+): ([^\n]*)", str(error))
            line, column, reason = found.groups() if found else ("1", "1", str(error))
            raise self._wrong(f"at line {line}, column {column}: {reason}") from error
        text = self._text
        known = {"account", "partner", "context", "side", *(["offer"] if self.of_offer else [])}
        for name in set(program.variables()) - known - set(_BOUND.findall(text)):
            place = re.search(rf"(?<![\w.]){re.escape(name)}\b", text)
            raise self._wrong(f"{_at(text, place)}no {name!r}; an expression reads {sorted(known)}")
        for match in _READING.finditer(text):
            noun, name = match.groups()
            fits = name in OFFER if noun == "offer" else bool(name and _COLUMN.fullmatch(name))
            if noun != "side" and not fits:
                takes = sorted(OFFER) if noun == "offer" else ["x_… (a number)", "c_… (a text)"]
                raise self._wrong(f"{_at(text, match)}no {match[0]!r}; {noun} has {takes}")
        self._try(program)

    def _try(self, program: Any) -> None:
        """Evaluate on values of the right types, present and absent."""
        typical = {("side", ""): "customer"} | {(noun, name): _typical(noun, name) for noun, name in self.reads}
        try:
            found = program.execute(_context(typical.items()))
        except Exception as error:  # the library raises several types
            raise self._wrong(f"cannot be evaluated: {error}; compare c_… with texts, and x_… with numbers") from error
        if not isinstance(found, bool):
            raise self._wrong(f"must be true or false, not {found!r}")

    @property
    def _text(self) -> str:
        """The expression with texts blanked out, so that places stay."""
        return _STRING.sub(lambda match: " " * len(match[0]), self.source)

    def _wrong(self, reason: str) -> InvalidInput:
        return InvalidInput(reason, field=self.field)

    @cached_property
    def reads(self) -> tuple[Reading, ...]:
        """Values that the expression reads, in order of their names."""
        return tuple(sorted({(noun, name or "") for noun, name in _READING.findall(self._text)}))

    def holds(self, values: Mapping[Reading, Sequence[Any]], requests: int) -> NDArray[np.bool_]:
        """Evaluate for n requests.

        Args:
            values: what it reads → (n,) values, None where one is not known.
            requests: n.

        Returns:
            bool (n,): what cannot be evaluated holds, so that a rule forbids and a budget counts. Equal values are
            evaluated once. O(n).
        """
        if not self.reads:
            return np.full(requests, _holds(self.source, (), ()))
        rows = zip(*(values[each] for each in self.reads), strict=True)
        return np.fromiter((_holds(self.source, self.reads, row) for row in rows), dtype=np.bool_, count=requests)


def columns_of(conditions: Iterable[Condition], noun: str) -> list[str]:
    """Return the columns of the noun that the conditions read, in order."""
    return sorted({name for each in conditions for of, name in each.reads if of == noun})


@lru_cache(REMEMBERED)
def _holds(source: str, reads: tuple[Reading, ...], values: tuple[Any, ...]) -> bool:
    try:
        return _program(source).execute(_context(zip(reads, values, strict=True))) is not False
    except Exception:  # absent values; the library raises several types
        return True


def _context(values: Iterable[tuple[Reading, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"account": {}, "partner": {}, "context": {}, "offer": {}}
    for (noun, name), value in values:
        if noun == "side":
            found[noun] = value
        elif value is not None:
            found[noun][name] = value
    return found


@lru_cache(1024)
def _program(source: str) -> Any:
    try:
        import cel
    except ImportError as error:
        raise MissingExtra(
            "rules and groups need the Common Expression Language: pip install 'shadowprice[pacing]'"
        ) from error
    return cel.compile(source)


def _typical(noun: str, name: str) -> Any:
    if noun == "offer":
        return OFFER[name]
    return "customer" if noun == "side" else 0.0 if name.startswith("x_") else ""


def _at(text: str, match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    line = text.count("\n", 0, match.start()) + 1
    return f"at line {line}, column {match.start() - text.rfind(chr(10), 0, match.start())}: "


def known(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values with None in place of numbers that are none."""
    return (None if value is None or value != value else value for value in values)
