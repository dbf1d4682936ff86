"""The hourly re-solve: what the price promises, and when there must not be one."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import shadowprice.pacing.window as window
from shadowprice.allocation import solve
from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.campaign import Budget, BudgetForm, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.pacing.budgets.in_hand import expected_cost_of_holds
from shadowprice.pacing.replay.compare import Setting
from shadowprice.pacing.resolve import CampaignState, Resolution
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
AHEAD: dict[Side, np.ndarray] = {"customer": np.array([100.0, 150, 200]), "merchant": np.array([200.0, 50, 50])}


def report(spent: int = 0, **changes: Any) -> SpendReport:
    fields: dict[str, Any] = {
        "spent": spent,
        "responses": {"customer": 40.0, "merchant": 0.0},
        "requests": {"customer": 100, "merchant": 60},
        "observed_at": NOW,
    }
    return SpendReport(**(fields | changes))


class Case:
    """A campaign and a sample that may be solved in a line."""

    def __init__(self, setting: Setting, form: BudgetForm, limit: float) -> None:
        self.campaign: Campaign = replace(setting.campaign, budget=Budget(form=form, limit=limit))
        # Twice as many merchants as the traffic to come has: the proportion must be put right.
        self.samples: dict[Side, Curves] = {
            "customer": setting.model["customer"].curves.take(np.arange(300)),
            "merchant": setting.model["merchant"].curves.take(np.arange(400)),
        }

    def resolve(self, spend: SpendReport, ahead: Mapping[Side, Any] = AHEAD, **changes: Any) -> Resolution:
        arguments: dict[str, Any] = {"version": 4, "model_version": "m", "now": NOW, "newest": None} | changes
        asked = {"at": 9.0, "slot_and_step": (9, 0), "curves": lambda: self.samples, "remaining": ahead}
        return CampaignState(campaign=self.campaign, spend=spend, **asked, **arguments).solve()

    def expected(self, found: Resolution, ahead: Mapping[Side, float]) -> dict[str, float]:
        """Money, measure and value of ``ahead`` requests of each side, decided at the price."""
        record = found.record
        totals = dict.fromkeys(("paid", "measure", "value"), 0.0)
        for side, curves in self.samples.items():
            terms = self.campaign.terms(side)
            response, names = curves.response, [f"{side}{i}" for i in range(curves.accounts)]
            columns = np.arange(curves.accounts)
            for share, weight in ((0.0, 1 - record.tie_share), (1.0, record.tie_share)):
                level = decide(
                    terms.value(response),
                    self.campaign.net_cost(side, response),
                    list(record.prices.values()),
                    share,
                    names,
                ).level
                for name, matrix in (
                    ("paid", terms.cost(response)),
                    ("measure", terms.measure(response)),
                    ("value", terms.value(response)),
                ):
                    totals[name] += weight * ahead[side] * float(matrix[level, columns].mean())
        return totals


@pytest.fixture
def case(make_setting: Callable[..., Setting]) -> Callable[..., Case]:
    setting = make_setting(requests=10)
    return lambda form="total", limit=30_000.0: Case(setting, form, limit)


REQUESTS = {side: float(expected.sum()) for side, expected in AHEAD.items()}


@pytest.mark.parametrize("spent", [0, 9000, 15_000])
def test_a_total_spends_what_is_left_on_the_requests_to_come(case: Callable[..., Case], spent: int) -> None:
    one = case()
    found = one.resolve(report(spent))
    assert one.expected(found, REQUESTS)["paid"] == pytest.approx(30_000 - spent, rel=1e-9)
    assert (found.record.spent, found.record.remaining) == (spent, 30_000 - spent)


@pytest.mark.parametrize(("late", "left"), [(0, 25_000), (2_000, 27_000), (9_000, 30_000)])
def test_what_is_left_of_the_late_reserve_is_not_priced(case: Callable[..., Case], late: int, left: int) -> None:
    one = case()
    one.campaign = replace(one.campaign, late_reserve=5_000)
    found = one.resolve(report(9000, late=late))
    assert one.expected(found, REQUESTS)["paid"] == pytest.approx(left - 9000, rel=1e-9)
    assert found.record.remaining == 21_000


def test_a_refund_is_no_total_that_went_back(case: Callable[..., Case]) -> None:
    one = case()
    newest = one.resolve(report(9000)).record
    found = one.resolve(report(8000, refunded=1000), newest=newest, version=5)
    assert (found.record.spent, found.record.remaining) == (8000, 22_000)
    with pytest.raises(NotCertified, match="totals went back"):
        one.resolve(report(7900, refunded=1000), newest=newest, version=5)


def test_the_proportion_of_the_sides_is_the_forecasts_not_the_samples(case: Callable[..., Case]) -> None:
    one = case()
    merchants = {"customer": np.array([10.0]), "merchant": np.array([740.0])}
    found = one.resolve(report(), merchants)
    assert one.expected(found, {"customer": 10.0, "merchant": 740.0})["paid"] == pytest.approx(30_000, rel=1e-9)


def test_a_mean_per_account_counts_what_was_saved_so_far(case: Callable[..., Case]) -> None:
    one = case("per_account", 35.0)
    for spent in (3000, 5600, 8000):
        found = one.resolve(report(spent))
        total = spent + one.expected(found, REQUESTS)["paid"]
        assert total == pytest.approx(35.0 * (160 + sum(REQUESTS.values())), rel=1e-9)
        assert found.record.remaining == 35 * 160 - spent


def test_a_ratio_carries_over_what_was_saved_so_far(case: Callable[..., Case]) -> None:
    one = case("per_response", 70.0)
    for spent in (4000, 7000, 9000):
        found = one.resolve(report(spent))
        ahead = one.expected(found, REQUESTS)
        measured = 40 + 60 + ahead["measure"]  # customers on response, merchants on grant
        assert (spent + ahead["paid"]) / measured == pytest.approx(70.0, rel=1e-9)
        assert found.record.remaining == 70 * 100 - spent


def test_promises_of_merchants_are_expected_to_cost_their_units_and_never_more_than_is_reserved(
    case: Callable[..., Case],
) -> None:
    one = case()
    newest = replace(one.resolve(report()).record, spend_ratio=0.5)
    campaign = replace(one.campaign, sides={"merchant": Terms(levels=(100,), most_units=4)})
    spend = report(outstanding={"merchant": 8000})

    def expected(*units: float, newest: PriceRecord | None = newest) -> float:
        samples: dict[Side, Curves] = {"merchant": Curves(np.array([100]), np.array([units]))}
        return expected_cost_of_holds(campaign, samples, spend, newest)["merchant"]

    # 200 of 800 minor units on the curves, half of that as the day has it.
    assert expected(0.5, 1.5) == pytest.approx(8000 / 4 / 2)
    assert expected(9.0, 9.0) == pytest.approx(8000 / 2)
    assert expected(0.5, 1.5, newest=None) == 8000


def test_the_record_is_sealed_certified_and_speaks_of_the_rest_of_the_window(case: Callable[..., Case]) -> None:
    one = case()
    found = one.resolve(report(9000), version=4)
    record = found.record.verify()
    assert (record.campaign, record.slot, record.version, record.status) == ("spring", 9, 4, "optimal")
    assert record.sample_rows == 700
    assert record.gap <= one.campaign.gap_limit
    assert record.violation <= one.campaign.violation_limit
    assert record.primal == pytest.approx(one.expected(found, REQUESTS)["value"], rel=1e-9)
    assert record.dual == pytest.approx(record.primal, rel=1e-9)
    assert (record.solved_at, record.expires_at) == (NOW, NOW + timedelta(hours=2))


def test_the_plan_is_the_slots_share_of_the_money(case: Callable[..., Case]) -> None:
    one = case()
    found = one.resolve(report())
    first = {side: float(expected[0]) for side, expected in AHEAD.items()}
    assert found.planned == pytest.approx(one.expected(found, first)["paid"], rel=1e-2)


def test_more_money_left_means_a_lower_price(case: Callable[..., Case]) -> None:
    prices = [case().resolve(report(spent)).record.prices["budget"] for spent in (0, 5000, 10_000, 15_000)]
    assert prices == sorted(prices)
    assert prices[0] < prices[-1]


def test_with_more_money_than_can_be_spent_the_price_is_zero(case: Callable[..., Case]) -> None:
    assert case(limit=10_000_000.0).resolve(report()).record.prices == {"budget": 0.0}


def test_money_that_is_just_used_up_buys_the_free_level_only(case: Callable[..., Case]) -> None:
    one = case(limit=5000.0)
    only_merchants = {"customer": np.zeros(3), "merchant": np.full(3, 50.0)}
    found = one.resolve(report(5000), only_merchants)
    assert found.planned == 0
    assert np.isfinite(found.record.prices["budget"])
    assert one.expected(found, {"customer": 0.0, "merchant": 150.0})["paid"] == 0


@pytest.mark.parametrize(
    ("reason", "spend", "ahead"),
    [
        ("stale", report(observed_at=NOW - timedelta(minutes=11)), AHEAD),
        ("clocks disagree", report(observed_at=NOW + timedelta(minutes=11)), AHEAD),
        ("overspent by 1", report(30_001), AHEAD),
        ("infeasible", report(29_000), AHEAD),
        ("no request is expected", report(), {"customer": np.zeros(3), "merchant": np.zeros(3)}),
        ("no request is expected", report(), {}),
    ],
)
def test_what_may_not_be_priced_is_not_certified(
    case: Callable[..., Case], reason: str, spend: SpendReport, ahead: Mapping[Side, Any]
) -> None:
    with pytest.raises(NotCertified, match=reason):
        case().resolve(spend, ahead)


def test_an_infeasible_budget_names_the_least_feasible_one(case: Callable[..., Case]) -> None:
    with pytest.raises(NotCertified, match="the least feasible budget is") as refused:
        case(limit=30_000.0).resolve(report(29_000))
    least = int(str(refused.value).split("least feasible budget is ")[1].split()[0])
    assert case(limit=float(least)).resolve(report(29_000)).record.status == "optimal"
    with pytest.raises(NotCertified, match="infeasible"):
        case(limit=float(least - 2)).resolve(report(29_000))


def test_a_side_that_is_expected_but_not_in_the_sample_is_not_certified(case: Callable[..., Case]) -> None:
    one = case()
    del one.samples["merchant"]
    with pytest.raises(NotCertified, match="merchant"):
        one.resolve(report())
    found = one.resolve(report(), {"customer": AHEAD["customer"]})
    assert found.record.sample_rows == 300


@pytest.mark.parametrize("limit", ["gap_limit", "violation_limit"])
def test_a_certificate_above_the_campaigns_limit_is_not_certified(
    case: Callable[..., Case], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = case()
    shown = {limit.removesuffix("_limit"): 2 * getattr(one.campaign, limit)}
    monkeypatch.setattr(window, "solve", lambda *args, **given: replace(solve(*args, **given), **shown))
    with pytest.raises(NotCertified, match=limit.removesuffix("_limit")):
        one.resolve(report())


@pytest.mark.parametrize(
    "ahead", [{"customer": [np.nan]}, {"customer": [-1.0]}, {"customer": []}, {"customer": [[1.0]]}]
)
def test_a_forecast_that_is_no_forecast_is_refused(case: Callable[..., Case], ahead: Mapping[Side, Any]) -> None:
    with pytest.raises(InvalidInput, match="remaining"):
        case().resolve(report(), ahead)


def test_the_first_price_spends_the_money_that_incentives_really_cost(case: Callable[..., Case]) -> None:
    one = case()
    columns = {"price": (0.0,), "expected": (10.0,), "paid": (12.5,), "error": (0.0,), "rows": 5_000}
    held_out = {side: HeldOutSpend(**columns) for side in one.samples}
    found = one.resolve(report(9000), held_out_spend=held_out)
    record = found.record.verify()
    assert record.spend_ratio == pytest.approx(1.25)
    paid = one.expected(found, REQUESTS)["paid"]
    assert 1.25 * paid == pytest.approx(one.campaign.budget.limit - 9000, rel=1e-3)
    assert record.plan[-1] == pytest.approx(one.campaign.budget.limit, rel=2e-3)
    # Later prices go on from the ratio that the window has shown.
    later = one.resolve(report(9000), held_out_spend=held_out, newest=replace(record, spend_ratio=0.9))
    assert later.record.spend_ratio == 0.9
    # A mean earns its own allowance, and keeps its expectation.
    assert case("per_account", 50.0).resolve(report(9000), held_out_spend=held_out).record.spend_ratio == 1.0
