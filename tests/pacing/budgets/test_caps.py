"""Caps of accounts and partners in the solve: exact against HiGHS and sums, and worth their knowledge over a day."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from benchmarks.pacing.together import replay_together
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.limits import Cap, Limits
from shadowprice.limits.coverage import SideRequests
from shadowprice.limits.usage import Usage
from shadowprice.pacing.budgets.caps import CapsAhead, counting_prices
from shadowprice.pacing.budgets.owners import exclusive_share, others_rate
from shadowprice.pacing.pacers import CampaignState, Pacer, make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.day import Accounts, draw_day
from shadowprice.pacing.replay.outcomes import OutcomeModel
from shadowprice.pacing.replay.policies import past_traffic
from shadowprice.pacing.replay.run import Replay
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import CapUse, SpendReport
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
    return campaign.coverage().mark(SideRequests("customer", accounts, partners), bare)


def capped(mean: float, most: float) -> float:
    return float(stats.poisson(mean).expect(lambda count: np.minimum(count, most))) if mean > 0 else 0.0


def spend_with(campaign: Campaign, *, asked: int = 300, **own: tuple[int, int]) -> SpendReport:
    """Spend of a campaign whose caps are used by some owners: amount and uses."""
    use = {name: Usage(*each) for name, each in own.items()}
    caps = {cap.name: CapUse.of(use, {}) for cap in campaign.limits.caps}
    return SpendReport(spent=0, responses={}, requests={"customer": asked}, caps=caps, observed_at=START)


def granted(campaign: Campaign, curves: Curves, spend: SpendReport, slot: int, price: float = 0.0) -> Curves:
    return CapsAhead(campaign, "customer", curves, spend, AHEAD, slot).curves({"budget": price})


def test_a_count_is_of_all_requests_of_its_owner_in_each_period() -> None:
    accounts, partners = ["ada", "ada", "bob", "eve"], ["m1", "m2", "m1", ""]
    share = np.array([1, 2, 3, 4]) / 10
    used = {"ada": (0, 70), "m1": (0, 90)}
    for per, period, of in (
        ("account", "campaign", [(0.3, 70), (0.3, 70), (0.3, 0), (0.4, 0)]),
        ("partner", "campaign", [(0.4, 90), (0.2, 0), (0.4, 90), None]),
        ("account", "day", [(0.3, 70), (0.3, 70), (0.3, 0), (0.4, 0)]),
    ):
        campaign = campaign_with(Cap(name="few", per=per, count=150, period=period))  # type: ignore[arg-type]
        curves = curves_of(campaign, accounts, partners)
        np.testing.assert_allclose(curves.shares(), share)
        found = granted(campaign, curves, spend_with(campaign, **used), slot=12).granted
        assert found is not None
        # Of 900 requests to come 300 are on the first day and 600 on the second.
        periods = [(900, True)] if period == "campaign" else [(300, True), (600, False)]
        for column, own in enumerate(of):
            given = 900.0
            if own is not None:
                share_of, already = own
                given = sum(capped(share_of * n, 150 - already * now) / share_of for n, now in periods)
            assert found[0, column] == 1
            np.testing.assert_allclose(found[1:, column], given / 900, rtol=2e-3)


def test_an_amount_is_of_payments_at_the_level_that_the_price_chooses() -> None:
    campaign = campaign_with(Cap(name="much", per="account", amount=4_000), Cap(name="few", per="account", count=60))
    curves = curves_of(campaign, ["ada", "bob"], ["", ""])
    for price, level in ((0.0, 2), (1.0, 1)):
        found = granted(campaign, curves, spend_with(campaign, asked=0, bob=(550, 0)), slot=0, price=price).granted
        assert found is not None
        for column, (requests, left) in enumerate(((300, 4_000), (600, 3_450))):
            # At a price that nothing is worth, the lowest level that costs something is counted.
            chance = float(curves.response[level, column])
            by_amount = capped(requests * chance, left // (50 * level)) / chance
            expected = min(by_amount, capped(requests, 60)) / requests
            np.testing.assert_allclose(found[:, column], [1, expected, expected], rtol=2e-3)


def test_the_price_that_amounts_are_counted_at_is_the_price_that_is_found() -> None:
    campaign = campaign_with(Cap(name="much", per="account", amount=250), limit=7_000)
    accounts = [f"a{number}" for number in range(200)]
    caps = {
        "customer": CapsAhead(
            campaign, "customer", curves_of(campaign, accounts, [""] * 200), spend_with(campaign), AHEAD, 0
        )
    }

    def solve(curves: Mapping[Side, Curves]) -> Mapping[str, float]:
        return solve_window(campaign, curves, {"customer": 900.0}, 7_000.0).prices

    found = counting_prices(caps, {}, solve)
    assert found["budget"] > 0
    assert solve({"customer": caps["customer"].curves(found)})["budget"] == pytest.approx(found["budget"], rel=0.05)


def test_without_the_use_of_a_cap_there_is_no_price() -> None:
    campaign = campaign_with(Cap(name="few", per="account", count=6))
    with pytest.raises(NotCertified, match="does not tell the use of cap 'few'; upgrade the ledger"):
        granted(campaign, curves_of(campaign, ["ada"], [""]), replace(spend_with(campaign), caps={}), slot=0)


def drawn_streams(own: float, others: float, *, count: int | None, exclusive: bool, runs: int = 40_000) -> float:
    """Mean of own requests that a cap grants, where both campaigns ask in Poisson streams: by simulation."""
    rng = np.random.default_rng(3)
    total = 0
    for mine, theirs in zip(rng.poisson(own, runs).tolist(), rng.poisson(others, runs).tolist(), strict=True):
        order = rng.permutation([1] * mine + [0] * theirs)
        if exclusive:
            order = order[order == order[0]] if order.size else order
        total += int(order[:count].sum())
    return total / runs


@pytest.mark.parametrize(("own", "others"), [(0.3, 0.9), (2.0, 1.0), (6.0, 6.0)])
def test_what_other_campaigns_take_is_that_of_simulated_streams(own: float, others: float) -> None:
    first = exclusive_share(np.array([own]), np.array([others]))[0] * own
    assert first == pytest.approx(drawn_streams(own, others, count=None, exclusive=True), rel=0.02)
    # The sum of both counts; each of them is this campaign's with the probability of its rate.
    names = ("spring", "autumn")
    campaign = campaign_with(Cap(name="few", per="account", count=3, campaigns=names))
    accounts = [f"a{number}" for number in range(50)]
    curves = replace(curves_of(campaign, accounts, [""] * 50), weight=None)
    # The others used the cap so little that it cuts nothing, in as many requests as are to come.
    use = CapUse.of({}, {name: Usage(0, 1) for name in accounts[:10]}, hours=36.0)
    spend = replace(spend_with(campaign, asked=0), caps={"few": use})
    found = CapsAhead(campaign, "customer", curves, spend, np.full(36, own * 50 / 36), 0).curves({}).granted
    assert found is not None
    held = drawn_streams(own, 10 / 50, count=3, exclusive=False) / own
    assert found[1, -1] == pytest.approx(held, rel=0.02)
    assert found[1, 0] == pytest.approx(drawn_streams(own, 10 / 50, count=2, exclusive=False) / own, rel=0.02)


def test_an_exclusive_account_is_granted_all_or_nothing_once_it_is_held() -> None:
    campaign = campaign_with(Cap(name="either", per="account", exclusive=True, campaigns=("spring", "autumn")))
    curves = replace(curves_of(campaign, ["mine", "theirs", "free"], [""] * 3), weight=None)
    use = CapUse.of({"mine": Usage(50, 1)}, {"theirs": Usage(50, 1)}, hours=12.0)
    spend = replace(spend_with(campaign), caps={"either": use})
    found = granted(campaign, curves, spend, slot=12).granted
    assert found is not None
    np.testing.assert_allclose(found[0], 1)
    assert found[1, 0] == 1
    assert found[1, 1] == 0
    assert 0 < found[1, 2] < 1


@pytest.mark.parametrize("most", [1, 4, None])
def test_the_rate_of_the_others_is_found_also_where_the_cap_cuts_their_use(most: int | None) -> None:
    rng = np.random.default_rng(5)
    share = rng.dirichlet(np.full(3000, 2.0))
    mine, theirs = rng.poisson(3000 * share), rng.poisson(6000 * share)
    if most is not None:
        # The first uses count, whoever made them.
        parts = [rng.permutation([0] * a + [1] * b)[:most] for a, b in zip(mine.tolist(), theirs.tolist(), strict=True)]
        mine, theirs = (np.array([np.sum(part == who) for part in parts]) for who in (0, 1))
    # 6,000 uses while this campaign had 1,500 requests.
    assert others_rate(share, mine, theirs, most, 1500.0) == pytest.approx(4.0, rel=0.06)
    assert others_rate(share, mine, np.zeros_like(theirs), most, 1500.0) == 0
    assert others_rate(share, mine, theirs, most, 0.0) == 0


def test_early_requests_cost_more_where_a_cap_is_used_up() -> None:
    accounts = [f"a{number}" for number in range(20)]
    for cap in (Cap(name="few", per="account", count=10), Cap(name="much", per="account", amount=300)):
        campaign = campaign_with(cap)
        caps = CapsAhead(campaign, "customer", curves_of(campaign, accounts, [""] * 20), spend_with(campaign), AHEAD, 0)
        profile = caps.profile({})
        assert profile.sum() == pytest.approx(1)
        assert np.all(np.diff(profile) < 1e-12)
        assert profile[0] > 3 * profile[-1]
    free = CapsAhead(campaign_with(), "customer", curves_of(campaign_with(), accounts, [""] * 20), SPEND, AHEAD, 0)
    np.testing.assert_allclose(free.profile({}), 1 / 36)


def test_the_solve_is_the_linear_program_with_a_limit_of_each_account() -> None:
    names = ("spring", "autumn")
    campaign = campaign_with(
        Cap(name="few", per="account", count=6, campaigns=names),
        Cap(name="either", per="account", exclusive=True, campaigns=names),
    )
    rows = 60
    accounts = [f"a{number}" for number in range(rows)]
    use = CapUse.of({"a1": Usage(50, 3)}, {f"a{number}": Usage(50, 2) for number in range(40, 50)}, hours=6.0)
    spend = replace(spend_with(campaign, asked=0), caps={"few": use, "either": use})
    curves = granted(campaign, curves_of(campaign, accounts, [""] * rows), spend, slot=0)
    assert curves.granted is not None
    assert np.all(curves.granted[1, 40:50] == 0)
    assert 0.1 < curves.granted[1, :40].min() < 0.5 < curves.granted[1].max()
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


@dataclass
class Twice(Pacer):
    """Solves at the start and once more: no later solve makes up for what was wrong."""

    blind: bool
    at: float = 6.0

    def moments(self, hours: int) -> Sequence[float]:
        return [0.0, self.at]

    def price(self, state: CampaignState) -> Resolution | None:
        campaign = replace(state.campaign, limits=Limits()) if self.blind else state.campaign
        return replace(state, campaign=campaign).solve()


NAMES = ("autumn", "spring")


def two_campaigns(make_setting: Callable[..., Setting], cap: Cap, seed: int) -> list[Setting]:
    """Two campaigns that ask the same 600 accounts of each side, twelve requests of each a day."""
    found = []
    for place, name in enumerate(NAMES):
        setting = make_setting(seed, requests=12_000)
        activity = np.exp(np.random.default_rng(5).normal(0, 0.8, 600))
        who = {side: Accounts(model.account_id[:600], activity) for side, model in setting.model.items()}
        campaign = replace(setting.campaign, name=name, budget=Budget(limit=240_000), limits=Limits(caps=(cap,)))
        found.append(
            replace(
                setting,
                campaign=campaign,
                outcomes=OutcomeModel(campaign, setting.outcomes.truth, seed=seed + place),
                day=draw_day(setting.forecast.expected, who, seed=10 * seed + place, name=name),
                history=past_traffic(who, 4000, seed + place),
            )
        )
    return found


def spent_of_plan(run: Replay, at: float) -> float:
    """Money paid from the second price on, over what that price had planned."""
    (second,) = [price.record for hour, price in run.prices if hour == at]
    return float(run.outcomes.cost[run.outcomes.at >= at].sum()) / (second.plan[-1] - second.plan[0])


@pytest.mark.parametrize(
    "cap",
    [
        Cap(name="either", per="account", side="customer", exclusive=True, campaigns=NAMES),
        Cap(name="few", per="account", side="customer", count=16, campaigns=NAMES),
    ],
    ids=["exclusive", "shared"],
)
def test_prices_that_know_the_other_campaign_spend_what_they_plan(
    make_setting: Callable[..., Setting], cap: Cap
) -> None:
    settings = two_campaigns(make_setting, cap, seed=3)
    for blind in (False, True):
        runs = replay_together(settings, lambda _, blind=blind: Twice(blind))  # type: ignore[misc]
        found = [spent_of_plan(runs[name], 6.0) for name in NAMES]
        if blind:
            assert max(found) < 0.75, found
        else:
            assert min(found) > 0.99, found
            assert max(found) < 1.01, found
        spent = [float(runs[name].outcomes.cost.sum()) / 240_000 for name in NAMES]
        assert max(spent) <= 1
        # No account has incentives of both where the cap is exclusive, and none has more of both than it allows.
        given = [account_uses(run) for run in runs.values()]
        both = given[0].add(given[1], fill_value=0)
        if cap.exclusive:
            assert not set(given[0].index) & set(given[1].index)
        else:
            assert both.max() == cap.count


def account_uses(run: Replay) -> pd.Series:
    """Incentives of each customer."""
    mine = (run.outcomes.side == "customer") & (run.outcomes.incentive > 0)
    return pd.Series(run.outcomes.account_id[mine]).value_counts()


def test_hourly_prices_of_exclusive_campaigns_are_right_from_the_second_hour_on(
    make_setting: Callable[..., Setting],
) -> None:
    cap = Cap(name="either", per="account", side="customer", exclusive=True, campaigns=NAMES)
    settings = two_campaigns(make_setting, cap, seed=4)
    for blind in (False, True):
        inner = make_pacer("hourly")
        runs = replay_together(settings, lambda _, blind=blind, inner=inner: Blind(inner) if blind else inner)  # type: ignore[misc]
        for run in runs.values():
            assert run.outcomes.cost.sum() > 0.99 * 240_000
            learned = [price.record.spend_ratio for hour, price in run.prices if 6 <= hour <= 18]
            # Where the plan is right, nothing is left to learn of the spend.
            assert (min(learned) < 0.8) if blind else (0.88 < min(learned) <= max(learned) < 1.12)
