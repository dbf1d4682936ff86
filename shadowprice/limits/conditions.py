"""Conditions over a request in the Common Expression Language, the language of Kubernetes' validation rules."""

import logging
import math
import random
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput, MissingExtra
from shadowprice.limits.expression import Expression, Part, all_true, position

logger = logging.getLogger(__name__)
REMEMBERED = 1 << 16
"""Results that are kept, by expression and values: an expression is evaluated once for equal values."""

CHECKED = 256
"""Evaluations between two checks of the time."""

Reading = tuple[str, str]
"""What a condition reads: the noun and the name of its value, such as ``("account", "c_region")``."""
OFFER = {"offer_id": "", "level": 0, "incentive": 0}
"""Values of an offer, each with one of its type."""
SAMPLES = ((0.0, ""), (1.0, "a"), (-2.5, "7"), (1e9, "2026-01-31T12:00:00Z"))
"""Numbers and texts that an expression is tried on."""
_TESTED = re.compile(r"(?<!\w)has\(\s*(\w+)\s*\.\s*(\w+)\s*\)")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_READING = re.compile(r"(?<![\w.])(account|partner|context|offer|side)\b(?:\s*\.\s*(\w+))?")
_BOUND = re.compile(r"\.(?:all|exists|exists_one|map|filter)\(\s*(\w+)\s*,")
_COLUMN = re.compile(r"[xc]_\w+")
_TRIALS = 64
"""Draws of values that an expression is tried on without a column."""


@dataclass(frozen=True)
class Condition:
    """An expression that is true or false of a request, or of a request and an offer.

    source    the expression
    field     how errors name it
    of_offer  whether it may read the offer

    It reads ``account.x_*`` and ``account.c_*`` (columns of the account table), the same of ``partner``, values of
    ``context``, ``side``, and ``offer.offer_id``, ``offer.level`` and ``offer.incentive``. ``c_*`` are texts, ``x_*``
    are doubles, also where a caller sends a whole number. A value that is not known is absent: test it with
    ``has(account.x_age)``.

    Raises:
        InvalidInput: no expression, one that costs too much, an unknown name, a part that cannot be evaluated on
            values of the right types, or no truth value; names the position, from 1 on.
        MissingExtra: the library that evaluates expressions is not installed.

    Example:
        >>> Condition("account.x_age < 18", "rules.minors").reads
        (('account', 'x_age'),)
    """

    source: str
    field: str
    of_offer: bool = False
    _faults: list[int] = dataclass_field(default_factory=lambda: [0], init=False, repr=False, compare=False)
    _told: set[str] = dataclass_field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        source: Any = self.source
        expression = Expression(source if isinstance(source, str) else "", self._wrong)
        try:
            program = _program(self.source)
        except ValueError as error:
            located = re.search(r"<input>:(\d+):(\d+): ([^\n]*)", str(error))
            line, column, reason = located.groups() if located else ("1", "1", str(error))
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
        # A part that an evaluation of the whole leaves out is tried by itself.
        for part in [*expression.parts(), Part(self.source, True)]:
            self._try(part)

    def _try(self, part: Part) -> None:
        """Evaluate on values of the right types; a wrong type fails with all of them."""
        fault = ""
        for number, text in SAMPLES:
            values = {(noun, name): _typical(noun, name, number, text) for noun, name in self.reads}
            try:
                result = _compiled(part.source).execute(_context((values | {("side", ""): "customer"}).items()))
            except Exception as error:  # the library raises several types
                fault = f"cannot be evaluated: {error}; compare c_… with texts, and x_… with doubles such as 2.0"
                continue
            if part.truth and not all_true(result):
                raise self._wrong(f"must be true or false, not {result!r}: {part.source}")
            return
        raise self._wrong(fault if part.source == self.source else f"{fault}: {part.source}")

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

    @property
    def faults(self) -> int:
        """Requests so far for which the evaluation failed although all values were known."""
        return self._faults[0]

    def needs(self, absent: Collection[Reading], side: str) -> bool:
        """Return whether requests of a side on which these columns have no value cannot be judged by the expression.

        It can do without a column that it tests by ``has(…)``, or that it leaves out for the ``side``.
        """
        absent = set(absent) & set(self.reads)
        if not absent:
            return False
        if absent - set(_TESTED.findall(self._text)) and ("side", "") not in self.reads:
            return True
        numbers = [number for number, _ in SAMPLES]
        texts = [text for _, text in SAMPLES] + [literal[1:-1] for literal in _STRING.findall(self.source)]
        dice = random.Random(0)
        for _ in range(_TRIALS):
            drawn = [(read, dice.choice(numbers), dice.choice(texts)) for read in self.reads]
            row = [side if reading[0] == "side" else _typical(*reading, *values) for reading, *values in drawn]
            less = [None if read in absent else value for read, value in zip(self.reads, row, strict=True)]
            if self._judged(row) and not self._judged(less):
                return True
        return False

    def _judged(self, row: Sequence[Any]) -> bool:
        return _holds(self.source, self.reads, tuple(row)) is not None

    def holds(
        self, values: Mapping[Reading, Sequence[Any]], requests: int, seconds: float = math.inf
    ) -> NDArray[np.bool_]:
        """Evaluate for n requests.

        Args:
            values: what it reads → (n,) values, None where one is not known.
            requests: n.
            seconds: that it may take.

        Returns:
            bool (n,): what cannot be evaluated holds, so that a rule forbids and a budget counts; it is logged once.
            Where all values are known that is a fault of the expression, which is counted in :attr:`faults`. Equal
            values are evaluated once. O(n).

        Raises:
            InvalidInput: it took longer than ``seconds``.
        """
        columns = [_typed(noun, name, values[noun, name]) for noun, name in self.reads]
        rows = zip(*columns, strict=True) if columns else [()] * requests
        holding = np.ones(requests, dtype=np.bool_)
        deadline = time.monotonic() + seconds
        for place, row in enumerate(rows):
            held = _holds(self.source, self.reads, row)
            if held is None:
                self._count(row)
            else:
                holding[place] = held
            if not place % CHECKED and time.monotonic() > deadline:
                raise self._wrong(f"took longer than {seconds:g} s; ask for a simpler condition")
        return holding

    def _count(self, row: tuple[Any, ...]) -> None:
        values = {".".join(filter(None, read)): value for read, value in zip(self.reads, row, strict=True)}
        absent = sorted(name for name, value in values.items() if value is None)
        if not absent:
            self._faults[0] += 1
        if (kind := ", ".join(absent)) not in self._told:
            self._told.add(kind)
            reason = f"without {kind}" if absent else f"for {values}"
            logger.log(
                logging.WARNING if absent else logging.ERROR,
                "%s: cannot be evaluated %s; it counts as true",
                self.field,
                reason,
            )


