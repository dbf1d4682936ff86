"""The interval of the rest of a window: against simulated days whose hours differ from their plans."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from shadowprice.pacing.outlook import outlook
from shadowprice.price import PriceRecord

OPENED = datetime(2026, 3, 1, tzinfo=UTC)
HOURS, DAYS = 24, 2000


def record(slot: int, plan: list[float]) -> PriceRecord:
    return PriceRecord(
        campaign="spring",
        version=slot + 1,
        slot=slot,
        prices={"budget": 0.004},
        tie_share=0.4,
        status="optimal",
        primal=10.0,
        dual=10.0,
        gap=1e-9,
        violation=0.0,
        spent=0,
        remaining=100,
        sample_rows=10,
        model_version="model-1",
        solved_at=OPENED + timedelta(hours=slot),
        expires_at=OPENED + timedelta(hours=slot + 2),
        window=OPENED,
        at=float(slot),
        requests=0,
        expected=1.0,
        plan=tuple(plan),
        arrivals=tuple(range(len(plan))),
    )


@pytest.mark.parametrize("seen", [4, 12])
def test_it_covers_what_is_paid_by_the_end_at_its_rate(seen: int) -> None:
    random, covered, nearer = np.random.default_rng(0), 0, 0
    hourly = 100 * (1 + 0.5 * np.sin(np.arange(HOURS) / 4))
    for _ in range(DAYS):
        ratio = random.normal(1.1, 0.15, HOURS)
        paid = np.concatenate([[0.0], np.cumsum(hourly * ratio)])
        records = [record(k, [paid[k], *(paid[k] + np.cumsum(hourly[k:]))]) for k in range(seen + 1)]
        found = outlook(records)
        assert found is not None
        assert (found.steps, found.at[-1]) == (seen, HOURS)
        assert (np.diff(found.low) >= 0).all()
        covered += found.low[-1] <= paid[-1] <= found.high[-1]
        nearer += abs(found.expected[-1] - paid[-1]) < abs(records[-1].plan[-1] - paid[-1])
    assert 0.93 <= covered / DAYS <= 0.97
    assert nearer / DAYS > 0.6


def test_it_ends_at_the_limit_and_never_falls() -> None:
    records = [record(k, [100.0 * k, *(100.0 * k + np.cumsum(np.full(HOURS - k, 90.0)))]) for k in range(6)]
    found = outlook(records, limit=1500.0)
    assert found is not None
    assert found.high.max() == found.expected.max() == 1500.0
    for each in (found.low, found.expected, found.high):
        assert each[0] == 500.0
        assert (np.diff(each) >= 0).all()
    # Equal ratios leave no doubt.
    np.testing.assert_allclose(found.low, found.high)


def test_few_steps_or_no_plan_have_none() -> None:
    assert outlook([]) is None
    assert outlook([record(k, [0.0, 1.0, 2.0]) for k in range(3)]) is None
    assert outlook([record(k, []) for k in range(9)]) is None
