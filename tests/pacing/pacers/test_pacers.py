"""Pacers: when they ask, what they set, and what they refuse."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from benchmarks.pacing.scenarios import SCENARIOS, scenario
from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput, NotCertified, NotFound
from shadowprice.pacing.budgets.steps import MAX_STEP
from shadowprice.pacing.pacers import BEFORE, CampaignState, make_pacer, pacer_names, scheduled_slot
from shadowprice.pacing.replay.compare import Setting, optimum
from shadowprice.pacing.spend import SpendReport
from shadowprice.price import PriceRecord

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
MakeSetting = Callable[..., Setting]


@pytest.fixture
def standing(make_setting: MakeSetting) -> Callable[..., CampaignState]:
    """A standing of a day of 2400 requests in which 100 an hour are expected, and changes to it."""
    setting = make_setting(requests=2400)

    def make(at: float = 9.0, spent: int = 28_800, requests: int = 900, **changes: Any) -> CampaignState:
        outstanding: Mapping[Side, int] = changes.pop("outstanding", {})
        place = changes.pop("slot_and_step", (int(at), 0))
        fields: dict[str, Any] = {
            "campaign": setting.campaign,
            "at": at,
            "slot_and_step": place,
            "spend": SpendReport(
                spent=spent,
                responses={"customer": 10.0, "merchant": 1.0},
                requests={"customer": requests, "merchant": 0},
                outstanding=outstanding,
                observed_at=changes.get("now", NOW),
            ),
            "remaining": {"customer": np.full(24 - int(at), 200 / 3), "merchant": np.full(24 - int(at), 100 / 3)},
            "curves": lambda: {side: mine.curves for side, mine in setting.model.items()},
            "newest": None,
            "version": 1,
            "model_version": "m",
            "now": NOW,
        }
        return CampaignState(**(fields | changes))

    return make


def price(record: PriceRecord) -> float:
    return next(iter(record.prices.values()))


def test_the_moments_are_due_in_order_and_each_has_a_place_of_its_own() -> None:
    moments = make_pacer("closing", last_steps=4).moments(3)
    assert moments == [0, 1, 2, 2.25, 2.5, 2.75]
    places = [scheduled_slot(moments, at) for at in (-0.1, 0, 0.99, 1, 2, 2.3, 2.5, 3.5)]
    assert places == [BEFORE, (0, 0), (0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert len(make_pacer("mirror_descent").moments(24)) == 288
    assert make_pacer("static").moments(24) == [0.0]


def test_an_unknown_pacer_and_an_unknown_option_are_refused() -> None:
    assert {"static", "hourly", "closing", "pi", "mirror_descent", "hindsight"} <= set(pacer_names())
    with pytest.raises(NotFound, match="hourly"):
        make_pacer("horoscope")
    with pytest.raises(InvalidInput, match="speed"):
        make_pacer("pi", speed=3)
    with pytest.raises(NotFound, match="stationary"):
        scenario("doomsday")


def test_the_plan_follows_the_forecast_arrivals_and_ends_with_the_budget(
    standing: Callable[..., CampaignState],
) -> None:
    now = standing()
    curve = 7 * np.array([10.0, 40, 90, 10, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5])
    now = replace(now, remaining={"customer": curve, "merchant": np.zeros(15)})
    found = make_pacer("hourly").price(now)
    assert found is not None
    plan = np.array(found.record.plan)
    assert plan[0] == 28_800
    assert plan[-1] == pytest.approx(now.campaign.budget.limit, rel=1e-3)
    np.testing.assert_allclose(np.diff(plan) / np.diff(plan).sum(), curve / curve.sum(), rtol=1e-9)


def test_promises_still_open_count_with_what_they_are_expected_to_cost(standing: Callable[..., CampaignState]) -> None:
    first = make_pacer("hourly").price(standing(8.0, 25_600, 800))
    assert first is not None
    without = make_pacer("hourly").price(standing(newest=first.record))
    held = make_pacer("hourly").price(standing(newest=first.record, outstanding={"customer": 6000, "merchant": 0}))
    assert without is not None
    assert held is not None
    assert price(held.record) > price(without.record)
    # Less than face value: not everybody redeems. The plan starts from it.
    assert 28_800 < held.record.plan[0] < 28_800 + 6000
    everything = make_pacer("hourly").price(standing(outstanding={"customer": 6000, "merchant": 0}))
    assert everything is not None
    assert everything.record.plan[0] == 28_800 + 6000  # without a price before, nothing better is known


def test_one_wrong_total_cannot_move_the_price_by_more_than_a_step(standing: Callable[..., CampaignState]) -> None:
    good = make_pacer("hourly").price(standing(8.0, 25_600, 800))
    assert good is not None
    name = next(iter(good.record.prices))
    for factor, moved in ((0.01, MAX_STEP), (100, 1 / MAX_STEP)):
        far = replace(good.record, prices={name: factor * price(good.record)})
        found = make_pacer("hourly").price(standing(newest=far))
        assert found is not None
        assert price(found.record) == pytest.approx(moved * price(far))
        assert found.record.status == "bounded"
    near = make_pacer("hourly").price(standing(newest=good.record))
    assert near is not None
    assert near.record.status == "optimal"


@pytest.mark.parametrize("pacer", ["hourly", "mirror_descent", "pi"])
@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("went back", {"spent": 25_599}),
        ("went back", {"requests": 799}),
        ("clocks disagree", {"now": NOW - timedelta(hours=1, minutes=11)}),
    ],
)
def test_totals_and_clocks_behind_the_newest_price_are_refused(
    standing: Callable[..., CampaignState], pacer: str, reason: str, changes: dict[str, Any]
) -> None:
    start = make_pacer("hourly").price(standing(8.0, 25_600, 800, now=NOW))
    assert start is not None
    with pytest.raises(NotCertified, match=reason):
        make_pacer(pacer).price(
            standing(8.5, slot_and_step=(8, 6), newest=start.record, **{"spent": 28_800, **changes})
        )


def test_mirror_descent_solves_on_the_hour_and_moves_the_price_by_the_excess_per_request_in_between(
    standing: Callable[..., CampaignState],
) -> None:
    pacer = make_pacer("mirror_descent", gain=0.7)
    anchor = pacer.price(standing())
    assert anchor is not None
    assert anchor.record.status == "optimal"
    newest = anchor.record
    money, expected = newest.plan[-1] - newest.plan[0], newest.expected
    moved = pacer.price(standing(9.25, 28_800 + 1500, 930, slot_and_step=(9, 3), newest=newest, version=2))
    assert moved is not None
    # Entropic mirror descent over n requests of mean cost c̄: log λ rises by (gain/expected)·n·(c̄/ρ − 1).
    rho = money / expected
    change = 0.7 / expected * 30 * (1500 / 30 / rho - 1)
    assert np.log(price(moved.record) / price(newest)) == pytest.approx(change, rel=1e-12)
    assert (moved.record.status, moved.record.step, moved.record.slot) == ("steered", 3, 9)
    # Many requests at the planned cost each do not move it: the next solve counts them.
    still = pacer.price(standing(9.25, round(28_800 + 90 * rho), 990, slot_and_step=(9, 3), newest=newest, version=2))
    assert still is not None
    assert price(still.record) == pytest.approx(price(newest), rel=1e-4)
    solved = pacer.price(standing(10.0, 32_000, 1000, newest=moved.record, version=3))
    assert solved is not None
    assert solved.record.status == "optimal"


def test_pi_steers_by_the_distance_from_the_first_plan_in_velocity_form(standing: Callable[..., CampaignState]) -> None:
    pacer = make_pacer("pi", proportional=3.0, integral=0.5)
    newest = pacer.price(standing(0.0, 0, 0, slot_and_step=(0, 0))).record  # type: ignore[union-attr]
    first_plan, logs, errors = newest.plan, [np.log(price(newest))], [0.0]
    for slot, spent in ((1, 4000), (2, 6000), (3, 11_000)):
        found = pacer.price(standing(float(slot), spent, slot * 100, newest=newest, version=slot + 1))
        assert found is not None
        errors.append((spent - first_plan[slot]) / first_plan[-1])
        logs.append(np.log(price(found.record)))
        newest = found.record
        assert newest.plan[1:] == first_plan[slot + 1 :]
    expected = logs[0] + 3.0 * np.array(errors) + 0.5 * np.cumsum(errors)
    np.testing.assert_allclose(logs, expected, rtol=1e-9)


def test_pi_moves_the_price_after_hours_without_spend(standing: Callable[..., CampaignState]) -> None:
    pacer, newest = make_pacer("pi"), None
    prices = []
    for hour in range(5):
        found = pacer.price(standing(float(hour), 0, 100 * hour, newest=newest, version=hour + 1))
        assert found is not None
        newest = found.record
        prices.append(price(newest))
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] < prices[1] < prices[0]


@pytest.mark.parametrize("name", ["pi", "static", "constant", "hourly", "mirror_descent"])
def test_a_new_model_gets_a_price_of_its_own(standing: Callable[..., CampaignState], name: str) -> None:
    first = make_pacer("hourly").price(standing(8.0, 25_600, 800))
    assert first is not None
    found = make_pacer(name).price(standing(newest=first.record, model_version="newer", version=2))
    assert found is not None
    assert (found.record.model_version, found.record.status) == ("newer", "optimal")
    if name == "static":
        assert make_pacer(name).price(standing(newest=found.record, model_version="newer", version=3)) is None


def test_the_pacing_error_is_what_was_paid_over_what_was_planned(standing: Callable[..., CampaignState]) -> None:
    start = make_pacer("hourly").price(standing(8.0, 25_600, 800))
    assert start is not None
    planned = start.record.planned(9.0)
    later = make_pacer("hourly").price(standing(spent=30_000, newest=start.record))
    assert later is not None
    assert later.record.pacing_error == pytest.approx(30_000 / planned - 1)
    assert later.record.seconds > 0


def value(setting: Setting, outcomes: Any) -> float:
    return float(outcomes.worth @ outcomes.expected_response)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "store_down"])
def test_on_every_kind_of_day_the_closing_pacer_ends_within_the_budget_and_near_the_optimum(
    make_setting: MakeSetting, name: str
) -> None:
    kind = scenario(name)
    setting = kind.apply(make_setting(7, requests=8000, shock=kind.shock))
    played = kind.run(setting, make_pacer("closing"))
    limit = setting.campaign.budget.limit
    assert played.outcomes.cost.sum() <= limit
    assert played.outcomes.cost.sum() == pytest.approx(limit, rel=1e-2 if name == "response_drift" else 3e-3)
    assert value(setting, played.outcomes) > 0.97 * optimum(setting)
    kept = [note for note in played.slots["note"] if note]
    assert len(kept) == (4 if name == "dead_feed" else 0)


def test_a_dead_store_keeps_the_price_as_a_dead_feed_does(make_setting: MakeSetting) -> None:
    runs = []
    for name in ("dead_feed", "store_down"):
        kind = scenario(name)
        setting = kind.apply(make_setting(7, requests=3000, shock=kind.shock))
        runs.append(kind.run(setting, make_pacer("hourly")))
    np.testing.assert_array_equal(runs[0].outcomes.level, runs[1].outcomes.level)
    assert [note.split(":")[0] for note in runs[1].slots["note"] if note] == ["Unavailable"] * 4


def test_requests_that_dying_replicas_lost_are_sent_again_and_none_is_lost(make_setting: MakeSetting) -> None:
    kind, plain = scenario("replicas_dying"), make_setting(2, requests=3000)
    day = kind.apply(plain).day
    assert sorted(day.request_id.tolist()) == sorted(plain.day.request_id.tolist())
    inside = [int(((one.at >= 15) & (one.at < 16)).sum()) for one in (plain.day, day)]
    assert 0.35 < inside[1] / inside[0] < 0.65


def test_with_outcomes_known_late_the_budget_still_holds(make_setting: MakeSetting) -> None:
    setting = make_setting(4, requests=6000)
    played = SCENARIOS["stationary"].run(setting, make_pacer("closing"), delay=0.5)
    limit = setting.campaign.budget.limit
    assert 0.97 * limit < played.outcomes.cost.sum() <= limit
    assert value(setting, played.outcomes) > 0.97 * optimum(setting)


def test_the_campaign_says_which_pacer(make_setting: MakeSetting) -> None:
    campaign = replace(make_setting().campaign, pacer="hourly")
    again = type(campaign).from_dict(json.loads(json.dumps(campaign.to_dict())))
    assert again.pacer == "hourly"
    assert type(campaign).from_dict({k: v for k, v in campaign.to_dict().items() if k != "pacer"}).pacer == "closing"


def test_closing_asked_only_on_the_hour_is_hourly() -> None:
    """Where no job comes in the last hour's steps, the default still prices every hour."""
    closing, hourly = (make_pacer(name).moments(24) for name in ("closing", "hourly"))
    assert [scheduled_slot(closing, slot + 0.03) for slot in range(24)] == [
        scheduled_slot(hourly, slot + 0.03) for slot in range(24)
    ]
