"""What pacing promises, on days with known truth: on budget, near hindsight, better than one static price."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from shadowprice.campaign import Budget
from shadowprice.curves import Curves
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.replay.compare import Setting, attainable, run_policies, score, value_within_budget
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.run import Replay

NOON = {12: 2.0}
SEEDS = range(4)
each_day = pytest.mark.parametrize(("seed", "shock"), [(0, False), *((seed, True) for seed in SEEDS)])
Ran = tuple[Setting, dict[str, Replay], pd.DataFrame]


@pytest.fixture(scope="module")
def ran() -> Callable[..., Ran]:
    """Runs of a day, kept: several tests look at the same one."""
    kept: dict[tuple[object, ...], Ran] = {}

    def run(make_setting: Callable[..., Setting], seed: int, shock: bool, **changes: object) -> Ran:
        key = (seed, shock, *sorted(changes.items()))
        if key not in kept:
            setting = make_setting(seed, shock=NOON if shock else None, **({"requests": 30_000} | changes))
            runs = run_policies(setting, batch=512)
            kept[key] = (setting, runs, score(setting.campaign, runs))
        return kept[key]

    return run


@each_day
def test_hourly_prices_end_on_budget_and_overspend_less_than_one_hours_forecast_error(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran], seed: int, shock: bool
) -> None:
    _, runs, table = ran(make_setting, seed, shock)
    hourly, slots = table.loc["hourly"], runs["hourly"].slots
    assert hourly["spend"] == pytest.approx(hourly["allowance"], rel=5e-3)
    assert slots["updated"].all()
    last = slots.iloc[-1]
    assert hourly["overspend"] <= max(last["spend"] - last["planned"], 0) + 1
    assert (slots["gap"].abs() < 1e-9).all()
    assert (slots["violation"] < 1e-9).all()


@each_day
def test_hourly_prices_bring_98_percent_of_hindsight(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran], seed: int, shock: bool
) -> None:
    _, _, table = ran(make_setting, seed, shock)
    assert table.loc["hourly", "share_of_hindsight"] >= 0.98
    assert table.loc["hourly", "value_within_budget"] >= 0.98 * table.loc["hindsight", "value_within_budget"]


def test_a_static_price_does_visibly_worse_under_a_doubled_noon(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran]
) -> None:
    ahead = []
    for seed in SEEDS:
        _, _, table = ran(make_setting, seed, True)
        share = table["share_of_hindsight"]
        ahead.append(share["hourly"] - share["static"])
        assert table.loc["static", "overspend"] > 0.05 * table.loc["static", "allowance"]
    interval = stats.t.interval(0.95, len(ahead) - 1, np.mean(ahead), stats.sem(ahead))
    assert interval[0] > 0.03


def test_hindsight_is_the_linear_programs_optimum_on_the_days_own_requests(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran]
) -> None:
    _, runs, table = ran(make_setting, 0, False)
    hindsight = table.loc["hindsight"]
    # The policy realizes the tie share by a hash, so it is off by at most a few tied requests.
    assert hindsight["expected_spend"] == pytest.approx(hindsight["allowance"], rel=1e-3)
    assert runs["hindsight"].slots["price"].nunique() == 1
    solved = runs["hindsight"].outcomes
    weight = np.where(solved.side == "merchant", 0.5, 1.0)
    assert hindsight["expected_value"] == pytest.approx((weight * solved.expected_response).sum())
    # No other policy that spends as much in the mean brings more in the mean.
    price = runs["hindsight"].slots["price"][0]
    for name in ("hourly", "static"):
        other = table.loc[name]
        extra = price * (other["expected_spend"] - hindsight["expected_spend"])
        assert other["expected_value"] <= hindsight["expected_value"] + extra + 1e-3 * hindsight["expected_value"]


def test_every_policy_meets_the_same_requests_with_the_same_luck(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran]
) -> None:
    _, runs, _ = ran(make_setting, 0, True)
    hourly, static = runs["hourly"].outcomes, runs["static"].outcomes
    np.testing.assert_array_equal(hourly.request_id, static.request_id)
    same = hourly.level == static.level
    assert 0.3 < same.mean() < 1
    np.testing.assert_array_equal(hourly.response[same], static.response[same])


@pytest.mark.parametrize("form", ["per_account", "per_response"])
@pytest.mark.parametrize("shock", [False, True])
def test_averages_are_paced_as_well_as_totals(
    make_setting: Callable[..., Setting], ran: Callable[..., Ran], form: str, shock: bool
) -> None:
    _, _, table = ran(make_setting, 0, shock, form=form, requests=12_000)
    hourly = table.loc["hourly"]
    assert hourly["spend"] == pytest.approx(hourly["allowance"], rel=5e-3)
    assert hourly["share_of_hindsight"] >= 0.98


def test_a_wrong_model_costs_value_that_pacing_cannot_win_back(make_setting: Callable[..., Setting]) -> None:
    perfect = make_setting(5, requests=12_000)
    rng = np.random.default_rng(0)
    wrong = {
        side: NamedCurves(
            people.account_id,
            Curves(people.curves.levels, people.curves.response[:, rng.permutation(people.curves.accounts)]),
        )
        for side, people in perfect.outcomes.truth.items()
    }
    setting = replace(perfect, model=wrong)
    table = score(setting.campaign, run_policies(setting))
    assert table.loc["hindsight", "share_of_hindsight"] > 0.98
    assert table.loc["hindsight_model", "share_of_hindsight"] < 0.97
    # It still ends on budget: what is really spent is fed back every hour.
    hourly = table.loc["hourly"]
    assert hourly["spend"] == pytest.approx(hourly["allowance"], rel=1e-2)


def test_once_the_money_is_spent_requests_count_with_the_response_of_the_level_that_costs_nothing(
    make_setting: Callable[..., Setting],
) -> None:
    setting = make_setting(1, requests=2000, shock=NOON)
    runs = run_policies(setting)
    table = score(setting.campaign, runs)
    static, outcomes = table.loc["static"], runs["static"].outcomes
    unpaid = setting.outcomes.draw(setting.day, np.zeros(len(outcomes), dtype=np.int32))
    worth = {side: terms.weight for side, terms in setting.campaign.sides.items()}
    free = {side for side, terms in setting.campaign.sides.items() if terms.levels[0] == 0}
    assert len(free) == 1  # the other side gives nothing at all, and no response counts
    total, spent = 0.0, 0
    for row, (side, cost) in enumerate(zip(outcomes.side.tolist(), outcomes.cost.tolist(), strict=True)):
        spent += cost
        if spent <= setting.campaign.budget.limit:
            total += worth[side] * outcomes.response[row]
        elif side in free:
            total += worth[side] * unpaid.response[row]
    assert spent > setting.campaign.budget.limit
    assert static["value_within_budget"] == pytest.approx(total)
    assert static["value"] > static["value_within_budget"]
    assert static["overspend"] == spent - setting.campaign.budget.limit


def test_a_spent_budget_never_brings_less_than_the_lowest_level_that_costs_nothing(
    make_setting: Callable[..., Setting],
) -> None:
    both = make_setting(1, requests=2000)
    campaign = replace(both.campaign, sides={"merchant": both.campaign.terms("merchant")}, budget=Budget(limit=2000))
    setting = replace(
        both,
        campaign=campaign,
        day=both.day.take(both.day.side == "merchant"),
        outcomes=replace(both.outcomes, campaign=campaign, truth={"merchant": both.outcomes.truth["merchant"]}),
        forecast=Forecast.of(campaign, {"merchant": Profile(np.ones(24), 100.0)}),
        history={"merchant": both.history["merchant"]},
    )
    run = run_policies(setting)["static"]
    assert run.outcomes.cost.sum() > 2 * campaign.budget.limit
    assert attainable(setting).incremental(value_within_budget(run)) > 0


@pytest.mark.parametrize("form", ["total", "per_account", "per_response"])
def test_the_best_flat_mixture_is_the_linear_program_over_both_sides_levels(
    make_setting: Callable[..., Setting], form: str
) -> None:
    setting = make_setting(2, requests=3000, form=form)
    campaign, day = setting.campaign, setting.day
    value, net, side_of = [], [], []
    for k, (side, terms) in enumerate(campaign.sides.items()):
        response = setting.outcomes.truth[side].of(day.account_id[day.side == side]).response.sum(axis=1, dtype=float)
        counted = np.full(response.size, float((day.side == side).sum()))
        on_response = terms.cost_basis == "on_response"
        cost = np.array(terms.levels) * (response if on_response else counted)
        measure = response if on_response and form == "per_response" else counted
        value.append(terms.weight * response)
        net.append(cost if form == "total" else cost - campaign.budget.limit * measure)
        side_of.append(np.full(response.size, k))
    sides = np.concatenate(side_of)
    best = optimize.linprog(
        -np.concatenate(value),
        A_ub=np.concatenate(net)[None],
        b_ub=[campaign.budget.limit if form == "total" else 0.0],
        A_eq=[sides == k for k in range(len(value))],
        b_eq=np.ones(len(value)),
    )
    found = attainable(setting)
    assert found.flat == pytest.approx(-best.fun, rel=1e-6)
    assert found.lowest == pytest.approx(sum(each[0] for each in value), rel=1e-6)
    assert found.lowest < found.flat < found.best


def test_a_model_that_knows_no_account_earns_none_of_the_attainable_gain(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(3, requests=12_000)
    alike = {
        side: NamedCurves(
            people.account_id,
            Curves(
                people.curves.levels,
                np.repeat(
                    people.of(setting.day.account_id[setting.day.side == side]).response.mean(axis=1, keepdims=True),
                    people.curves.accounts,
                    axis=1,
                ),
            ),
        )
        for side, people in setting.outcomes.truth.items()
    }
    judged = attainable(setting)
    shares = {}
    for name, model in (("alike", alike), ("true", setting.outcomes.truth)):
        table = score(setting.campaign, run_policies(replace(setting, model=model), batch=512))
        shares[name] = judged.share(table.loc["hindsight_model", "expected_value"])
        # The share of the whole optimum is high for both.
        assert table.loc["hindsight_model", "share_of_hindsight"] > 0.8
    assert shares["alike"] == pytest.approx(0.0, abs=0.03)
    assert shares["true"] == pytest.approx(1.0, abs=0.01)


def test_lowest_levels_above_the_budget_leave_no_flat_mixture(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(4, requests=500)
    budget = replace(setting.campaign.budget, limit=1)
    judged = attainable(replace(setting, campaign=replace(setting.campaign, budget=budget)))
    assert np.isnan(judged.flat)
    assert np.isnan(judged.share(10.0))


def test_no_share_is_stated_of_a_gain_that_hardly_exists() -> None:
    assert Attainable(lowest=50.0, flat=90.0, best=100.0).share(85.0) == pytest.approx(-0.5)
    assert np.isnan(Attainable(lowest=289.8, flat=290.10, best=290.14).share(289.8))


def test_a_day_whose_cheapest_levels_cost_more_than_the_budget_is_compared_all_the_same(
    make_setting: Callable[..., Setting],
) -> None:
    setting = make_setting(4, requests=2000)
    cheapest = sum(
        float(
            setting.campaign.net_cost(side, people.of(setting.day.account_id[setting.day.side == side]).response)[
                0
            ].sum()
        )
        for side, people in setting.outcomes.truth.items()
    )
    campaign = replace(setting.campaign, budget=Budget(limit=round(0.9 * cheapest)))
    short = replace(setting, campaign=campaign, outcomes=replace(setting.outcomes, campaign=campaign))
    forecast = replace(
        setting.forecast, expected={side: 0.8 * each for side, each in setting.forecast.expected.items()}
    )
    table = score(campaign, run_policies(replace(short, forecast=forecast)))
    assert (table["expected_value_within_budget"] > 0).all()
    assert table.loc["hindsight", "spend"] > 0.95 * campaign.budget.limit
