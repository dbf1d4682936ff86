"""Periods of limits against pandas' calendars, at every quarter of an hour around each change of clocks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pandas as pd
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.errors import InvalidInput
from shadowprice.limits import Calendar, GroupBudget, Limits, Period, check_alike

QUARTER = timedelta(minutes=15)
PERIODS: list[Period] = ["month", "week", "day", "hour"]
FREQUENCY = {"month": "M", "week": "W", "day": "D"}


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("UTC", datetime(2026, 12, 26, tzinfo=UTC)),
        ("Asia/Kolkata", datetime(2026, 12, 26, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 3, 25, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 22, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 10, 29, tzinfo=UTC)),
    ],
)
def test_periods_begin_where_the_clock_of_the_zone_says(zone: str, first: datetime) -> None:
    calendar, times = Calendar(zone), [first + place * QUARTER for place in range(10 * 96)]
    local = pd.DatetimeIndex(times).tz_convert(zone)
    cuts = calendar.cuts(times[0], times[-1])
    for period in PERIODS:
        names = [calendar.name(period, at) for at in times]
        begins = [place for place in range(1, len(times)) if names[place] != names[place - 1]]
        if period == "hour":
            wanted = [place for place in range(1, len(times)) if local[place].minute == 0]
        else:
            parts = local.tz_localize(None).to_period(FREQUENCY[period])
            wanted = [place for place in range(1, len(times)) if parts[place] != parts[place - 1]]
        assert begins == wanted
        assert len(set(names)) == len(begins) + 1, "a name comes back"
        assert {times[place] for place in begins} <= set(cuts)
        numbers = [calendar.number(period, at) for at in times]
        assert [later - one for one, later in pairwise(numbers)] == [
            int(place in begins) for place in range(1, len(times))
        ]
        for start, after in pairwise(begins):
            assert {calendar.began(period, at) for at in times[start:after]} == {times[start]}


def campaign(**fields: object) -> Campaign:
    daily = GroupBudget(name="daily", limit=100, period="day", rolls_over=True)
    return Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(limit=10_000),
        starts_at=datetime(2026, 3, 28, 12, tzinfo=UTC),
        hours=72,
        limits=Limits(budgets=(daily,), time_zone="Europe/Berlin"),
        **fields,  # type: ignore[arg-type]
    )


def test_a_budget_that_rolls_over_grows_at_midnight_of_its_zone_and_not_beyond_the_window() -> None:
    spring = campaign()
    midnight = datetime(2026, 3, 28, 23, tzinfo=UTC)  # the night in which clocks go forward
    most = {
        at: spring.bounds(at)[0].most_amount
        for at in (
            datetime(2026, 3, 1, tzinfo=UTC),
            midnight - QUARTER,
            midnight,
            midnight + timedelta(hours=23),
            midnight + timedelta(days=30),
        )
    }
    assert list(most.values()) == [100, 100, 200, 300, 400]
    assert spring.limits.current(midnight) == {"daily": "daily||"}
    again = Campaign.from_dict(spring.to_dict())
    assert again == spring
    assert again.limits.only([]).time_zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("limits.time_zone", {"time_zone": "Europe/Nowhere"}),
        ("limits.time_zone", {"time_zone": 3}),
        ("limits.budgets.rolls_over", {"budgets": [{"name": "a", "limit": 1, "rolls_over": True}]}),
        ("limits.budgets.rolls_over", {"budgets": [{"name": "a", "limit": 1, "period": "day", "rolls_over": 1}]}),
        (
            "limits.budgets.rolls_over",
            {"budgets": [{"name": "a", "limit": 1, "period": "day", "rolls_over": True, "sense": "at_least"}]},
        ),
        (
            "limits.budgets.rolls_over",
            {
                "budgets": [
                    {"name": "a", "limit": 1, "period": "day", "rolls_over": True, "campaigns": ["spring", "other"]}
                ]
            },
        ),
    ],
)
def test_a_zone_that_is_none_and_a_rest_that_cannot_roll_are_refused(field: str, limits: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as error:
        Limits.from_dict(limits)
    assert error.value.field == field


def test_campaigns_that_share_a_daily_limit_share_its_midnight() -> None:
    shared = GroupBudget(name="all", limit=100, period="day", campaigns=("a", "b"))
    check_alike({"a": Limits(budgets=(shared,)), "b": Limits(budgets=(shared,))})
    with pytest.raises(InvalidInput, match="in the same way"):
        check_alike({"a": Limits(budgets=(shared,)), "b": Limits(budgets=(shared,), time_zone="Asia/Kolkata")})
