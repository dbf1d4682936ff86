"""The rest of a campaign's window as one allocation problem, with what exploration and holdouts take set aside."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation import Allocation, solve
from shadowprice.allocation.executors import Executor
from shadowprice.allocation.population.source import Arrays
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.allocation.sources.rows import Money, Part, Row, members_of
from shadowprice.campaign import AnswerShares, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.pacing.budgets.given import given, without_a_price
from shadowprice.pacing.budgets.guards import SLACK, beside_money, check_guards, stated
from shadowprice.pacing.budgets.periods import whole_limit
from shadowprice.price import ExpectedOutcome

IN_MEMORY = 1 << 18
"""Up to this many accounts the matrices of the problem are made once; of more they are made at each pass."""


@dataclass(frozen=True)
class WindowSolution:
    """The optimum of the rest of a window.

    allocation  of the requests whose level is chosen, one column for each account, customers first
    primal      value of all requests to come, drawn and held ones included; ``dual`` is its upper bound
    spend       side → expected minor units a request of it costs
    spend_of    row of a further budget → side → expected minor units that its requests cost together; of a second
                outcome its expected sum
    prices      name of each limit → its price: of a further budget that of its present period
    outcomes    limit on a second outcome → what is expected of it, where its rows have bounds
    """

    allocation: Allocation
    primal: float
    dual: float
    spend: Mapping[Side, float]
    spend_of: Mapping[str, Mapping[Side, float]]
    prices: Mapping[str, float]
    outcomes: Mapping[str, ExpectedOutcome] = field(default_factory=dict)


def solve_window(
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    ahead: Mapping[Side, float],
    left: float,
    parts: Sequence[Part] = (),
    rows: Sequence[Row] | None = None,
    *,
    executor: Executor | None = None,
) -> WindowSolution:
    """Maximize the value of the requests to come with ``left`` minor units in hand.

    Args:
        campaign: terms, form of the budget, share of requests that explore, arms.
        curves: side → curves of accounts, each of which makes its share of the requests expected of its side. Accounts
            that rules allow no level cost nothing.
        ahead: side → requests expected; positive for every side of ``curves``.
        left: minor units in hand; what the requests themselves earn of a mean comes on top.
        parts: of the requests by periods (:func:`shadowprice.pacing.budgets.periods.parts_of`); by default one.
        rows: of the further budgets; by default one for each, with its limit in all periods together. A row that does
            not pay for the cheapest levels of its requests counts as if it just did: the hard stop refuses the rest,
            and the others keep their money. A floor above the dearest levels counts as if it were just met. A second
            outcome is refused instead, except a sum whose row bends.
        executor: who holds the accounts; None for this process.

    With exploration and arms each request is chosen, drawn or held at the lowest level with the probabilities
    p, ε and h of :attr:`~shadowprice.campaign.Campaign.answer_shares`, so the choices x are those of

        maximize p·Σ v·x + ε·Σ v̄ + h·Σ v_0   subject to  p·Σ c·x + ε·Σ c̄ + h·Σ c_0 ≤ left

    with v̄ and c̄ the means over the levels by :meth:`~shadowprice.campaign.Campaign.draw_weights`: the problem of chosen
    requests alone, on (left − ε·Σ c̄ − h·Σ c_0)/p.

    The price of the main budget is at least the campaign's ``least_return`` (:meth:`Allocation.with_floor`).

    Memory: the matrices (J, N) in float64 for up to :data:`IN_MEMORY` accounts and parts; for more, or with an
    executor, the curves (which may be mapped from files) and an int32 for each account and part.

    Raises:
        NotCertified: for a total, drawn and held requests alone cost more than the remaining budget; or a second
            outcome exceeds its limit even at the levels with the least of it, or at those that the money pays for.
        InvalidInput: curves of other levels or without a second outcome that is limited, or weights that are no numbers
            of requests.
    """
    shares = campaign.answer_shares
    able = {side: able_accounts(mine) for side, mine in curves.items() if mine.accounts}
    requests = {side: ahead[side] * curves[side].shares() for side in able}
    if rows is None:
        parts, rows = undivided(campaign, requests)
    served = {side: curves[side] for side in able}
    for side, mine in able.items():
        if not mine.all():
            served[side], requests[side] = served[side].take(mine), requests[side][mine]
    window = CampaignProblem(campaign, served, requests, parts)
    other = _Sums()
    if shares.chosen < 1:
        for source in window.sources:
            weights = campaign.draw_weights(source.side)
            for _, arrays in source.tiles(source.names):
                other.add(shares, weights, arrays, campaign.budget.limit, rows)
    in_hand = (left - other.net) / shares.chosen
    if campaign.budget.form == "total" and in_hand < 0 <= left:
        raise NotCertified(
            f"exploring {shares.drawn:.1%} and holding {shares.held:.1%} of the requests to come would cost "
            f"{other.net:.0f} of the {left:.0f} minor units that are left; lower campaign.exploration or an arm's share"
        )
    most = [replace(row, in_hand=(row.in_hand - other.of_row.get(row.name, 0.0)) / shares.chosen) for row in rows]
    guards = [row for row in rows if row.budget.outcome]
    most = possible_rows(most, _tiles_of_totals(window, most))
    check_guards(window, rows, most)
    if least := campaign.least_return:
        window.net_of(least)
    small = executor is None and window.accounts <= IN_MEMORY

    def attempt(tried: Sequence[Row]) -> Allocation:
        window.resources = Money(campaign, in_hand, tried)
        return solve(window.whole() if small else window, executor)

    solved = attempt(most)
    if solved.status == "infeasible" and guards:
        solved = beside_money(window, most, attempt)
    if least:
        solved = solved.with_floor(least)
    spend = dict.fromkeys(served, 0.0)
    spend_of: dict[str, dict[Side, float]] = {row.name: dict.fromkeys(served, 0.0) for row in rows}
    needed = {"cost", "allowed", *map(members_of, spend_of), *(row.budget.outcome for row in guards)}
    for source, place in zip(window.sources, window.places, strict=True):
        weights = campaign.draw_weights(source.side)
        for at, arrays in source.tiles(source.names & needed):
            cost, allowed = arrays["cost"], arrays.get("allowed")
            level = solved.level[place.start + at : place.start + at + cost.shape[1]].astype(np.intp)
            paid = given(shares, cost, level, allowed, weights)
            spend[source.side] += float(paid.sum())
            taken = {row.name: given(shares, row.taken(arrays), level, allowed, weights) for row in guards}
            for name, of_side in spend_of.items():
                of_side[source.side] += float(taken.get(name, paid) @ arrays[members_of(name)])
    names = [campaign.budget.name, *(row.name for row in rows)]
    return WindowSolution(
        solved,
        shares.chosen * solved.primal + other.value,
        shares.chosen * solved.dual + other.value,
        {side: total / ahead[side] for side, total in spend.items()},
        spend_of,
        dict(zip(names, map(float, solved.prices), strict=True)),
        stated(window, rows, solved.level),
    )


@dataclass
class _Sums:
    """Value and cost of drawn and held requests, of all and of each row."""

    value: float = 0.0
    net: float = 0.0
    of_row: dict[str, float] = field(default_factory=dict)

    def add(
        self,
        shares: AnswerShares,
        weights: NDArray[np.float64],
        arrays: Arrays,
        limit: float,
        rows: Sequence[Row],
    ) -> None:
        allowed, earned = arrays.get("allowed"), arrays.get("measure")
        net = arrays["cost"] if earned is None else arrays["cost"] - limit * earned
        self.value += float(without_a_price(shares, arrays["value"], allowed, weights).sum())
        self.net += float(without_a_price(shares, net, allowed, weights).sum())
        for row in rows:
            drawn = float(without_a_price(shares, row.charge(arrays), allowed, weights).sum())
            self.of_row[row.name] = self.of_row.get(row.name, 0.0) + drawn


def able_accounts(curves: Curves) -> NDArray[np.bool_]:
    """Return bool (N,): the accounts that rules allow some level."""
    if curves.allowed is None:
        return np.ones(curves.accounts, dtype=np.bool_)
    return np.asarray(curves.allowed.any(axis=0), dtype=np.bool_)


def undivided(campaign: Campaign, sides: Iterable[Side]) -> tuple[list[Part], list[Row]]:
    """Return one part with all requests, and a row for each further budget with its limit in all periods together."""
    rows = [
        Row(group_budget.name, group_budget, whole_limit(campaign, group_budget))
        for group_budget in campaign.group_budgets
    ]
    return [Part(dict.fromkeys(sides, 1.0), {row.name: place for place, row in enumerate(rows)})], rows


def _tiles_of_totals(window: CampaignProblem, rows: Sequence[Row]) -> Iterator[Arrays]:
    totals = [row for row in rows if row.budget.form == "total"]
    wanted = {"cost", "allowed"}.union(*({members_of(row.name), row.budget.outcome} for row in totals))
    for source in window.sources if totals else ():
        for _, arrays in source.tiles(source.names & wanted):
            yield arrays


def possible_rows(rows: Sequence[Row], tiles: Iterable[Arrays]) -> list[Row]:
    """Return rows whose totals can be met: between the cost of the cheapest and the dearest levels, and a little more.

    The sum of a second outcome stays as it is where it cannot be met, except in a row that bends.

    Args:
        rows: with the money in hand.
        tiles: ``cost``, second outcomes, ``allowed`` and the members of the totals, of some accounts each.
    """
    totals = [row for row in rows if row.budget.form == "total"]
    ends = {row.name: 0.0 for row in totals}
    for arrays in tiles if totals else ():
        allowed = arrays.get("allowed", True)
        found: dict[tuple[str, str], NDArray[np.float64]] = {}
        for row in totals:
            what = row.budget.outcome, row.budget.sense
            if what not in found:
                floor = row.budget.sense == "at_least"
                taken = np.where(allowed, row.taken(arrays), -np.inf if floor else np.inf)
                found[what] = taken.max(axis=0) if floor else taken.min(axis=0)
            ends[row.name] += float(found[what] @ arrays[members_of(row.name)])
    possible = []
    for row in rows:
        amount = row.in_hand
        if row.budget.form == "total" and row.budget.sense == "at_most":
            least = ends[row.name] * (1.0 + SLACK) + SLACK
            if row.bends or not row.budget.outcome or least - amount <= 2 * (SLACK * abs(amount) + SLACK):
                amount = max(amount, least)
        elif row.budget.form == "total":
            amount = max(min(amount, ends[row.name] * (1.0 - SLACK)), 0.0)
        possible.append(replace(row, in_hand=amount))
    return possible


def least_cost(campaign: Campaign, curves: Mapping[Side, Curves], ahead: Mapping[Side, float]) -> float:
    """Return the net minor units of the cheapest way to answer the requests to come; arguments as of the solve."""
    shares, total = campaign.answer_shares, 0.0
    for side, mine in curves.items():
        able = able_accounts(mine)
        few = mine if able.all() else mine.take(able)
        net = campaign.net_cost(side, few.response, amounts=few.amounts)
        lowest = (net if few.allowed is None else np.where(few.allowed, net, np.inf)).min(axis=0)
        drawn = without_a_price(shares, net, few.allowed, campaign.draw_weights(side))
        unit_cost = shares.chosen * lowest + drawn
        total += float(ahead[side] * mine.shares()[able] @ unit_cost)
    return total
