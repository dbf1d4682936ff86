"""Who got what: sums against the outcomes themselves."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.pacing.replay.outcomes import NamedCurves, Outcomes
from shadowprice.reports import money_figures
from shadowprice.reports.mix import FILE, Mix, mix_of, segments_of, thirds, write_mix
from shadowprice.reports.report import render, write_report
from shadowprice.storage import from_json, to_json

LEVELS = {"customer": (20, 60, 200), "merchant": (10, 50)}
SEGMENTS = {"customer": {f"a{k}": f"c{k % 3}" for k in range(90)}}


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.5),
        },
        budget=Budget(limit=500_000),
        starts_at=pd.Timestamp("2026-03-08", tz="UTC").to_pydatetime(),
    )


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """Requests of both sides; some of them were given nothing."""
    rng = np.random.default_rng(2)
    n = 5000
    side = np.where(rng.random(n) < 0.7, "customer", "merchant")
    level = np.where(side == "customer", rng.integers(-1, 3, n), rng.integers(0, 2, n)).astype(np.int32)
    paid = np.array([[20, 60, 200, 0], [10, 50, 0, 0]])[(side == "merchant").astype(int), level]
    response = np.where(level >= 0, (rng.random(n) < 0.3).astype(float), 0.0)
    return Outcomes(
        request_id=np.array([f"r{k}" for k in range(n)]),
        account_id=np.array([f"a{k}" for k in rng.integers(0, 100, n)]),
        side=side,
        at=np.sort(rng.uniform(0, 24, n)),
        level=level,
        incentive=paid.astype(np.int64),
        response=response,
        cost=np.where(side == "customer", paid * response, paid).astype(np.int64),
        expected_response=np.full(n, 0.3),
        expected_cost=0.3 * paid,
        worth=np.ones(n),
        amount=np.zeros(n, dtype=np.int64),
    )


@pytest.fixture(scope="module")
def found(campaign: Campaign, outcomes: Outcomes) -> Mix:
    return mix_of(campaign, outcomes, SEGMENTS)


def test_every_cell_is_the_sum_of_its_requests(found: Mix, outcomes: Outcomes) -> None:
    assert found.cost.sum() == outcomes.cost.sum()
    assert found.requests.sum() == len(outcomes)
    rng = np.random.default_rng(0)
    for cell in rng.integers(0, found.cost.size, 30):
        mine = (
            (outcomes.side == found.side[cell])
            & (outcomes.at.astype(int) == found.hour[cell])
            & (outcomes.level == found.level[cell])
        )
        if found.side[cell] == "customer":
            segment = [SEGMENTS["customer"].get(account, "not known") for account in outcomes.account_id]
            mine &= np.array(segment) == found.segment[cell]
        else:
            assert found.segment[cell] == "all"
        assert found.requests[cell] == mine.sum()
        assert found.cost[cell] == outcomes.cost[mine].sum()
        assert found.responses[cell] == outcomes.response[mine].sum()


def test_the_table_beside_the_report_has_the_same_sums_to_the_minor_unit(found: Mix, example, tmp_path) -> None:
    write_report(dataclasses.replace(example, mix=found), tmp_path / "report.html")
    table = pd.read_csv(tmp_path / FILE)
    assert list(table.columns) == [
        "side",
        "segment",
        "hour",
        "level",
        "incentive_minor_units",
        "requests",
        "responses",
        "paid_minor_units",
    ]
    assert table["paid_minor_units"].sum() == found.cost.sum()
    assert pd.api.types.is_integer_dtype(table["paid_minor_units"])
    assert table.loc[table["level"].isna(), "incentive_minor_units"].eq(0).all()
    assert write_mix(found, tmp_path / "again.csv").read_text() == (tmp_path / FILE).read_text()
    write_report(example, tmp_path / "alone" / "report.html")
    assert not (tmp_path / "alone" / FILE).exists()


def test_the_page_shows_the_totals_of_each_side_and_the_terms(found: Mix, campaign: Campaign, example) -> None:
    page = render(dataclasses.replace(example, mix=found, campaign=campaign))
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for side in ("customer", "merchant"):
        paid = found.cost[found.side == side].sum() / 100
        assert f"${paid:,.2f}" in text
    assert "Starts 2026-03-08 00:00 UTC" in text
    assert "Ends 2026-03-09 00:00 UTC, 24 hours" in text
    assert "Incentives of customers $0.20, $0.60 and $2.00" in text
    assert "Paid to merchants for certain" in text
    assert "Worth of one share 0.5" in text
    assert text.count("not known") == 2  # in the picture and in the table


def test_a_hostile_segment_is_shown_and_never_run(campaign: Campaign, outcomes: Outcomes, example) -> None:
    evil = {"customer": dict.fromkeys(SEGMENTS["customer"], "<script>alert(1)</script>")}
    page = render(dataclasses.replace(example, mix=mix_of(campaign, outcomes, evil)))
    assert "<script" not in page


def test_segments_are_a_column_of_the_account_or_thirds_by_response() -> None:
    accounts = pd.DataFrame(
        {
            "account_id": ["a", "b", "a", "s", "t", "u"],
            "side": ["customer"] * 3 + ["merchant"] * 3,
            "snapshot_ts": pd.to_datetime(["2026-01-01", "2026-01-01", "2026-01-02", *["2026-01-01"] * 3], utc=True),
            "c_region": ["north", "south", "west", None, None, None],
        }
    )
    model = {
        "customer": NamedCurves(np.array(["a", "b"]), Curves(np.array([10]), np.array([[0.1, 0.2]]))),
        "merchant": NamedCurves(np.array(["s", "t", "u"]), Curves(np.array([10]), np.array([[0.1, 0.5, 0.9]]))),
    }
    found = segments_of(accounts, model)
    assert found["customer"] == {"a": "region west", "b": "region south"}
    assert found["merchant"] == {"s": "least responsive", "t": "middle", "u": "most responsive"}


def test_accounts_that_respond_alike_are_in_one_third() -> None:
    assert set(thirds(np.ones(9))) == {"least responsive"}
    assert np.unique(thirds(np.arange(9.0)), return_counts=True)[1].tolist() == [3, 3, 3]


def test_a_mix_is_the_same_after_json(found: Mix) -> None:
    again = from_json(Mix, to_json(found))
    pd.testing.assert_frame_equal(again.frame(), found.frame())


def test_the_figure_of_many_offers_with_long_terms_keeps_its_axes() -> None:
    """matplotlib warns where labels leave no room for axes, and a warning fails a test."""
    hour, level = (each.ravel() for each in np.meshgrid(np.arange(24), np.arange(8)))
    each, names = np.ones(level.size), [f"v{k:03} (${k + 4}.00 from ${k + 20}.00, 7 days)" for k in range(8)]
    side, segment = np.full(level.size, "customer"), np.full(level.size, "all")
    found = Mix(side, segment, hour, level, 100 * level, each.astype(np.int64), each, each.astype(np.int64))
    drawn = money_figures.mix(found, "customer", names)
    assert all(drawn.count(name[:16]) >= 2 for name in names)
