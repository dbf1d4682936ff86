"""Structure of an expression: a bound of its cost before it is evaluated, and its parts."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shadowprice.errors import InvalidInput

MOST_CHARACTERS = 2000
"""Length of an expression."""
MOST_NESTED = 24
"""Brackets inside one another."""
MOST_STEPS = 20_000
"""Tokens that one evaluation reads; those of a comprehension count once for each element."""
LONGEST_PATTERN = 100
"""Characters of a regular expression, which must have no counted repetition."""
COMPREHENSIONS = frozenset({"all", "exists", "exists_one", "filter"})
LOGICAL = frozenset({"&&", "||", "?", ":"})
"""Operators that may leave an operand out."""
_ENDS = LOGICAL | {"==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "!", ",", "in"}
"""Tokens that a receiver of a comprehension comes after."""
_OPENING, _CLOSING = "([{", ")]}"
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<word>\d[\w.]*(?:(?<=[eE])[+-]\d+)?|[A-Za-z_]\w*)"""
    r"""|(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}]))"""
)

Refuse = Callable[[str], InvalidInput]
Wrap = Callable[[str], str]


@dataclass(frozen=True)
class Token:
    """One token, and its place in the source."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Part:
    """A part that is evaluated or left out as a whole.

    source  an expression: inside a comprehension, one of the list of the part's values
    truth   whether the part must be true or false
    """

    source: str
    truth: bool


class Expression:
    """Tokens of an expression in the Common Expression Language.

    Args:
        source: of the expression.
        refuse: makes the error for a reason.

    Raises:
        InvalidInput: it is too long, nested too deeply or costs too much, or has something that no condition needs:
            ``map``, a comprehension inside another, a comment, a raw or bytes text, or a costly regular expression.
    """

    def __init__(self, source: str, refuse: Refuse) -> None:
        if not 0 < len(source) <= MOST_CHARACTERS:
            raise refuse(f"must be an expression of at most {MOST_CHARACTERS} characters")
        self._source = source
        self._refuse = refuse
        self._tokens = list(self._read())
        self._closed_by = self._match()
        self._opened_by = {closing: opening for opening, closing in self._closed_by.items()}
        self._check_cost()

    def parts(self) -> Iterator[Part]:
        """Yield the operands of logical operators, whose types an evaluation of the whole may not reach."""
        yield from self._operands(0, len(self._tokens), str, False)

    def _read(self) -> Iterator[Token]:
        place, size = 0, len(self._source.rstrip())
        while place < size:
            match = _TOKEN.match(self._source, place)
            if match is None:
                raise self._refuse(f"{self._at(place)}what is this: {self._source[place : place + 10].strip()!r}?")
            token = Token(match[0].strip(), match.end() - len(match[0].strip()), match.end())
            if match["text"] and self._source[token.start - 1 : token.start].isalnum():
                raise self._refuse(f"{self._at(token.start)}raw texts and bytes are not taken; write a plain text")
            if self._source.startswith(("//", '"""', "'''"), token.start):
                raise self._refuse(f"{self._at(token.start)}comments and texts of several lines are not taken")
            place = token.end
            yield token

    def _match(self) -> dict[int, int]:
        """Place of each opening bracket → that of the closing one."""
        pairs, open_at = {}, []
        for place, token in enumerate(self._tokens):
            if token.text in _OPENING:
                open_at.append(place)
                if len(open_at) > MOST_NESTED:
                    raise self._refuse(
                        f"{self._at(token.start)}has more than {MOST_NESTED} brackets inside one another"
                    )
            elif token.text in _CLOSING:
                if not open_at:
                    raise self._refuse(f"{self._at(token.start)}closes no bracket")
                pairs[open_at.pop()] = place
        if open_at:
            raise self._refuse(f"{self._at(self._tokens[open_at[-1]].start)}the bracket is not closed")
        return pairs

    def _check_cost(self) -> None:
        texts = [token.text for token in self._tokens]
        inside = -1
        for place, text in enumerate(texts):
            if not self._is_call(place):
                continue
            at, closing = self._at(self._tokens[place].start), self._closed_by[place + 1]
            if text == "map":
                raise self._refuse(f"{at}'map' is not taken; use {sorted(COMPREHENSIONS)}")
            if text == "matches":
                pattern = texts[place + 2 : closing]
                if len(pattern) != 1 or pattern[0][0] not in "\"'" or "{" in pattern[0]:
                    raise self._refuse(f"{at}'matches' takes a plain text without counted repetitions")
                if len(pattern[0]) > LONGEST_PATTERN:
                    raise self._refuse(f"{at}a pattern has at most {LONGEST_PATTERN} characters")
            if text in COMPREHENSIONS:
                if place < inside:
                    raise self._refuse(f"{at}{text!r} must not stand inside another comprehension")
                inside = closing
        elements = 1 + sum(text in (",", "[", "{") for text in texts) if inside >= 0 else 1
        if len(texts) * elements > MOST_STEPS:
            raise self._refuse(f"costs too much: {len(texts)} tokens for each of {elements} elements")

    def _is_call(self, place: int) -> bool:
        """Return whether a token is the name of a method that is called."""
        around = [token.text for token in self._tokens[max(0, place - 1) : place + 2]]
        return len(around) == 3 and around[0] == "." and around[2] == "("

    def _operands(self, start: int, end: int, wrap: Wrap, logical: bool) -> Iterator[Part]:
        """Yield the operands between two places; ``logical`` where an operand is one even alone."""
        first, before, place = start, "", start
        while place <= end:
            text = self._tokens[place].text if place < end else ""
            if place == end or text in LOGICAL or text == ",":
                if first < place and (logical or before in LOGICAL or text in LOGICAL):
                    truth = before in ("&&", "||") or text in ("&&", "||", "?")
                    yield Part(wrap(self._span(first, place)), truth)
                first, before = place + 1, text
            elif text in _OPENING:
                yield from self._inside(place, first, wrap)
                place = self._closed_by[place]
            place += 1

    def _inside(self, opening: int, first: int, wrap: Wrap) -> Iterator[Part]:
        """Yield the operands in brackets; those in a comprehension for each of its elements."""
        closing = self._closed_by[opening]
        name = self._tokens[opening - 1].text if opening else ""
        if name in COMPREHENSIONS and self._is_call(opening - 1):
            receiver = opening - 2
            while receiver > first and self._tokens[receiver - 1].text not in _ENDS:
                receiver = self._opened_by.get(receiver - 1, receiver - 1)
            of = self._span(receiver, opening - 2)
            bound = self._tokens[opening + 1].text

            def each(part: str) -> str:
                return wrap(f"{of}.map({bound}, {part})")

            yield from self._operands(opening + 3, closing, each, True)
        elif self._tokens[opening].text != "{":
            yield from self._operands(opening + 1, closing, wrap, False)

    def _span(self, start: int, end: int) -> str:
        return self._source[self._tokens[start].start : self._tokens[end - 1].end] if start < end else ""

    def _at(self, place: int) -> str:
        return position(self._source, place)


def position(source: str, place: int) -> str:
    """Return line and column of a place, from 1 on, as errors begin with them."""
    line = source.count("\n", 0, place) + 1
    return f"at line {line}, column {place - source.rfind(chr(10), 0, place)}: "


def all_true(values: object) -> bool:
    """Return whether a value, or each of the lists of a comprehension, is true or false."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        return all(all_true(value) for value in values)
    return isinstance(values, bool)
