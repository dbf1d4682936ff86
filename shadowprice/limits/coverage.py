"""Budgets that count a request and levels that rules allow it: one definition for solve, replay and service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowprice.curves import AMOUNT, Curves, expected_amounts
from shadowprice.errors import InvalidInput
from shadowprice.groups import hashes
from shadowprice.limits.attributes import INFLUENCE, Attributes, read_attributes, read_influence
from shadowprice.limits.cap import Cap
from shadowprice.limits.conditions import OFFER, Condition, Reading, columns_of, known
from shadowprice.limits.group_budget import GroupBudget
from shadowprice.limits.rules import Rule

Context = Mapping[str, Sequence[Any]]
"""Name of a context value → (n,), None where a request has none."""
Offer = tuple[str, int]
"""Identifier and incentive."""
SIDES = ("customer", "merchant")


def other_side(side: str) -> str:
    """Side of the partners of a side's accounts."""
    return SIDES[1 - SIDES.index(side)]


class SideRequests(NamedTuple):
    """Requests of one side, as conditions read them.

    account_id  n identifiers
    partner_id  n identifiers, empty where a request has none; () where no request has one
    context     of the requests; None: not known
    """

    side: Any
    account_id: Sequence[str]
    partner_id: Sequence[str] = ()
    context: Context | None = None

    @property
    def partners(self) -> Sequence[str]:
        """Partner of each request."""
        return self.partner_id or [""] * len(self.account_id)

    def take(self, rows: NDArray[np.intp]) -> SideRequests:
        """Return the requests at ``rows``."""
        accounts, partners, *values = (
            [column[row] for row in rows.tolist()]
            for column in (self.account_id, self.partners, *(self.context or {}).values())
        )
        return SideRequests(self.side, accounts, partners, dict(zip(self.context or {}, values, strict=True)))


