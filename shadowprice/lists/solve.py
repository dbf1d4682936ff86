"""The dual over exactly the accounts of a list, and the decision of each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.sources.campaign import Part, Row
from shadowprice.arms import Treatment, treatment, units_of
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.groups import Groups
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.lists.caps import within_caps
from shadowprice.lists.rows import request_ids, rows_of
from shadowprice.lists.ties import Tied, share_that_fits
from shadowprice.pacing.resolve import certify
from shadowprice.pacing.spend import CapUse
from shadowprice.pacing.window import WindowSolution, least_cost, solve_window
from shadowprice.policy import Choices, Decided, Eligible, Policy
from shadowprice.price import PriceRecord

ROWS = 1 << 16
"""Accounts decided at a time."""


@dataclass(frozen=True, eq=False)
class SideList:
    """Accounts of one side, each once.

    account_id  (n,)
    curves      (J, n), as the service computes them
    known       bool (n,), whether the model has an embedding of each
    """

    account_id: pa.StringArray
    curves: Curves
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class InHand:
    """Money for a list.

    left        minor units of the main budget that are neither spent nor held; of a mean, those earned so far
    of_budgets  name → minor units of each further budget in its present period
    caps        name → use of each cap so far
    held        whether a total counts the most that an incentive can cost, as a ledger with the hard stop holds it;
                else its expected cost
    spent       minor units spent so far
    """

    left: float
    of_budgets: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, CapUse] = field(default_factory=dict)
    held: bool = False
    spent: int = 0


@dataclass(frozen=True, eq=False)
class _Asked:
    """Some accounts of a side, before they are decided: n, of which m may be given some level.

    rows      of the accounts among all of their side
    names     n accounts
    eligible  m of them
    capped    bool (n,), whether caps alone leave an account no level
    beyond    bool (J, m), levels that rules allow and caps do not; None without caps
    arm       (n,)
    treated   of the m
    response  float32 (J, m)
    prefix    campaign and list, of which ids are made
    """

    rows: slice
    names: _Names
    eligible: Eligible
    capped: NDArray[np.bool_]
    beyond: NDArray[np.bool_] | None
    arm: NDArray[np.str_]
    treated: Treatment
    response: NDArray[np.float32]
    prefix: tuple[str, str]

    @cached_property
    def ids(self) -> list[str]:
        """N request ids."""
        return request_ids(*self.prefix, self.eligible.requests.side, self.names)

    @property
    def asked_ids(self) -> list[str]:
        """M request ids."""
        rows = self.eligible.rows
        return self.ids if rows.size == len(self.names) else [self.ids[row] for row in rows.tolist()]


class _Names(Sequence[str]):
    """Names of accounts, which are made texts of Python only where they are read."""

    def __init__(self, names: pa.StringArray) -> None:
        self._names = names

    @cached_property
    def _texts(self) -> list[str]:
        return cast(list[str], self._names.to_pylist())

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, at: Any) -> Any:
        return self._texts[at]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


class AccountList:
    """Accounts of a list: solves their price, and decides them at it.

    Args:
        campaign: whose offers are given.
        coverage: of the campaign, with the columns that its conditions read.
        name: of the list.
        sides: side → its accounts.
        money: in hand.
        at: time of the decisions, UTC.
        groups: of accounts, which an experiment by clusters assigns.

    Exploration, arms, rules and caps are known before the price, so the accounts that explore or are held out, with
    the levels that they get, are taken off the money, and the dual is solved over the others.

    Raises:
        InvalidInput: the campaign is a delivery, or a limit counts by the partner, of which a list has none.
    """

    def __init__(
        self,
        campaign: Campaign,
        coverage: Coverage,
        name: str,
        sides: Mapping[Side, SideList],
        money: InHand,
        at: datetime,
        groups: Groups | None = None,
    ) -> None:
        if campaign.segments:
            raise InvalidInput("is a delivery: its plan is its list", field="campaign")
        for side in sides:
            if limit := campaign.limits.partner_limit(side):
                raise InvalidInput("counts by the partner, and a list has no partners", field=f"limits.{limit}")
        self.campaign, self.name, self._sides, self._money, self._at = campaign, name, sides, money, at
        self.counted = counted_by_hold(campaign) if money.held else campaign
        self._coverage, self._groups = coverage, groups

    @property
    def by_hold(self) -> bool:
        """Return whether the budget counts the most that incentives can cost."""
        return self.counted is not self.campaign

    @cached_property
    def accounts(self) -> int:
        """Number of accounts of all sides."""
        return sum(len(mine.account_id) for mine in self._sides.values())

    def solve(self, version: int, model_version: str, executor: Executor | None = None) -> PriceRecord:
        """Return the sealed price at which the accounts use the money, with the share of tied ones that it pays for.

        Raises:
            NotCertified: the money does not pay for the accounts that explore or are held out, or for the cheapest
                levels of the others, or gap or violation exceed the campaign's limits.
        """
        campaign, money, begun = self.counted, self._money, datetime.now(UTC)
        budgets, whole = campaign.group_budgets, campaign.budget.form == "total"
        fixed = _Fixed(np.zeros(1 + len(budgets)))
        free = {side: mine for side in self._sides if (mine := self._free(side, fixed)).accounts}
        left = money.left - float(fixed.taken[0])
        if whole and left < 0:
            raise NotCertified(
                f"{money.left:.0f} minor units are left, and the accounts that explore or are held out take "
                f"{fixed.taken[0]:.0f}; raise the budget, or lower exploration or a share"
            )
        rows = [
            Row(budget.name, budget, money.of_budgets.get(budget.name, _limit_of(budget)) - float(taken))
            for budget, taken in zip(budgets, fixed.taken[1:], strict=True)
        ]
        prices, tie_share, shown = dict.fromkeys(campaign.priced, campaign.least_return), 0.0, (0.0, 0.0, 0.0, 0.0)
        prices |= {budget.name: 0.0 for budget in budgets}
        spend = fixed.cost
        if free:
            solution = _solve(campaign, free, left, rows, executor)
            found = solution.allocation
            ahead = {side: float(curves.accounts) for side, curves in free.items()}
            certify(campaign, found, left, lambda: least_cost(_plain(campaign), free, ahead))
            prices |= {name: solution.prices[name] for name in campaign.priced}
            shown = (solution.primal, solution.dual, found.gap, found.violation)
            limits = np.array([left, *(row.in_hand if _is_cap(row) else np.inf for row in rows)])
            tie_share = self._tie_share(prices, found.tie_share, limits, fixed.taken) if found.tied else 0.0
            spend += float(found.spend[0]) if whole else sum(solution.spend[side] * ahead[side] for side in free)
        primal, dual, gap, violation = shown
        now = datetime.now(UTC)
        return PriceRecord(
            campaign=campaign.name,
            version=version,
            slot=max(campaign.slot(self._at), 0),
            prices=prices,
            tie_share=tie_share,
            status="optimal",
            primal=primal + fixed.value,
            dual=dual + fixed.value,
            gap=gap,
            violation=violation,
            spent=money.spent,
            remaining=round(money.left),
            sample_rows=self.accounts,
            model_version=model_version,
            solved_at=now,
            expires_at=now + timedelta(hours=campaign.price_ttl_hours),
            expected=float(self.accounts),
            plan=(0.0, spend),
            arrivals=(0.0, float(self.accounts)),
            seconds=(now - begun).total_seconds(),
        ).sealed()

    def rows(self, record: PriceRecord) -> Iterator[pa.Table]:
        """Yield the decisions of the accounts at a price, in parts of the columns :data:`PLAN`."""
        policy = Policy(self.counted, self._coverage, record.of(self.campaign.priced), record.tie_share)
        for side, mine in self._sides.items():
            for part in self._parts(side):
                known = mine.known[part.rows][part.eligible.rows]
                decided = policy.answer(part.eligible, part.response, part.asked_ids, part.treated, known)
                yield rows_of(
                    self.campaign,
                    mine.account_id[part.rows],
                    part.ids,
                    part.eligible,
                    part.response,
                    self._with_capped(policy, part, decided),
                    (part.arm, part.capped),
                    (record.version, record.model_version),
                )

    def _with_capped(self, policy: Policy, part: _Asked, decided: Decided) -> Decided:
        """Return the decisions with the reason ``capped`` of accounts that would get a level beyond a cap."""
        if part.beyond is None or not part.beyond.any():
            return decided
        able, treated = part.eligible, part.treated
        allowed = np.ones_like(part.beyond) if able.allowed is None else able.allowed
        without = policy.choices(able._replace(allowed=allowed | part.beyond), part.response, treated)
        wanted = without.decide(policy.prices, policy.tie_share, part.asked_ids, treated.exploration).level
        capped = pick(part.beyond, wanted) > 0
        return replace(decided, reasons=np.where(capped & ~treated.held, "capped", decided.reasons))

    def _parts(self, side: Side) -> Iterator[_Asked]:
        """Yield the accounts of a side in parts, with the levels that rules and caps allow, and their arms."""
        mine, campaign = self._sides[side], self.counted
        policy = Policy(campaign, self._coverage, (), 0.0)
        for start in range(0, len(mine.account_id), ROWS):
            rows = slice(start, min(start + ROWS, len(mine.account_id)))
            names = _Names(mine.account_id[rows])
            asked = SideRequests(side, names)
            within = within_caps(self.campaign, side, names, self._money.caps)
            eligible, beyond, capped = policy.eligible(asked, within), None, np.zeros(len(names), dtype=np.bool_)
            if within is not None:
                by_rule = self._coverage.allowed(asked)
                beyond = ~within if by_rule is None else by_rule & ~within
                capped = beyond.any(axis=0)
                capped[eligible.rows] = False
                beyond = beyond[:, eligible.rows]
            units = units_of(campaign.experiment, names, [""] * len(names), [self._at] * len(names), self._groups)
            treated = treatment(campaign.experiment, units, campaign.exploration)
            response, arm = mine.curves.response[:, rows], treated.arm
            if len(eligible.rows) < len(names):
                response, treated = response[:, eligible.rows], treated.take(eligible.rows)
            prefix = (campaign.name, self.name)
            yield _Asked(rows, names, eligible, capped, beyond, arm, treated, response, prefix)

    def _free(self, side: Side, fixed: _Fixed) -> Curves:
        """Return the marked curves of the accounts whose level the price chooses; ``fixed`` gets what the others take.

        O(n) memory beside the curves, which are not copied where the price chooses for all accounts.
        """
        curves, kept = self._sides[side].curves, []
        bits: list[NDArray[np.uint32]] = []
        allowed: list[NDArray[np.bool_]] = []
        worth: list[NDArray[np.float64]] = []
        policy = Policy(self.counted, self._coverage, np.zeros(len(self.counted.priced)).tolist(), 0.0)
        for part in self._parts(side):
            eligible, treated = part.eligible, part.treated
            free = np.ones(len(eligible.rows), dtype=np.bool_)
            if treated.held.any() or treated.exploration.any():
                decided = policy.answer(eligible, part.response, part.asked_ids, treated)
                level = decided.decision.level
                free = ~(decided.decision.explored | treated.held)
                cost = self.counted.terms(side).cost(part.response)
                fixed.add(decided.choices, level, pick(cost, level), ~free)
            kept.append(part.rows.start + eligible.rows[free])
            if self._coverage.budgets:
                bits.append(self._coverage.bits(eligible.requests)[free])
            if eligible.allowed is not None:
                allowed.append(eligible.allowed[:, free])
            own = self._coverage.worth(eligible.requests)
            if own is not None:
                worth.append(own[free])
        index = np.concatenate(kept)
        response = curves.response if index.size == curves.accounts else curves.response[:, index]
        return Curves(
            curves.levels,
            response,
            path=curves.path if response is curves.response else None,
            bits=np.concatenate(bits) if bits else None,
            allowed=np.concatenate(allowed, axis=1) if allowed else None,
            worth=np.concatenate(worth) if worth else None,
        )

    def _tie_share(
        self, prices: Mapping[str, float], share: float, limits: NDArray[np.float64], taken: NDArray[np.float64]
    ) -> float:
        """Return the tie share at which the accounts that tie, by the hashes of their ids, use the money that is left.

        In expectation that is ``share``; the draws of few accounts may miss it.
        """
        if not share:
            return 0.0
        policy = Policy(self.counted, self._coverage, [prices[name] for name in self.counted.priced], 0.0)
        spent, tied = np.zeros_like(taken), Tied()
        for side in self._sides:
            for part in self._parts(side):
                choices = policy.choices(part.eligible, part.response, part.treated)
                chosen = choices.decide(policy.prices, 0.0, part.asked_ids, part.treated.exploration)
                free = ~(chosen.explored | part.treated.held)
                spent += _taken(choices, chosen.level)[:, free].sum(axis=1)
                tied.add(choices, chosen, part.asked_ids, free)
        return share_that_fits(share, limits - spent, tied)


@dataclass
class _Fixed:
    """Accounts that the price does not choose for: what they take of each priced budget, their value and cost."""

    taken: NDArray[np.float64]
    value: float = 0.0
    cost: float = 0.0

    def add(
        self, choices: Choices, level: NDArray[np.int32], cost: NDArray[np.float64], which: NDArray[np.bool_]
    ) -> None:
        self.taken = self.taken + _taken(choices, level)[:, which].sum(axis=1)
        self.cost += float(cost[which].sum())
        self.value += float(pick(choices.value, level)[which].sum())


def counted_by_hold(campaign: Campaign) -> Campaign:
    """Return the campaign with the most that an incentive can cost as its cost.

    The accounts of a list are authorized together, so a ledger with the hard stop holds all of it at once. The campaign
    stays as it is where a budget is a mean, which counts expected costs alone, or where there is a least return of
    them: the ledger then has the last word.
    """
    budgets = (campaign.budget, *campaign.group_budgets)
    if campaign.least_return or any(budget.form != "total" for budget in budgets):
        return campaign
    if all(terms.cost_basis == "on_grant" for terms in campaign.sides.values()):
        return campaign
    sides = {
        side: replace(terms, cost_basis="on_grant", most_units=1, costs=terms.reserved)
        for side, terms in campaign.sides.items()
    }
    return replace(campaign, sides=sides)


def _solve(
    campaign: Campaign, free: Mapping[Side, Curves], left: float, rows: list[Row], executor: Executor | None
) -> WindowSolution:
    ahead = {side: float(curves.accounts) for side, curves in free.items()}
    parts = [Part(dict.fromkeys(free, 1.0), {row.name: place for place, row in enumerate(rows)})]
    return solve_window(_plain(campaign), free, ahead, left, parts, rows, executor=executor)


def _plain(campaign: Campaign) -> Campaign:
    """Return the campaign of the accounts that the price chooses for: nobody explores or has an arm."""
    limits = replace(campaign.limits, budgets=campaign.group_budgets)
    return replace(campaign, exploration=0.0, experiment=None, limits=limits)


def _limit_of(budget: Any) -> float:
    return float(budget.limit) if budget.form == "total" else 0.0


def _is_cap(row: Row) -> bool:
    return row.budget.sense == "at_most"


def _taken(choices: Choices, level: NDArray[np.int32]) -> NDArray[np.float64]:
    """(K, m): what the chosen levels take of each priced budget."""
    return np.stack([pick(charge, level) for charge in np.asarray(choices.charges)])

