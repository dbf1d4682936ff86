"""A limit on a second outcome: the program with one row more, by HiGHS, and the decision at its prices."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import optimize
from scipy.sparse import csr_matrix

from operations.measure import nothing_spent
from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.limits import Asked, GroupBudget, Limits
from shadowprice.limits.usage import Usage
from shadowprice.lists.money import counted_by_hold
from shadowprice.pacing.budgets.in_hand import expected_sum
from shadowprice.pacing.budgets.kept import outcome_remarks
from shadowprice.pacing.budgets.periods import bending, parts_of
from shadowprice.pacing.questions import Change
from shadowprice.pacing.resolve import CampaignState
from shadowprice.pacing.spend import CapUse
from shadowprice.pacing.what_if import WhatIf
from shadowprice.pacing.window import solve_window, undivided
from shadowprice.policy import Choices
from shadowprice.price import PriceRecord
from shadowprice.reports.prices import day_page

LEVELS, COMPLAINTS = (0, 100, 200, 400), np.array([0.01, 0.02, 0.03, 0.09])
GUARD = GroupBudget(name="calm", limit=0.022, form="per_account", outcome="x_complaints")
SOME = replace(GUARD, name="north", limit=0.022, where='account.c_region == "north"')
SUMS = (replace(GUARD, form="total", limit=10.5), replace(SOME, form="total", limit=5.4))


def campaign_with(*budgets: GroupBudget, limit: int = 9000) -> Campaign:
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=LEVELS)},
        budget=Budget(limit=limit),
        starts_at=datetime(2026, 3, 2, tzinfo=UTC),
        limits=Limits(budgets=budgets),
    )


def curves_with(seed: int = 0, accounts: int = 40) -> dict[Side, Curves]:
    rng = np.random.default_rng(seed)
    made: dict[Side, Curves] = {}
    for side, guard in (("customer", COMPLAINTS), ("merchant", COMPLAINTS[::-1].copy())):
        response = np.cumsum(rng.gamma(1.0, 0.07, (len(LEVELS), accounts)), axis=0).clip(max=0.95)
        bits = (1 + 2 * (np.arange(accounts) % 2)).astype(np.uint32)
        made[side] = Curves(np.array(LEVELS), response, bits=bits, guards={"x_complaints": guard})
    return made


def program(
    campaign: Campaign, curves: dict[Side, Curves], ahead: dict[Side, float], left: float
) -> tuple[float, list[float], list[float]]:
    """Value, used amounts of each row and prices by HiGHS, from the definitions."""
    value, money, units = [], [], [[] for _ in campaign.limits.budgets]
    for side, mine in curves.items():
        times, response = ahead[side] / mine.accounts, mine.response.astype(np.float64)
        value.append(times * response)
        money.append(times * response * np.array(LEVELS)[:, None])
        for place, each in enumerate(campaign.limits.budgets):
            inside = (mine.bits >> np.uint32(place) & 1).astype(float)
            net = mine.guards["x_complaints"][:, None] - (each.limit if each.form == "per_account" else 0.0)
            units[place].append(times * inside * np.broadcast_to(net, response.shape))
    columns = sum(part.shape[1] for part in value)
    matrix = np.array([np.concatenate(part, axis=1).ravel() for part in (money, *units)])
    account = np.tile(np.arange(columns), len(LEVELS))
    equal = csr_matrix((np.ones(account.size), (account, np.arange(account.size))))
    upper = [left, *(0.0 if each.form == "per_account" else each.limit for each in campaign.limits.budgets)]
    gain = np.concatenate(value, axis=1).ravel()
    solved = optimize.linprog(-gain, matrix, upper, equal, np.ones(columns), bounds=(0, 1), method="highs")
    assert solved.status == 0, solved.message
    return -solved.fun, (matrix @ solved.x).tolist(), (-solved.ineqlin.marginals).tolist()


def dual_at(
    prices: Mapping[str, float],
    campaign: Campaign,
    curves: dict[Side, Curves],
    ahead: dict[Side, float],
    left: float,
) -> float:
    """Upper bound on the value at some prices, from the definition."""
    total = prices["budget"] * left
    for side, mine in curves.items():
        score = mine.response.astype(np.float64) * (1 - prices["budget"] * np.array(LEVELS)[:, None])
        for place, each in enumerate(campaign.limits.budgets):
            inside = mine.bits >> np.uint32(place) & 1
            mean = each.form == "per_account"
            score -= prices[each.name] * inside * (mine.guards["x_complaints"][:, None] - mean * each.limit)
        total += ahead[side] / mine.accounts * score.max(axis=0).sum()
    return float(total)


@pytest.mark.parametrize("seed", range(4))
def test_limits_on_the_sum_of_an_outcome_are_rows_of_the_linear_program(seed: int) -> None:
    """The plain campaign has 13 to 14 complaints among 500 requests; 6 to 8 of them in the north."""
    campaign, curves = campaign_with(*SUMS), curves_with(seed)
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 200.0}
    plain = solve_window(campaign_with(*(replace(each, limit=1e6) for each in SUMS)), curves, ahead, 9000.0)
    assert sum(plain.spend_of["calm"].values()) > 1.15 * SUMS[0].limit
    found = solve_window(campaign, curves, ahead, 9000.0)
    value, used, prices = program(campaign, curves, ahead, 9000.0)
    assert found.primal == pytest.approx(value, rel=1e-8)
    assert found.dual == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(found.allocation.spend, used, rtol=1e-6)
    assert used[1] == pytest.approx(SUMS[0].limit)
    bound = dual_at(found.prices, campaign, curves, ahead, 9000.0)
    bound += sum(found.prices[each.name] * each.limit for each in SUMS)
    assert bound == pytest.approx(value, rel=1e-8)
    assert found.prices["calm"] == pytest.approx(prices[1], rel=1e-5)


def test_the_sum_over_all_requests_is_their_mean_times_their_number() -> None:
    curves, ahead = curves_with(), {"customer": 300.0, "merchant": 200.0}
    mean = solve_window(campaign_with(GUARD), curves, ahead, 9000.0)  # type: ignore[arg-type]
    total = solve_window(campaign_with(replace(GUARD, form="total", limit=500 * GUARD.limit)), curves, ahead, 9000.0)  # type: ignore[arg-type]
    assert total.prices["calm"] == pytest.approx(mean.prices["calm"], rel=1e-6)
    assert total.primal == pytest.approx(mean.primal, rel=1e-8)


def test_each_period_has_its_sum_and_its_price() -> None:
    hourly = replace(GUARD, form="total", limit=4.5, period="hour")
    campaign, curves = replace(campaign_with(hourly), hours=3), {"customer": curves_with()["customer"]}
    remaining: dict[Side, np.ndarray] = {"customer": np.array([300.0, 100.0, 200.0])}
    parts, rows = parts_of(campaign, remaining, 0, {"calm": 3.5})
    assert [row.in_hand for row in rows] == [3.5, 4.5, 4.5]
    found = solve_window(campaign, curves, {"customer": 600.0}, 20_000.0, parts, rows)
    response = curves["customer"].response.astype(np.float64)
    times = remaining["customer"][:, None, None] / response.shape[1]
    value, money = times * response, times * response * np.array(LEVELS)[:, None]
    units = times * np.broadcast_to(COMPLAINTS[:, None], response.shape)
    matrix = np.zeros((4, value.size))
    matrix[0] = money.ravel()
    for hour in range(3):
        matrix[1 + hour] = (units * (np.arange(3) == hour)[:, None, None]).ravel()
    hours, _, account = np.indices(value.shape)
    column = (hours * response.shape[1] + account).ravel()
    equal = csr_matrix((np.ones(column.size), (column, np.arange(column.size))))
    exact = optimize.linprog(
        -value.ravel(), matrix, [2e4, 3.5, 4.5, 4.5], equal, np.ones(column.max() + 1), bounds=(0, 1), method="highs"
    )
    assert found.primal == pytest.approx(-exact.fun, rel=1e-8)
    own = [found.prices["budget"], *(found.prices[row.name] for row in rows)]
    np.testing.assert_allclose(own, -exact.ineqlin.marginals, rtol=1e-4, atol=1e-8)
    assert own[1] > own[3] > own[2] > own[0] == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_limit_of_an_outcome_is_one_more_row_of_the_linear_program(seed: int) -> None:
    campaign, curves = campaign_with(GUARD, SOME), curves_with(seed)
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 200.0}
    found = solve_window(campaign, curves, ahead, 9000.0)
    value, used, prices = program(campaign, curves, ahead, 9000.0)
    assert found.primal == pytest.approx(value, rel=1e-8)
    assert found.dual == pytest.approx(value, rel=1e-8)
    limits, counted = np.array([0.0, GUARD.limit, SOME.limit]), np.array([0.0, 500.0, 250.0])
    np.testing.assert_allclose(found.allocation.spend, used + limits * counted, rtol=1e-6)
    assert dual_at(found.prices, campaign, curves, ahead, 9000.0) == pytest.approx(value, rel=1e-8)
    # Seed 1 has more than one optimal price of the smaller group.
    for mine, theirs in zip(campaign.priced, prices, strict=True):
        assert found.prices[mine] == pytest.approx(theirs, rel=0.1 if seed == 1 else 1e-5, abs=1e-8), mine
    assert found.prices["calm"] > 0
    assert (found.prices["north"] > 0) == (seed < 2)
    # The expected sum is in units of the outcome, of whole accounts: those at a tie differ by one column each.
    for name, net, limit, requests in zip(campaign.priced[1:], used[1:], limits[1:], counted[1:], strict=True):
        of_column = np.ptp(COMPLAINTS) * max(ahead.values()) / 40
        assert sum(found.spend_of[name].values()) == pytest.approx(net + limit * requests, abs=3 * of_column)


def test_requests_that_explore_and_are_held_count_towards_the_limit() -> None:
    plain, curves = campaign_with(replace(GUARD, limit=0.03)), curves_with()
    arms = (Arm(name="policy", kind="policy", share=7000), Arm(name="held", kind="holdout", share=3000))
    campaign = replace(plain, exploration=0.1, experiment=Experiment(arms=arms, salt="spring"))
    found = solve_window(campaign, curves, {"customer": 100.0, "merchant": 100.0}, 9000.0)
    assert sum(found.spend_of["calm"].values()) == pytest.approx(0.03 * 200, abs=3 * np.ptp(COMPLAINTS) * 2.5)
    assert found.prices["calm"] > 0


def test_a_decision_pays_the_prices_of_money_and_of_the_outcome() -> None:
    campaign, curves = campaign_with(GUARD, SOME), curves_with()["customer"]
    prices = [0.0007, 0.9, 0.5]
    chosen = Choices.marked(campaign, "customer", curves).decide(prices, 0.5, range(curves.accounts)).level
    response = curves.response.astype(np.float64)
    north = np.arange(curves.accounts) % 2
    score = response * (1 - prices[0] * np.array(LEVELS)[:, None])
    score -= COMPLAINTS[:, None] * (prices[1] + prices[2] * north)
    assert chosen.tolist() == score.argmax(axis=0).tolist()
    assert len(set(chosen.tolist())) > 1


def test_a_limit_below_the_least_outcome_is_refused_with_what_is_possible() -> None:
    with pytest.raises(NotCertified, match=r"'calm' allows 0.005 x_complaints a request.*have 0.01; raise the limit"):
        solve_window(campaign_with(replace(GUARD, limit=0.005)), curves_with(), {"customer": 9.0, "merchant": 9.0}, 9e3)


def test_what_is_expected_and_the_least_are_those_of_the_levels_given_with_bounds_by_the_same_weights() -> None:
    arms = (Arm(name="policy", kind="policy", share=8000), Arm(name="held", kind="holdout", share=2000))
    both = replace(SOME, name="north", limit=0.04)
    campaign = campaign_with(replace(GUARD, limit=0.045), both, replace(SUMS[0], name="sum", limit=30.0))
    campaign = replace(campaign, exploration=0.1, experiment=Experiment(arms=arms, salt="spring"))
    rng, ahead = np.random.default_rng(3), {"customer": 300.0, "merchant": 200.0}
    curves: dict[Side, Curves] = {}
    for side, mine in curves_with().items():
        allowed = rng.random(mine.response.shape) < 0.7
        allowed[rng.integers(0, 4, mine.accounts), np.arange(mine.accounts)] = True
        curves[side] = replace(mine, allowed=allowed, bits=mine.bits | np.uint32(4))
    around = {side: mine.guards["x_complaints"] * [[0.6], [1.7]] for side, mine in curves.items()}
    around["merchant"] = around["merchant"][:, ::-1].copy()  # the bounds have their least at another level
    parts, rows = undivided(campaign, ahead)
    rows = bending(rows, nothing_spent(campaign), {side: {"x_complaints": own} for side, own in around.items()})
    found = solve_window(campaign, curves, ahead, 9e3, parts, rows)
    shares, start = campaign.answer_shares, 0
    sums, counted = {row.name: np.zeros((2, 3)) for row in rows}, dict.fromkeys((row.name for row in rows), 0.0)
    for side, mine in curves.items():
        level, times = found.allocation.level[start : start + 40].astype(int), ahead[side] / 40
        start += 40
        for which, means in enumerate((mine.guards["x_complaints"], *around[side])):
            for account in range(40):
                able = mine.allowed[:, account]
                other = shares.drawn * np.average(means[able], weights=campaign.draw_weights(side)[able])
                other += shares.held * means[able.argmax()]
                for place, row in enumerate(rows):
                    if mine.bits[account] >> place & 1:
                        own = np.array([means[level[account]], means[able].min()])
                        sums[row.name][:, which] += times * (shares.chosen * own + other)
                        counted[row.name] += times * (which == 0)
    for name in ("calm", "north", "sum"):
        truth = sums[name] / (1.0 if name == "sum" else counted[name])
        np.testing.assert_allclose([found.outcomes[name].expected, found.outcomes[name].least], truth, rtol=1e-12)
    assert not solve_window(campaign, curves, ahead, 9e3).outcomes
    half = bending(rows, nothing_spent(campaign), {"customer": {"x_complaints": around["customer"]}})
    assert not solve_window(campaign, curves, ahead, 9e3, parts, half).outcomes


def test_a_mean_is_refused_where_highs_finds_no_choice_and_never_else() -> None:
    refused = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        guard = rng.uniform(0.01, 0.03, 4)
        curves = {"customer": replace(curves_with(seed)["customer"], guards={"x_complaints": guard})}
        limit = float(rng.uniform(0.008, 0.02))
        response = curves["customer"].response.astype(float)
        account = np.tile(np.arange(40), 4)
        equal = csr_matrix((np.ones(160), (account, np.arange(160))))
        means = np.repeat(guard, 40) / 40
        cost = (response * np.array(LEVELS)[:, None]).ravel()
        upper = [means, cost]
        exact = optimize.linprog(-response.ravel(), upper, [limit, 1e6], equal, np.ones(40), bounds=(0, 1))
        told = pytest.raises(NotCertified, match=f"have {guard.min():.4g}; raise") if exact.status else nullcontext()
        with told:
            solve_window(campaign_with(replace(GUARD, limit=limit)), curves, {"customer": 40.0}, 1e6)
        refused += exact.status == 2
    assert 5 < refused < 35


@pytest.mark.parametrize(("limit", "open_"), [(0.005, False), (0.008, True)])
def test_a_refusal_tells_the_interval_of_the_least(limit: float, open_: bool) -> None:
    campaign, curves = campaign_with(replace(GUARD, limit=limit)), {"customer": curves_with()["customer"]}
    parts, rows = undivided(campaign, curves)
    bounds = {"customer": {"x_complaints": COMPLAINTS * [[0.7], [1.3]]}}
    rows = bending(rows, nothing_spent(campaign), bounds)
    said = "the rows leave this open: " if open_ else ""
    with pytest.raises(NotCertified, match=rf"raise the limit \({said}the 95 % interval .* is 0.007 to 0.013\)"):
        solve_window(campaign, curves, {"customer": 9.0}, 9e3, parts, rows)


@pytest.mark.parametrize(("limit", "doubtful"), [(0.012, True), (0.02, False)])
def test_the_first_price_doubts_a_limit_within_the_interval_of_the_least(limit: float, doubtful: bool) -> None:
    campaign, curves = campaign_with(replace(GUARD, limit=limit), limit=10**6), curves_with()
    bounds = {side: {"x_complaints": mine.guards["x_complaints"] * [[0.7], [1.3]]} for side, mine in curves.items()}
    state = CampaignState(
        campaign=campaign,
        at=0.0,
        slot_and_step=(0, 0),
        spend=nothing_spent(campaign),
        remaining=dict.fromkeys(campaign.sides, np.array([40.0])),
        curves=lambda: curves,
        newest=None,
        version=1,
        model_version="m",
        now=datetime.now(UTC),
        outcome_bounds=bounds,
    )
    record = PriceRecord.from_json(state.solve().record.to_json())
    assert record.outcomes["calm"].expected[0] == pytest.approx(limit, rel=1e-6)
    assert record.outcomes["calm"].least == pytest.approx((0.01, 0.007, 0.013))
    doubt = "; the limit may not be attainable: the least is 0.01 [0.007, 0.013]" if doubtful else ""
    value, low, high = record.outcomes["calm"].expected
    said = f"allowed {limit}, expected {value:.3g} with 95 % interval [{low:.3g}, {high:.3g}]"
    assert outcome_remarks(record, campaign) == [f"x_complaints a request, limit 'calm': {said}{doubt}"]
    assert said in day_page(campaign, [record])


def test_a_sum_below_the_least_is_refused_with_what_is_possible_unless_the_campaign_runs() -> None:
    campaign, curves = campaign_with(replace(SUMS[0], limit=3.0)), curves_with()
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 200.0}
    message = r"'calm' allows 3 x_complaints for the requests to come.*least of it.*have 5; raise the limit"
    with pytest.raises(NotCertified, match=message):
        solve_window(campaign, curves, ahead, 9e3)
    arms = (Arm(name="policy", kind="policy", share=5000), Arm(name="held", kind="holdout", share=5000))
    held = replace(campaign, experiment=Experiment(arms=arms, salt="spring"))
    # Half of the customers is held at 0.01, half of the merchants at 0.09: 1.5 + 9, and 2.5 at the least of the others.
    with pytest.raises(NotCertified, match="have 13; raise"):
        solve_window(held, curves, ahead, 9e3)
    row = Row("calm", campaign.group_budgets[0], 3.0, bends=True)
    part = Part({"customer": 1.0, "merchant": 1.0}, {"calm": 0})
    rich = solve_window(campaign, curves, ahead, 9e5, [part], [row])
    assert rich.allocation.spend[1] == pytest.approx(5.0, rel=1e-4)
    # The money pays for no such choice: the sum is near the least that it pays for.
    found = solve_window(campaign, curves, ahead, 9e3, [part], [row])
    cost = np.concatenate(
        [ahead[side] / 40 * mine.response * np.array(LEVELS)[:, None] for side, mine in curves.items()], 1
    )
    units = np.repeat([7.5 * COMPLAINTS, 5.0 * COMPLAINTS[::-1]], 40, axis=0).T
    account = np.tile(np.arange(80), len(LEVELS))
    equal = csr_matrix((np.ones(account.size), (account, np.arange(account.size))))
    exact = optimize.linprog(units.ravel(), [cost.ravel()], [9e3], equal, np.ones(80), bounds=(0, 1), method="highs")
    assert exact.fun <= found.allocation.spend[1] <= exact.fun + (units[0].sum() - 5.0) / 64 + 1e-3
    assert found.allocation.status == "optimal"
    assert found.allocation.spend[0] <= 9e3 * (1 + 1e-6)
    strict = campaign_with(replace(SUMS[0], limit=5.5))
    with pytest.raises(NotCertified, match="the money in hand pays for no choice of levels that keeps 'calm'"):
        solve_window(strict, curves, ahead, 9e3)


def test_a_question_about_another_sum_is_the_solve_of_it_and_an_impossible_one_is_told() -> None:
    campaign, curves = campaign_with(SUMS[0]), curves_with()
    ahead: dict[Side, float] = {"customer": 300.0, "merchant": 200.0}
    asked = WhatIf(campaign, curves, ahead, rows=0)
    for limit in (None, 0.5, 12.5):
        found = asked.ask(None if limit is None else Change(limits={"calm": limit}))
        if limit == 0.5:
            assert found.status == "infeasible"
            continue
        other = campaign_with(SUMS[0] if limit is None else replace(SUMS[0], limit=limit))
        assert found.prices == pytest.approx(solve_window(other, curves, ahead, 9000.0).prices, rel=1e-9)
        assert found.prices["calm"] > 0


def test_the_sum_so_far_is_that_of_the_levels_that_were_given() -> None:
    (budget,), curves = campaign_with(SUMS[0]).group_budgets, curves_with()
    own = {"customer|0": 40, "customer|3": 10, "merchant|1": 20, "customer|-1": 7}
    spend = nothing_spent(campaign_with())
    spend = replace(spend, caps={"calm": CapUse.of({name: Usage(0, uses) for name, uses in own.items()}, {})})
    assert expected_sum(budget, spend, curves) == pytest.approx(40 * 0.01 + 10 * 0.09 + 20 * 0.03)
    customers = replace(budget, side="customer")
    del own["merchant|1"]
    counted = {"calm": CapUse.of({name: Usage(0, uses) for name, uses in own.items()}, {})}
    assert expected_sum(customers, replace(spend, caps=counted), curves) == pytest.approx(1.3)
    with pytest.raises(NotCertified, match="counted requests of a side that the model has no accounts of"):
        expected_sum(budget, spend, {"customer": curves["customer"]})
    with pytest.raises(NotCertified, match="no levels counted by limit 'calm'; upgrade the ledger"):
        expected_sum(budget, replace(spend, caps={}), curves)


def test_a_limit_without_its_outcome_is_refused_and_one_of_another_side_is_not() -> None:
    campaign, bare = campaign_with(GUARD), replace(curves_with()["customer"], guards={})
    with pytest.raises(InvalidInput, match="of side 'customer' is not known, and limit 'calm' needs it"):
        Choices.marked(campaign, "customer", bare)
    with pytest.raises(InvalidInput, match="'calm' needs it"):
        solve_window(campaign, {"customer": bare}, {"customer": 9.0}, 9e3)
    other = campaign_with(replace(GUARD, side="merchant"))
    assert not Choices.marked(other, "customer", bare).charges[1].any()


def test_the_ledger_counts_money_alone_and_a_list_still_counts_the_held_amounts() -> None:
    asked = Asked("ada", "customer", "", "unassigned")
    assert campaign_with(GUARD).limits.sums(asked, datetime(2026, 3, 2, tzinfo=UTC)) == ()
    assert GUARD.bound.most_amount is SUMS[0].bound.most_amount is None
    assert campaign_with(*SUMS).limits.sums(asked, datetime(2026, 3, 2, tzinfo=UTC)) == ()
    assert counted_by_hold(campaign_with(GUARD)).sides["customer"].cost_basis == "on_grant"
    mean = GroupBudget(name="mean", limit=20.0, form="per_account")
    assert counted_by_hold(campaign_with(mean)).sides["customer"].cost_basis == "on_response"


def test_a_campaign_keeps_its_limit_in_its_file_and_one_of_money_has_the_file_that_it_always_had() -> None:
    campaign = campaign_with(GUARD, GroupBudget(name="mean", limit=20.0, form="per_account"))
    written = campaign.to_dict()["limits"]["budgets"]
    assert written[0]["outcome"] == "x_complaints"
    assert written[1] == {"name": "mean", "limit": 20.0, "form": "per_account"}
    assert Campaign.from_dict(campaign.to_dict()) == campaign


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": "complaints"}, "must be a column of numbers of the outcomes"),
        ({"outcome": 3}, "must be a column of numbers of the outcomes"),
        ({"form": "per_response"}, "set form to total .a sum. or per_account .a mean."),
        ({"form": "total", "limit": -0.5}, "must be an amount of the outcome, got -0.5"),
        ({"form": "total", "arm": "policy"}, "leave sense, arm and campaigns out"),
        ({"form": "total", "sense": "at_least"}, "an upper limit of one campaign and of every arm"),
        ({"form": "total", "period": "day", "rolls_over": True}, "true only of a total at_most"),
        ({"period": "day"}, "or set form to total to limit the sum of a period"),
        ({"campaigns": ("spring", "fall")}, "leave sense, arm and campaigns out"),
        ({"sense": "at_least"}, "an upper limit"),
    ],
)
def test_other_limits_of_an_outcome_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(GUARD, **change)  # type: ignore[arg-type]
