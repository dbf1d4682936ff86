"""Late in a window: money that buys nothing more does not move the price, and a price that binds stays exact."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.limits import GroupBudget, Limits
from shadowprice.pacing.budgets.kept import KEPT, SLACK, nothing_to_buy, remark
from shadowprice.pacing.budgets.steps import MAX_STEP
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.price_rules import check_price
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.resolve import CampaignState, Resolution
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord
from shadowprice.reports.prices import reasons
from shadowprice.reports.run import certificate

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
BONUSES = (0, 33_200, 66_500, 99_700)


def bonus_campaign(limit: int = 720_000, **changes: Any) -> Campaign:
    return Campaign(
        name="bonus",
        sides={"customer": Terms(levels=BONUSES)},
        budget=Budget(limit=limit),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
        **changes,
    )


def bonus_curves(seed: int, accounts: int = 40) -> Curves:
    rng = np.random.default_rng(seed)
    rise = rng.uniform(0, 0.2, (len(BONUSES), accounts)) * (np.arange(len(BONUSES))[:, None] > 0)
    return Curves(np.array(BONUSES), 0.4 + np.cumsum(rise, axis=0) / 2, rng.uniform(0.5, 2, accounts))


def solved(
    campaign: Campaign,
    curves: Curves,
    spent: int,
    expected: float,
    newest: PriceRecord | None,
    used: Mapping[str, int] | None = None,
) -> Resolution:
    spend = SpendReport(
        spent=spent,
        responses={"customer": 20.0},
        requests={"customer": 10},
        used_of=dict(used or {}),
        observed_at=NOW,
    )
    state = CampaignState(
        campaign=campaign,
        at=23.5,
        slot_and_step=(23, 0),
        spend=spend,
        remaining={"customer": np.array([expected])},
        curves=lambda: {"customer": curves},
        newest=newest,
        version=8,
        model_version="m",
        now=NOW,
    )
    return state.solve()


def before(campaign: Campaign, curves: Curves, **changes: Any) -> PriceRecord:
    """A price of the hour before, with money for a part of the bonuses."""
    spend = SpendReport(
        spent=0,
        responses={"customer": 0.0},
        requests={"customer": 10},
        used_of={each.name: 0 for each in campaign.group_budgets},
        observed_at=NOW - timedelta(hours=1),
    )
    state = CampaignState(
        campaign=campaign,
        at=22.0,
        slot_and_step=(22, 0),
        spend=spend,
        remaining={"customer": np.array([10.0, 10.0])},
        curves=lambda: {"customer": curves},
        newest=None,
        version=7,
        model_version="m",
        now=NOW - timedelta(hours=1),
    )
    return replace(state.solve().record, **changes).sealed()


def optimum(campaign: Campaign, curves: Curves, money: float, expected: float) -> float:
    """Value of the linear program of the rest of the window, by HiGHS."""
    share = expected * curves.shares()
    value, cost = curves.response * share, campaign.net_cost("customer", curves.response) * share
    columns = np.tile(np.arange(curves.accounts), len(BONUSES))
    found = optimize.linprog(
        -value.ravel(),
        A_ub=cost.ravel()[None],
        b_ub=[money],
        A_eq=(columns == np.arange(curves.accounts)[:, None]).astype(float),
        b_eq=np.ones(curves.accounts),
    )
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize("seed", range(40))
def test_a_late_price_is_that_of_the_linear_program_or_the_one_before_where_nothing_can_be_bought(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    campaign, curves = bonus_campaign(), bonus_curves(seed)
    newest = before(campaign, curves)
    expected, left = float(rng.exponential(4)), int(rng.choice([0, 20_000, 33_200, 90_000, 400_000]))
    found = solved(campaign, curves, campaign.budget.limit - left, expected, newest).record
    check_price(found, campaign, NOW)
    price = found.prices["budget"]
    if expected < 1 or left < BONUSES[1]:
        assert found.status == KEPT
        assert (found.prices, found.tie_share) == (newest.prices, newest.tie_share)
        assert set(found.plan) == {float(found.spent)}
        return
    share = expected * curves.shares()
    charged = curves.response - price * campaign.net_cost("customer", curves.response)
    dual = float(charged.max(axis=0) @ share) + price * left
    best = optimum(campaign, curves, left, expected)
    if found.status == "optimal":
        # Strong duality: no other price has a smaller bound.
        assert dual == pytest.approx(best, rel=1e-7)
    else:
        assert found.status == "bounded"
        assert price in (newest.prices["budget"] * MAX_STEP, newest.prices["budget"] / MAX_STEP)
    assert found.primal == pytest.approx(best, rel=1e-7)
    # A record says that it does not bind exactly where some of the money has no use.
    spends_all = optimum(campaign, curves, left * (1 - 2 * SLACK), expected) < best - 1e-12
    assert remark(found, campaign).startswith("it does not bind") is not spends_all


def bonus_day(seed: int, **changes: Any) -> Setting:
    """A day of about 60 requests, and money for about ten bonuses."""
    campaign, curves = bonus_campaign(**changes), bonus_curves(seed, 300)
    names = np.array([f"p{place:04d}" for place in range(curves.accounts)])
    people: dict[Side, NamedCurves] = {"customer": NamedCurves(names, replace(curves, weight=None))}
    forecast = Forecast.of(campaign, {"customer": Profile(np.ones(24), 60.0)})
    who: dict[Side, Accounts] = {"customer": Accounts(names, np.ones(names.size))}
    return Setting(
        campaign=campaign,
        day=draw_day(forecast.expected, who, seed=seed),
        outcomes=OutcomeModel(campaign, people, seed=seed),
        model=people,
        forecast=forecast,
        history={"customer": names},
    )


@pytest.mark.parametrize("pacer", ["closing", "pi", "constant", "mirror_descent"])
def test_of_few_requests_and_large_bonuses_no_late_price_falls_because_nothing_can_be_bought(pacer: str) -> None:
    kept = 0
    for seed in range(6):
        run = run_pacer(bonus_day(seed), make_pacer(pacer), hard_stop=True)
        records = [found.record for _, found in run.prices]
        for last, record in pairwise(records):
            left = record.remaining - (record.plan[0] - record.spent)
            assert (record.status == KEPT) == nothing_to_buy(bonus_campaign(), left, {"customer": record.expected})
            if record.status == KEPT:
                kept += 1
                assert record.prices == last.prices
        assert run.outcomes.cost.sum() <= 720_000
    assert kept >= 6


def test_once_the_budget_is_spent_everybody_is_given_the_level_that_costs_nothing_and_their_responses_count() -> None:
    setting = bonus_day(3, limit=150_000)
    run = run_pacer(setting, make_pacer("closing"), hard_stop=True)
    last = int(np.flatnonzero(run.outcomes.incentive)[-1])
    after = run.outcomes.take(np.arange(len(run.outcomes)) > last)
    assert len(after) > 20
    assert (after.level == 0).all()
    unpaid = setting.outcomes.draw(setting.day, np.zeros(len(setting.day), dtype=np.int32))
    assert after.response.sum() == unpaid.response[last + 1 :].sum() > 0


def test_a_record_says_why_its_price_stays() -> None:
    campaign, curves = bonus_campaign(), bonus_curves(0)
    newest = before(campaign, curves)
    few = solved(campaign, curves, 0, 0.4, newest).record
    poor = solved(campaign, curves, 700_000, 5.0, newest).record
    assert "fewer than one request is expected" in reasons(campaign, newest, few)[0]
    assert "covers no level" in reasons(campaign, newest, poor)[0]
    assert certificate(campaign, poor).startswith("certified; the last price stays")
    rich = solved(campaign, curves, 0, 2.0, None).record
    assert rich.prices == {"budget": 0.0}
    assert certificate(campaign, rich).startswith("certified; it does not bind")
    assert certificate(campaign, newest) == "certified"


def test_a_new_model_gets_a_price_of_its_own_and_a_first_price_is_always_solved() -> None:
    campaign, curves = bonus_campaign(), bonus_curves(0)
    other = before(campaign, curves, model_version="older")
    assert solved(campaign, curves, 700_000, 5.0, other).record.status != KEPT
    assert solved(campaign, curves, 700_000, 5.0, None).record.status == "optimal"


def test_the_price_of_an_exhausted_day_of_a_further_budget_stays_for_the_next_day() -> None:
    day = GroupBudget(name="day", limit=200_000, period="day")
    campaign, curves = bonus_campaign(2_000_000, limits=Limits(budgets=(day,))), bonus_curves(1)
    newest = before(campaign, curves)
    assert newest.prices["day"] > 0
    spent_up = solved(campaign, curves, 190_000, 8.0, newest, {"day": 190_000}).record
    assert spent_up.prices["day"] == newest.prices["day"]
    short = solved(campaign, curves, 150_000, 8.0, newest, {"day": 150_000}).record
    assert short.prices["day"] > newest.prices["day"]