@dataclass(frozen=True, eq=False)
class Coverage:
    """Evaluates the conditions of a campaign's budgets and rules.

    budgets     those that have a price, in the order of :attr:`Campaign.group_budgets`, then those of one arm
    rules       of eligibility
    offers      side → offers by level
    attributes  side → columns of its accounts; a side that is missing knows none
    caps        of accounts and partners
    newer       side → columns of accounts that ``attributes`` lack
    worths      side → column with the worth of a unit of each account's response, or ``amount`` where it is the
                expected amount; a side without one is missing
    learned     side → function of n accounts with the law (2, J, n) of the amounts that a model expects of them, for
                requests without curves, such as those of a log
    influences  side → file of the workspace with the influence of its accounts on their partners
    """

    budgets: Sequence[GroupBudget]
    rules: Sequence[Rule]
    offers: Mapping[Any, Sequence[Offer]]
    attributes: Mapping[Any, Attributes] = field(default_factory=dict)
    caps: Sequence[Cap] = ()
    newer: Mapping[Any, Attributes] = field(default_factory=dict)
    worths: Mapping[Any, str] = field(default_factory=dict)
    learned: Mapping[Any, Callable[[Sequence[str]], NDArray[np.float32]]] = field(default_factory=dict)
    influences: Mapping[Any, str] = field(default_factory=dict)

    @property
    def faults(self) -> int:
        """Evaluations so far that failed although all values were known."""
        return sum(condition.faults for condition in _conditions([*self.budgets, *self.rules]))

    def columns(self) -> dict[Any, list[str]]:
        """Side → columns of its accounts that the conditions read, whether as account or as partner, and of worths."""
        names_of: dict[Any, set[str]] = {side: {self.worths.get(side, AMOUNT)} - {AMOUNT} for side in SIDES}
        for side in self.offers:
            conditions = _conditions([*self.budgets, *self.rules], side)
            names_of[side].update(columns_of(conditions, "account"))
            names_of[other_side(side)].update(columns_of(conditions, "partner"))
        return {side: sorted(names) for side, names in names_of.items()}

    def reading(self, folder: Path) -> Coverage:
        """Return the coverage with the columns that its conditions read, from the files of a workspace.

        Raises:
            InvalidInput: the accounts have no such column, no account of a side has a value in a column that a
                condition needs for it, or the file is missing or damaged.
        """
        wanted = {side: names for side, names in self.columns().items() if names}
        attributes = {side: read_attributes(folder, side, names) for side, names in wanted.items()}
        for side, file in self.influences.items():
            own = attributes.get(side, Attributes.of([], {}))
            attributes[side] = replace(own, influence=read_influence(folder / file, side))
        filled = replace(self, attributes=attributes)
        filled.check_sides()
        return filled

    def check_sides(self) -> None:
        """Make sure that no condition counts as true for a whole side because the side lacks a column.

        Raises:
            InvalidInput: names the condition, the side and the column.
        """
        every: list[GroupBudget | Rule] = [*self.budgets, *self.rules]
        for limit in every:
            if limit.condition is None:
                continue
            for side in self.offers if limit.side is None else [limit.side]:
                absent = self.absent(limit.condition, side)
                if not limit.condition.needs(absent, side):
                    continue
                name, other = ".".join(absent[0]), other_side(side)
                add = (
                    f'add "side": "{other}" if it is about {other}s, or '
                    if limit.side is None and other in self.offers
                    else ""
                )
                raise InvalidInput(
                    f"{name} has no value for any request of side {side!r}, and the condition would count as true for"
                    f" all of them; {add}test for it with has({name})",
                    field=limit.condition.field,
                )

    def absent(self, condition: Condition, side: str) -> list[Reading]:
        """Return the columns that a condition reads and that no account of a side, or none of its partners, has."""
        of = {"account": side, "partner": other_side(side)}
        tables = {noun: self.attributes[other] for noun, other in of.items() if other in self.attributes}
        return [(noun, name) for noun, name in condition.reads if noun in tables and tables[noun].empty(name)]

    def lacking(self, asked: SideRequests) -> list[tuple[Any, list[str], list[str]]]:
        """Return side, identifiers and columns of the accounts and partners of requests that ``attributes`` lack."""
        names = {asked.side: asked.account_id, other_side(asked.side): [name for name in asked.partner_id if name]}
        tables = ((of, table) for of, table in self.attributes.items() if table.columns)
        absent = ((of, table.lacking(names[of]), list(table.columns)) for of, table in tables)
        return [reading for reading in absent if reading[1]]

    def context_names(self, side: str) -> list[str]:
        """Return the names of the context values that rules and budgets with a price read of requests of a side."""
        return columns_of(_conditions([*self._priced(side), *self.rules], side), "context")

    def _priced(self, side: str) -> list[GroupBudget]:
        """Budgets with a price that may count requests of a side."""
        return [budget for budget in self.budgets if budget.side in (None, side) and budget.arm is None]

    def reads_partner(self, side: str) -> bool:
        """Return whether rules, caps or budgets with a price tell requests of a side apart by their partner."""
        if any(cap.per == "partner" and cap.side in (None, side) for cap in self.caps):
            return True
        priced = self._priced(side)
        conditions = _conditions([*priced, *self.rules], side)
        return any(priced_budget.partners for priced_budget in priced) or bool(columns_of(conditions, "partner"))

    def bits(self, asked: SideRequests) -> NDArray[np.uint32]:
        """uint32 (n,): bit k is set where budget k counts the request. O(n · budgets)."""
        n = len(asked.account_id)
        marked = np.zeros(n, dtype=np.uint32)
        values = self._values([budget.condition for budget in self.budgets if budget.condition], asked)
        for place, budget in enumerate(self.budgets):
            if budget.side not in (None, asked.side):
                continue
            inside = np.ones(n, dtype=np.bool_)
            if budget.partners:
                group = budget.group
                inside = np.fromiter((name in group for name in asked.partners), np.bool_, n)
            if budget.condition is not None:
                inside &= budget.condition.holds(values, n)
            marked |= inside.astype(np.uint32) << np.uint32(place)
        return marked

    def mark(self, asked: SideRequests, curves: Curves) -> Curves:
        """Return curves (J, n) of requests to come with their budgets, the levels that rules allow, and their owners.

        Where the context is not known, budgets and rules that read it are left out.
        """
        if not (self.budgets or self.rules or self.caps or self.worths or self.influences):
            return curves
        usable, unknown = self, 0
        if asked.context is None:
            usable = replace(self, rules=[rule for rule in self.rules if not columns_of([rule.condition], "context")])
            for place, budget in enumerate(self.budgets):
                if budget.condition is not None and columns_of([budget.condition], "context"):
                    unknown |= 1 << place
        bits = self.bits(asked) & ~np.uint32(unknown) if self.budgets else None
        worth = self.worth(asked, curves.amounts)
        own = replace(curves, worth=worth, influence=self.influence(asked))
        return replace(own, bits=bits, allowed=usable.allowed(asked), owners=self._owners(asked))

    def worth(self, asked: SideRequests, amounts: NDArray[np.float32] | None = None) -> NDArray[np.float64] | None:
        """float64 (n,) or (J, n): worth of a unit of each account's response; None where all are worth the same.

        An account whose own is not known is worth what the known ones of its side are in the mean. Where the worth is
        the expected amount, it is that of the law ``amounts`` of the requests (:attr:`Curves.amounts`).

        Raises:
            InvalidInput: the columns of the accounts were not read, none of them has a worth, or the model has learned
                no amounts.
        """
        name = self.worths.get(asked.side)
        if name is None:
            return None
        if name == AMOUNT:
            if amounts is None and asked.side in self.learned:
                amounts = self.learned[asked.side](asked.account_id)
            if amounts is None:
                raise InvalidInput(
                    f"of responses of side {asked.side!r} is not known; train the model on a trial with amounts",
                    field=AMOUNT,
                )
            return expected_amounts(amounts)
        table = self.attributes.get(asked.side)
        if table is None or name not in table.columns or not (mean := table.means[name]) >= 0:
            raise InvalidInput(f"the worth of accounts of side {asked.side!r} is not known", field=name)
        worths = np.array(self._column(asked.side, name, asked.account_id), dtype=np.float64)
        return np.where(np.isfinite(worths) & (worths >= 0), worths, mean)

    def influence(self, asked: SideRequests) -> NDArray[np.float64] | None:
        """float64 (n,): value for partners of a minor unit of each account, 0 of one without; None: not counted.

        Raises:
            InvalidInput: the file of the campaign was not read.
        """
        if asked.side not in self.influences:
            return None
        table = self.attributes[asked.side].influence if asked.side in self.attributes else None
        if table is None:
            raise InvalidInput("was not read from the workspace", field=self.influences[asked.side])
        return np.array([value or 0.0 for value in table.read(INFLUENCE, asked.account_id)], dtype=np.float64)

    def _owners(self, asked: SideRequests) -> NDArray[np.uint64] | None:
        """uint64 (2, n): hashes of account and partner of each request, 0 without a partner; None without caps."""
        if not self.caps:
            return None
        bare = np.array([not partner for partner in asked.partners], dtype=np.bool_)
        return np.stack([hashes(asked.account_id), np.where(bare, np.uint64(0), hashes(asked.partners))])

    def named(self, bits: NDArray[np.uint32]) -> list[str]:
        """Return the names of the budgets with a condition that count each request, joined by commas, for the
        ledger."""
        mine = [(1 << place, budget.name) for place, budget in enumerate(self.budgets) if budget.condition is not None]
        return [",".join(name for bit, name in mine if value & bit) for value in bits.tolist()]

    def recorded(self, side: str, named: str, partner_id: str) -> NDArray[np.uint32]:
        """Return uint32 (1,), :meth:`bits` of a request with these names of budgets (:meth:`named`) and this
        partner."""
        bits, names = 0, named.split(",")
        for place, budget in enumerate(self.budgets):
            within = budget.name in names if budget.condition else not budget.partners or partner_id in budget.group
            bits |= int(budget.side in (None, side) and within) << place
        return np.array([bits], dtype=np.uint32)

    def allowed(self, asked: SideRequests) -> NDArray[np.bool_] | None:
        """bool (J, n): the levels that no rule forbids; None where no rule concerns the side. O(n · rules · J)."""
        forbidden = self.forbidden(asked)
        return None if forbidden is None else forbidden == 0

    def forbidden(self, asked: SideRequests) -> NDArray[np.int16] | None:
        """int16 (J, n): number of the first of ``rules`` that forbids a level, from 1, or 0; None without a rule."""
        rules = [(place, rule) for place, rule in enumerate(self.rules, 1) if rule.side in (None, asked.side)]
        if not rules:
            return None
        requests, offers = len(asked.account_id), self.offers[asked.side]
        values = self._values([rule.condition for _, rule in rules], asked)
        found = np.zeros((len(offers), requests), dtype=np.int16)
        for place, rule in rules:
            of_offer = any(noun == "offer" for noun, _ in rule.condition.reads)
            same = None if of_offer else rule.condition.holds(values, requests)
            for level, (offer_id, incentive) in enumerate(offers):
                if rule.offers and offer_id not in rule.offers:
                    continue
                own = dict(zip(OFFER, (offer_id, level, incentive), strict=True))
                of = {("offer", name): [value] * requests for name, value in own.items()}
                holds = rule.condition.holds(values | of, requests) if same is None else same
                found[level, holds & (found[level] == 0)] = place
        return found

    def _values(self, conditions: Sequence[Condition], asked: SideRequests) -> dict[Reading, Sequence[Any]]:
        """Values that the conditions read; each is looked up once."""
        side, account_id, partner_id, context = asked
        n = len(account_id)
        columns: dict[Reading, Sequence[Any]] = {("side", ""): [side] * n}
        for noun, of, names in (("account", side, account_id), ("partner", other_side(side), partner_id)):
            table = self.attributes.get(of)
            for name in columns_of(conditions, noun):
                if table is None or not names or name not in table.columns:
                    columns[noun, name] = [None] * n
                    continue
                columns[noun, name] = self._column(of, name, names)
        for name in columns_of(conditions, "context"):
            columns["context", name] = list(known((context or {}).get(name, [None] * n)))
        return columns

    def _column(self, side: Any, name: str, account_id: Sequence[str]) -> list[Any]:
        """Values of a column of accounts, of those that came later too; None where one is not known."""
        kept = self.attributes[side].read(name, account_id)
        if side not in self.newer:
            return kept
        later = self.newer[side].read(name, account_id)
        return [new if own is None else own for own, new in zip(kept, later, strict=True)]


def _conditions(given: Sequence[GroupBudget | Rule], side: str | None = None) -> list[Condition]:
    """Conditions of budgets and rules of requests of a side; None: of both."""
    own = (limit.condition for limit in given if side is None or limit.side in (None, side))
    return [condition for condition in own if condition is not None]
