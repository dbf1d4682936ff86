"""Days of requests: their law, their order, and what a shock leaves alone."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.pacing.replay.day import Accounts, Day, draw_day
from shadowprice.reports.campaign_day import rush_hour

EXPECTED: dict[Side, np.ndarray] = {"customer": np.linspace(5, 200, 24), "merchant": np.full(24, 30.0)}
WHO: dict[Side, Accounts] = {
    "customer": Accounts(np.array(["a", "b", "c"]), np.array([1.0, 2.0, 5.0])),
    "merchant": Accounts(np.array(["m"]), np.array([3.0])),
}


def test_counts_are_poisson_around_the_profile() -> None:
    days = [draw_day(EXPECTED, WHO, seed=seed) for seed in range(40)]
    counts = np.array([day.counts()["customer"] for day in days])
    assert (
        stats.chisquare(counts.sum(axis=0), EXPECTED["customer"] * counts.sum() / EXPECTED["customer"].sum()).pvalue
        > 1e-3
    )
    dispersion = (counts.var(axis=0, ddof=1) / EXPECTED["customer"]).mean()
    assert dispersion == pytest.approx(1.0, abs=0.15)


def test_accounts_ask_in_proportion_to_their_activity() -> None:
    day = draw_day(EXPECTED, WHO, seed=1)
    names, counts = np.unique(day.account_id[day.side == "customer"], return_counts=True)
    assert names.tolist() == ["a", "b", "c"]
    assert stats.chisquare(counts, counts.sum() * np.array([1, 2, 5]) / 8).pvalue > 1e-3


def test_a_day_is_in_order_with_unique_requests_and_repeats_with_its_seed() -> None:
    day, again, other = (draw_day(EXPECTED, WHO, seed=seed) for seed in (3, 3, 4))
    assert (np.diff(day.at) >= 0).all()
    assert np.unique(day.request_id).size == len(day)
    np.testing.assert_array_equal(day.request_id, again.request_id)
    np.testing.assert_array_equal(day.at, again.at)
    assert len(other) != len(day) or not np.array_equal(other.at, day.at)
    assert set(day.side.tolist()) == {"customer", "merchant"}


@pytest.mark.parametrize("hours", [1, 2, 6, 12, 13, 36, 168])
def test_a_window_of_any_length_has_the_hour_that_a_run_doubles(hours: int) -> None:
    expected: dict[Side, np.ndarray] = {"customer": np.full(hours, 400.0)}
    plain, rush = draw_day(expected, WHO, seed=5), rush_hour(hours)
    extra = draw_day(expected, WHO, seed=5, shock={rush: 2.0}).counts()["customer"] - plain.counts()["customer"]
    assert np.flatnonzero(extra).tolist() == [rush]
    assert extra[rush] == pytest.approx(400, abs=5 * np.sqrt(1200))


def test_a_shock_multiplies_its_slots_and_leaves_every_other_request_as_it_was() -> None:
    plain = draw_day(EXPECTED, WHO, seed=5)
    shocked = draw_day(EXPECTED, WHO, seed=5, shock={12: 2.0, 20: 0.0})
    for slot in range(24):
        if slot in (12, 20):
            continue
        for name in ("request_id", "account_id", "side", "at"):
            np.testing.assert_array_equal(
                getattr(plain.between(slot, slot + 1), name), getattr(shocked.between(slot, slot + 1), name)
            )
    assert len(shocked.between(20, 20 + 1)) == 0
    doubled = [len(draw_day(EXPECTED, WHO, seed=seed, shock={12: 2.0}).between(12, 12 + 1)) for seed in range(30)]
    assert np.mean(doubled) == pytest.approx(2 * (EXPECTED["customer"][12] + 30), rel=0.05)


def test_slots_and_batches_cut_the_day_without_losing_a_request() -> None:
    day = draw_day(EXPECTED, WHO, seed=6)
    slots = [day.between(slot, slot + 1) for slot in range(24)]
    assert np.concatenate([slot.request_id for slot in slots]).tolist() == day.request_id.tolist()
    assert all(((part.at >= slot) & (part.at < slot + 1)).all() for slot, part in enumerate(slots))
    for side in ("customer", "merchant"):
        assert day.counts()[side].tolist() == [int((part.side == side).sum()) for part in slots]
    batches = list(day.batches(100))
    assert [len(batch) for batch in batches[:-1]] == [100] * (len(batches) - 1)
    assert np.concatenate([batch.at for batch in batches]).tolist() == day.at.tolist()


GOOD: dict[str, object] = {
    "request_id": ["r1", "r2"],
    "account_id": ["a", "b"],
    "side": ["customer", "merchant"],
    "at": [0.5, 1.5],
    "hours": 2,
}


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("request_id", {"request_id": ["r1", "r1"]}),
        ("request_id", {"request_id": ["r1"]}),
        ("account_id", {"account_id": ["a"]}),
        ("side", {"side": ["customer", "courier"]}),
        ("at", {"at": [1.5, 0.5]}),
        ("at", {"at": [0.5, 2.0]}),
        ("at", {"at": [-0.5, 1.0]}),
        ("at", {"at": [0.5, float("nan")]}),
    ],
)
def test_a_malformed_day_names_the_column(field: str, changes: dict[str, object]) -> None:
    Day(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput) as caught:
        Day(**(GOOD | changes))  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("activity", lambda: Accounts(np.array(["a"]), np.array([1.0, 2.0]))),
        ("activity", lambda: Accounts(np.array(["a"]), np.array([-1.0]))),
        ("activity", lambda: Accounts(np.array(["a"]), np.array([0.0]))),
        ("shock", lambda: draw_day(EXPECTED, WHO, seed=0, shock={24: 2.0})),
    ],
)
def test_impossible_traffic_is_refused(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert caught.value.field == field
