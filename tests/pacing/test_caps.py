"""Caps of accounts and partners in the solve: exact against HiGHS and sums, and worth their knowledge over a day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy import optimize, stats

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.limits import Cap, Limits
from shadowprice.pacing.caps import granted_by_caps
from shadowprice.pacing.pacers import CampaignState, Pacer, make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import SpendReport
from shadowprice.pacing.window import solve_window

START = datetime(2026, 3, 1, tzinfo=UTC)
SPEND = SpendReport(spent=0, responses={}, requests={"customer": 300}, observed_at=START)
AHEAD = np.full(36, 25.0)


def campaign_with(*caps: Cap, hours: int = 48, limit: int = 9_000) -> Campaign:
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50, 100))},
        budget=Budget(limit=limit),
        starts_at=START,
        hours=hours,
        limits=Limits(caps=caps),
    )


def curves_of(campaign: Campaign, accounts: Sequence[str], partners: Sequence[str], seed: int = 0) -> Curves:
    response = np.sort(np.random.default_rng(seed).uniform(0.05, 0.9, (3, len(accounts))), axis=0)
    bare = Curves(np.array([0, 50, 100]), response.astype(np.float32), np.arange(1.0, len(accounts) + 1))
    return campaign.coverage().mark("customer", bare, accounts, partners)


def capped(mean: float, most: float) -> float:
    return float(stats.poisson(mean).expect(lambda count: np.minimum(count, most))) if mean > 0 else 0.0


def test_a_count_is_of_all_requests_of_its_owner_in_each_period() -> None:
    accounts, partners = ["ada", "ada", "bob", "eve"], ["m1", "m2", "m1", ""]
    share = np.array([1, 2, 3, 4]) / 10
    for per, period, of in (
        ("account", "campaign", [0.3, 0.3, 0.3, 0.4]),
        ("partner", "campaign", [0.4, 0.2, 0.4, None]),
        ("account", "day", [0.3, 0.3, 0.3, 0.4]),
    ):
        campaign = campaign_with(Cap(name="few", per=per, count=150, period=period))  # type: ignore[arg-type]
        curves = curves_of(campaign, accounts, partners)
        np.testing.assert_allclose(curves.shares(), share)
        found = granted_by_caps(campaign, "customer", curves, SPEND, AHEAD, slot=12).granted
        assert found is not None
        # 300 requests were before hour 12; 300 more are to come on the first day and 600 on the second.
        periods = [(300, 900)] if period == "campaign" else [(300, 300), (0, 600)]
        for column, own in enumerate(of):
            given = (
                900.0
                if own is None
                else sum((capped(own * (was + comes), 150) - capped(own * was, 150)) / own for was, comes in periods)
            )
            assert found[0, column] == 1
            np.testing.assert_allclose(found[1:, column], given / 900, rtol=2e-3)


def test_an_amount_is_of_payments_and_the_tightest_cap_holds() -> None:
    campaign = campaign_with(Cap(name="much", per="account", amount=4_000), Cap(name="few", per="account", count=60))
    curves = curves_of(campaign, ["ada", "bob"], ["", ""])
    found = granted_by_caps(campaign, "customer", curves, replace(SPEND, requests={}), AHEAD, slot=0).granted
    assert found is not None
    for column, requests in enumerate((300, 600)):
        for level, most in ((1, 80), (2, 40)):
            chance = float(curves.response[level, column])
            by_amount = capped(requests * chance, most) / chance
            expected = min(by_amount, capped(requests, 60)) / requests
            assert found[level, column] == pytest.approx(expected, rel=2e-3)


def test_the_solve_is_the_linear_programme_with_a_limit_of_each_account() -> None:
    campaign = campaign_with(Cap(name="few", per="account", count=6))
    rows = 60
    accounts = [f"a{number}" for number in range(rows)]
    curves = granted_by_caps(
        campaign, "customer", curves_of(campaign, accounts, [""] * rows), replace(SPEND, requests={}), AHEAD, slot=0
    )
    assert curves.granted is not None
    assert 0.1 < curves.granted[1].min() < 0.5 < curves.granted[1].max()
    times = 900 * curves.shares()
    found = solve_window(campaign, {"customer": curves}, {"customer": 900.0}, 9_000.0)
    response = curves.response.astype(float)
    cost = campaign.terms("customer").cost(response)
    each = np.tile(np.eye(rows), (1, 3))
    paid = each * np.repeat([0, 1, 1], rows)
    solved = optimize.linprog(
        -(times * response).ravel(),
        np.vstack([(times * cost).ravel(), paid]),
        np.concatenate([[9_000.0], curves.granted[1]]),
        each,
        np.ones(rows),
        bounds=(0, 1),
        method="highs",
    )
    assert found.primal == pytest.approx(-solved.fun, rel=1e-6)
    assert found.prices["budget"] == pytest.approx(-solved.ineqlin.marginals[0], rel=1e-5)
    assert found.prices["budget"] > 0


@dataclass
class Blind(Pacer):
    """The pacer of a campaign without caps; the ledger keeps them all the same."""

    inner: Pacer

    def moments(self, hours: int) -> Sequence[float]:
        return self.inner.moments(hours)

    def price(self, state: CampaignState) -> Resolution | None:
        return self.inner.price(replace(state, campaign=replace(state.campaign, limits=Limits())))


def test_a_price_that_knows_the_caps_spends_the_budget_and_earns_more(make_setting: Callable[..., Setting]) -> None:
    setting = make_setting(2, requests=3000)
    who = {side: model.account_id[:150] for side, model in setting.model.items()}
    accounts = {side: Accounts(names, np.ones(names.size)) for side, names in who.items()}
    caps = (Cap(name="often", per="account", count=5, side="customer"),)
    setting = replace(
        setting,
        campaign=replace(setting.campaign, limits=Limits(caps=caps)),
        day=draw_day(setting.forecast.expected, accounts, seed=2),
        history=who,
    )
    runs = [run_pacer(setting, pacer, hard_stop=True) for pacer in (make_pacer("static"), Blind(make_pacer("static")))]
    (known, blind), limit = [run.outcomes for run in runs], setting.campaign.budget.limit
    assert runs[0].prices[0][1].record.plan[-1] == pytest.approx(limit, rel=0.01)
    assert known.cost.sum() > 0.93 * limit
    assert blind.cost.sum() < 0.85 * limit
    assert known.expected_response.sum() > 1.03 * blind.expected_response.sum()