def columns_of(conditions: Iterable[Condition], noun: str) -> list[str]:
    """Return the columns of the noun that the conditions read, in order."""
    return sorted({name for condition in conditions for of, name in condition.reads if of == noun})


@lru_cache(REMEMBERED)
def _holds(source: str, reads: tuple[Reading, ...], values: tuple[Any, ...]) -> bool | None:
    """Return what an expression gives; None where it cannot be evaluated. ``values`` have the types of columns."""
    try:
        result = _program(source).execute(_context(zip(reads, values, strict=True)))
    except Exception:  # the library raises several types
        return None
    return result if isinstance(result, bool) else None


def _typed(noun: str, name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return values of one column as doubles, texts or, of offers, whole numbers; None where one is not known."""
    kind: Any = float if name.startswith("x_") else int if noun == "offer" and name != "offer_id" else str
    return [None if value is None else kind(value) for value in values]


def _context(values: Iterable[tuple[Reading, Any]]) -> dict[str, Any]:
    scopes: dict[str, Any] = {"account": {}, "partner": {}, "context": {}, "offer": {}}
    for (noun, name), value in values:
        if noun == "side":
            scopes[noun] = value
        elif value is not None:
            scopes[noun][name] = value
    return scopes


@lru_cache(1024)
def _program(source: str) -> Any:
    return _compiled(source)


def _compiled(source: str) -> Any:
    try:
        import cel
    except ImportError as error:
        raise MissingExtra(
            "rules and groups need the Common Expression Language: pip install 'shadowprice[pacing]'"
        ) from error
    return cel.compile(source)


def _typical(noun: str, name: str, number: float, text: str) -> Any:
    if name in ("level", "incentive"):
        return abs(int(number))
    return "customer" if noun == "side" else number if name.startswith("x_") else text


def _at(text: str, match: re.Match[str] | None) -> str:
    return "" if match is None else position(text, match.start())


def known(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the values with None in place of numbers that are none."""
    return (None if value is None or value != value else value for value in values)
