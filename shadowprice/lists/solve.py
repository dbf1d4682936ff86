"""The dual over exactly the accounts of a list, and the decision of each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.problem.solution import pick
from shadowprice.allocation.spend_ratio import HeldOutSpend, Ratio, solve_within, spend_ratio
from shadowprice.campaign import Budget, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.groups import Groups
from shadowprice.limits import GroupBudget
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.lists.caps import within_caps
from shadowprice.lists.free import Fixed, Solved, solve_free
from shadowprice.lists.money import InHand, counted_by_hold
from shadowprice.lists.parts import Asked, Names, SideList
from shadowprice.lists.rest import Levels, Rest
from shadowprice.lists.rows import rows_of
from shadowprice.lists.ties import Tied, share_that_fits
from shadowprice.policy import Choices, Decided, Policy, treated_in
from shadowprice.price import PriceRecord

SEARCHED = 16
"""Parts of a side that are searched for accounts that take the rest of the money."""


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
        spend: side → spend of the model's policy by held-out rows; of a side that is missing none is known.

    Exploration, arms, rules and caps are known before the price. The accounts that explore or are held out are taken
    off the money with the levels that they get, and the dual is solved over the others.

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
        spend: Mapping[Side, HeldOutSpend] = MappingProxyType({}),
    ) -> None:
        if campaign.segments:
            raise InvalidInput("is a delivery: its plan is its list", field="campaign")
        for side in sides:
            if limit := campaign.limits.partner_limit(side):
                raise InvalidInput("counts by the partner, and a list has no partners", field=f"limits.{limit}")
        self.campaign, self.name, self._sides, self._money, self._at = campaign, name, sides, money, at
        self._counted = counted_by_hold(campaign) if money.held else campaign
        self._coverage, self._groups, self._spend = coverage, groups, spend
        self._lifted: Levels = {}
        self.ratio = Ratio(1.0, 1.0, 1.0)
        """Minor units paid per minor unit that the curves expect of the chosen levels, once solved."""

    @property
    def by_hold(self) -> bool:
        """Return whether the budget counts the most that incentives can cost."""
        return self._counted is not self.campaign

    def solve(self, version: int, model_version: str, executor: Executor | None = None) -> PriceRecord:
        """Return the sealed price at which the accounts use the money; its plan ends with the money that they use.

        The optimum splits a few accounts between levels. Those that tie take the dearer level, in the order of the
        hashes of their ids, while the money lasts, and the rest of it pays for the steps of one or two others.

        Raises:
            NotCertified: the money does not pay for the accounts that explore or are held out, or for the cheapest
                levels of the others, or gap or violation exceed the campaign's limits.
        """
        campaign, begun = self._counted, datetime.now(UTC)
        fixed = Fixed(np.zeros(1 + len(campaign.group_budgets)))
        free = {side: mine for side in self._sides if (mine := self._free(side, fixed)).accounts}
        main = campaign.budget.name
        ahead = {side: float(curves.accounts) for side, curves in free.items()}

        def ratio_at(price: float) -> Ratio:
            return spend_ratio(self._spend, ahead, price)

        def solved_at(ratio: float) -> Solved:
            return solve_free(campaign, self._money, free, fixed.taken, ratio, executor)

        if campaign.budget.form == "total" and not self.by_hold:
            found, self.ratio = solve_within(solved_at, lambda one: one.prices[main], ratio_at)
        else:
            found = solved_at(1.0)
            self.ratio = ratio_at(found.prices[main])
        tie_share = 0.0
        least = np.array([campaign.least_return, *[0.0] * len(campaign.group_budgets)])
        if free and (binding := np.flatnonzero([found.prices[name] for name in campaign.priced] > least)).size:
            tie_share = self._round(found.prices, found.tie_share, found.limits, int(binding[0]))
        spend = fixed.cost + found.spend
        now, n = datetime.now(UTC), sum(len(mine.account_id) for mine in self._sides.values())
        return PriceRecord(
            campaign=campaign.name,
            version=version,
            slot=max(campaign.slot(self._at), 0),
            prices=found.prices,
            tie_share=tie_share,
            status="optimal",
            primal=found.primal + fixed.value,
            dual=found.dual + fixed.value,
            gap=found.gap,
            violation=found.violation,
            spent=self._money.spent,
            remaining=round(self._money.left),
            sample_rows=n,
            model_version=model_version,
            solved_at=now,
            expires_at=now + timedelta(hours=campaign.price_ttl_hours),
            expected=float(n),
            plan=(0.0, spend if self.by_hold else self.ratio.value * spend),
            arrivals=(0.0, float(n)),
            seconds=(now - begun).total_seconds(),
            spend_ratio=self.ratio.value,
        ).sealed()

    def rows(self, record: PriceRecord) -> Iterator[pa.Table]:
        """Yield the decisions of the accounts at the price that was solved, in parts of the columns ``PLAN``."""
        policy = Policy(self._counted, self._coverage, record.of(self.campaign.priced), record.tie_share)
        for side, mine in self._sides.items():
            for part in self._parts(side):
                known = mine.known[part.rows][part.eligible.rows]
                decided = policy.answer(part.eligible, part.curves, part.asked_ids, part.treated, known)
                yield rows_of(
                    self.campaign,
                    mine.account_id[part.rows],
                    part.ids,
                    part.eligible,
                    part.curves,
                    self._with_capped(policy, part, decided),
                    (part.arm, part.capped),
                    record,
                )

    def _with_capped(self, policy: Policy, part: Asked, decided: Decided) -> Decided:
        """Return the decisions with the reason ``capped`` of accounts that would get a level beyond a cap."""
        if part.beyond is None or not part.beyond.any():
            return decided
        able, treated = part.eligible, part.treated
        allowed = np.ones_like(part.beyond) if able.allowed is None else able.allowed
        without = policy.choices(able._replace(allowed=allowed | part.beyond), part.curves, treated)
        wanted = without.decide(policy.prices, policy.tie_share, part.asked_ids, treated.exploration).level
        capped = part.beyond[wanted, np.arange(wanted.size)]
        return replace(decided, reasons=np.where(capped & ~treated.held, "capped", decided.reasons))

    def _parts(self, side: Side) -> Iterator[Asked]:
        """Yield the accounts of a side in parts, with the levels that they may be given, and their arms."""
        mine, campaign = self._sides[side], self._counted
        policy, lifted = Policy(campaign, self._coverage, (), 0.0), self._lifted.get(side, {})
        for rows in mine.slices:
            names = Names(mine.account_id[rows])
            asked = SideRequests(side, names)
            within = within_caps(self.campaign, side, names, self._money.caps)
            eligible, beyond = policy.eligible(asked, within), None
            capped = np.zeros(len(names), dtype=np.bool_)
            if within is not None:
                by_rule = self._coverage.allowed(asked)
                beyond = ~within if by_rule is None else by_rule & ~within
                capped |= beyond.any(axis=0)
                capped[eligible.rows] = False
                beyond = beyond[:, eligible.rows]
            n = len(names)
            treated, _ = treated_in(campaign, names, [""] * n, [self._at] * n, self._groups)
            curves, arm = mine.curves.between(rows), treated.arm
            if len(eligible.rows) < len(names):
                curves, treated = curves.take(eligible.rows), treated.take(eligible.rows)
            for place, level in lifted.items():
                # No other level is allowed to it, so that the rule chooses this one.
                if rows.start <= place < rows.stop:
                    only = (
                        np.ones(curves.response.shape, dtype=np.bool_) if eligible.allowed is None else eligible.allowed
                    )
                    only[:, np.searchsorted(eligible.rows, place - rows.start)] = np.arange(len(only)) == level
                    eligible = eligible._replace(allowed=only)
            yield Asked(rows, names, eligible, capped, beyond, arm, treated, curves, (campaign.name, self.name))

    def _free(self, side: Side, fixed: Fixed) -> Curves:
        """Return the marked curves of the accounts whose level the price chooses; ``fixed`` gets what the others take.

        They are not copied where the price chooses for all accounts.
        """
        curves, kept = self._sides[side].curves, []
        bits: list[NDArray[np.uint32]] = []
        allowed: list[NDArray[np.bool_]] = []
        worth: list[NDArray[np.float64]] = []
        influence: list[NDArray[np.float64]] = []
        policy = Policy(self._counted, self._coverage, np.zeros(len(self._counted.priced)).tolist(), 0.0)
        for part in self._parts(side):
            eligible, treated = part.eligible, part.treated
            free = np.ones(len(eligible.rows), dtype=np.bool_)
            if treated.held.any() or treated.exploration.any():
                decided = policy.answer(eligible, part.curves, part.asked_ids, treated)
                level = decided.decision.level
                free = ~(decided.decision.explored | treated.held)
                cost = self._counted.terms(side).cost(part.curves.response, part.curves.amounts)
                fixed.taken = fixed.taken + self._taken(decided.choices, level)[:, ~free].sum(axis=1)
                fixed.cost += float(pick(cost, level)[~free].sum())
                fixed.value += float(pick(decided.choices.value, level)[~free].sum())
            kept.append(part.rows.start + eligible.rows[free])
            if self._coverage.budgets:
                bits.append(self._coverage.bits(eligible.requests)[free])
            if eligible.allowed is not None:
                allowed.append(eligible.allowed[:, free])
            own = self._coverage.worth(eligible.requests, part.curves.amounts)
            if own is not None:
                worth.append(own[..., free])
            if (passed_on := self._coverage.influence(eligible.requests)) is not None:
                influence.append(passed_on[free])
        index = np.concatenate(kept)
        masks = any(mask.size and not mask.all() for mask in allowed)
        return Curves(
            curves.levels,
            curves.response if index.size == curves.accounts else curves.response[:, index],
            bits=np.concatenate(bits) if bits else None,
            allowed=np.concatenate(allowed, axis=1) if masks else None,
            worth=np.concatenate(worth, axis=-1) if worth else None,
            amounts=None if curves.amounts is None else curves.amounts[..., index],
            guards=curves.guards,
            influence=np.concatenate(influence) if influence else None,
        )

    def _round(self, prices: Mapping[str, float], share: float, limits: NDArray[np.float64], of: int) -> float:
        """Choose the accounts that take the rest of the money; return the share of those that tie.

        Args:
            prices: that were solved.
            share: of accounts that tie, which the optimum gives the dearer level.
            limits: (K,), minor units of each priced budget for the accounts that the price chooses for.
            of: place of the budget whose rest is used.
        """
        at, spent, tied = [prices[name] for name in self._counted.priced], np.zeros_like(limits), Tied()
        policy = Policy(self._counted, self._coverage, at, 0.0)
        for side in self._sides:
            for part in self._parts(side):
                choices = policy.choices(part.eligible, part.curves, part.treated)
                chosen = choices.decide(at, 0.0, part.asked_ids, part.treated.exploration)
                free = ~(chosen.explored | part.treated.held)
                spent += self._taken(choices, chosen.level)[:, free].sum(axis=1)
                tied.add(choices, chosen, part.asked_ids, free)
        tie_share, paid = share_that_fits(share, limits - spent, tied)
        rest = Rest(limits - spent - paid, self._counted.least_return, of)
        for side in self._sides:
            for part, _ in zip(self._parts(side), range(SEARCHED), strict=False):
                choices = policy.choices(part.eligible, part.curves, part.treated)
                chosen = choices.decide(at, tie_share, part.asked_ids, part.treated.exploration)
                free = ~(chosen.explored | chosen.tied | part.treated.held)
                rest.add(side, part.rows.start, choices, at, chosen.level, part.eligible.rows, free)
        self._lifted = rest.levels()
        return tie_share

    def _taken(self, choices: Choices, level: NDArray[np.int32]) -> NDArray[np.float64]:
        """(K, m): what the chosen levels take of each priced budget, less what an account earns of a mean."""
        taken = np.stack([pick(charge, level) for charge in np.asarray(choices.charges)])
        budgets: tuple[Budget | GroupBudget, ...] = (self._counted.budget, *self._counted.group_budgets)
        for place, budget in enumerate(budgets):
            if budget.form == "per_account":
                counts = 1 if not place or choices.bits is None else choices.bits >> np.uint32(place - 1) & np.uint32(1)
                taken[place] -= budget.limit * counts
        return taken
