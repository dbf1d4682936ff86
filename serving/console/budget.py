"""Questions about another budget, levels, limits and caps, or about other sizes and fees of a delivery."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.datastructures import QueryParams

from operations.common.delivery_whatif import PlaceQuestion
from operations.common.workspace import MODEL
from operations.questions.question import Question, open_what_if
from serving.http.limits import MAX_MINOR_UNITS
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import InvalidRequest, Unavailable
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.questions import Answer, Change, GroupLimit

AMOUNT = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
"""An amount in major units, without an exponent: 1e999999999 would overflow."""
WHERE_SECONDS = 2.0
"""Longest evaluation of a group's condition."""
TURN_SECONDS = 5.0
"""Longest wait of a question for the one before it."""
SHARES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Budgets of the curve, as shares of the campaign's own."""
Opener = Callable[[], Question]
_Opened = TypeVar("_Opened")


@dataclass(frozen=True, eq=False)
class Opened:
    """Opened population, its answer under the present terms, and its budget curve."""

    question: Question
    current: Answer
    curve: tuple[Answer, ...]

    @classmethod
    def of(cls, question: Question) -> Opened:
        """Solve the curve."""
        curve = tuple(question.solver.budgets(SHARES))
        return cls(question, curve[SHARES.index(1.0)], curve)


@dataclass(frozen=True, eq=False)
class OpenedPlaces:
    """Opened delivery, its answer under the present terms, and its curve of places and predicted value."""

    question: PlaceQuestion
    current: dict[str, Any]
    curve: list[tuple[int, Estimate]]

    @classmethod
    def of(cls, question: PlaceQuestion) -> OpenedPlaces:
        """Solve the curve."""
        return cls(question, question.ask()["current"], question.curve())


class Questions:
    """Opens a population, and opens it again when another model is the newest.

    opener  opens the population
    newest  returns what names the newest model
    places  opens the population of a delivery
    """

    def __init__(
        self, opener: Opener, newest: Callable[[], object], places: Callable[[], PlaceQuestion] | None = None
    ) -> None:
        self._opener = opener
        self._places = places
        self._newest = newest
        self._lock = threading.Lock()
        self._opened: tuple[object, Any] | None = None
        self._asking = threading.Lock()

    @classmethod
    def of(cls, workspace: Path) -> Questions:
        """Return the questions about the newest model of a workspace."""
        newest = (workspace / MODEL).resolve
        return cls(partial(open_what_if, workspace), newest, partial(PlaceQuestion.open, workspace))

    def open(self) -> Opened:
        """Return the opened population. O(accounts) the first time, and a solve for each budget of the curve.

        Raises:
            NotFound, InvalidInput: the workspace cannot be asked about.
        """
        return self._open(lambda: Opened.of(self._opener()))

    def places(self) -> OpenedPlaces:
        """Return the opened delivery. O(accounts) the first time, and a plan for each point of the curve.

        Raises:
            NotFound, InvalidInput: the workspace cannot be asked about.
        """
        opener = self._places
        assert opener is not None
        return self._open(lambda: OpenedPlaces.of(opener()))

    def _open(self, make: Callable[[], _Opened]) -> _Opened:
        with self._lock:
            model = self._newest()
            if self._opened is None or self._opened[0] != model:
                self._opened = model, make()
            opened: _Opened = self._opened[1]
            return opened

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Keep other questions waiting: each takes a processor for seconds.

        Raises:
            Unavailable: another question takes too long.
        """
        if not self._asking.acquire(timeout=TURN_SECONDS):
            raise Unavailable("another question is being answered; ask again later")
        try:
            yield
        finally:
            self._asking.release()


def change_of(given: QueryParams, question: Question, currency: Currency) -> Change | None:
    """Return the change that a form asks for; None where no field is filled.

    Amounts are in major units, such as ``12.50``; limits of second outcomes in their own units.

    Raises:
        InvalidRequest: names the field that is no amount of the currency, or no level.
    """
    campaign = question.campaign
    budget = _amount(given, "budget", currency)
    groups = []
    limits, caps, levels = {}, {}, {}
    for group_budget in campaign.group_budgets:
        field = f"further_{group_budget.name}"
        own = _number(given, field) if group_budget.outcome else _amount(given, field, currency)
        if own is not None:
            limits[group_budget.name] = float(own)
    for side in campaign.sides:
        limit, cap = _amount(given, f"limit_{side}", currency), _amount(given, f"cap_{side}", currency)
        if limit is not None:
            groups.append(GroupLimit(side, limit, question.members(side, None)))
        if cap is not None:
            caps[side] = float(cap)
        offered = given.getlist(f"levels_{side}")
        if offered:
            levels[side] = tuple(_level(text, f"levels_{side}") for text in offered)
    where, limit = given.get("where", "").strip(), _amount(given, "limit_where", currency)
    if where and limit is not None:
        groups.append(GroupLimit("group", limit, question.members(where, None, WHERE_SECONDS)))
    elif where or limit is not None:
        raise InvalidRequest("give a group and what it may cost together", field="where")
    least = _number(given, "least_return") if campaign.in_money else None
    if budget is None and least is None and not limits and not groups and not caps and not levels:
        return None
    return Change(budget=budget, least_return=least, limits=limits, groups=tuple(groups), caps=caps, levels=levels)


def sizes_and_fees(given: QueryParams, campaign: Campaign) -> tuple[dict[str, int], dict[str, float]]:
    """Return the sizes and fees of a delivery that a form asks for, by segment; both empty where no field is filled.

    Raises:
        InvalidRequest: names the field that is no number of accounts, or no share.
    """
    sizes, shares = {}, {}
    for segment in campaign.segments:
        size, fee = (f"{noun}_{segment.name}" for noun in ("size", "fee"))
        if given.get(size, "").strip():
            sizes[segment.name] = _level(given[size].strip().replace(",", ""), size, "a number of accounts")
        if (share := _number(given, fee)) is not None:
            shares[segment.name] = share
    return sizes, shares


def _amount(given: QueryParams, field: str, currency: Currency) -> int | None:
    text = given.get(field, "").strip().replace(",", "")
    if not text:
        return None
    if not AMOUNT.fullmatch(text):
        raise InvalidRequest("must be an amount of money such as 1200.50", field=field)
    minor = Decimal(text) * currency.unit
    if minor != minor.to_integral_value() or minor > MAX_MINOR_UNITS:
        raise InvalidRequest(f"must be an amount of at most {currency.digits} decimals, 0 or more", field=field)
    return int(minor)


def _number(given: QueryParams, field: str) -> float | None:
    text = given.get(field, "").strip()
    if text and not AMOUNT.fullmatch(text):
        raise InvalidRequest("must be a number such as 1.5", field=field)
    return float(text) if text else None


def _level(text: str, field: str, what: str = "levels of the campaign in minor units") -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidRequest(f"must be {what}", field=field)
    return int(text)
