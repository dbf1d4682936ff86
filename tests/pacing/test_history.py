"""Traffic fitted on the past, and the number of requests that a campaign states."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from operations.measure import before_start
from shadowprice.campaign import Campaign, Side
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import (
    FILE,
    Traffic,
    fit_traffic,
    read_part,
    traffic_file,
)
from shadowprice.pacing.replay.day import Accounts, Day, draw_day
from shadowprice.tables import Tables, campaign_from_tables

SMALL = {"customers": 600, "merchants": 150, "both": 15}


def served(tables: Tables, campaign: Campaign) -> Mapping[Side, pd.Series]:
    account = tables.account
    return {side: account.loc[account["side"] == side, "account_id"] for side in campaign.sides}


def replayed(**options: object) -> tuple[Campaign, Traffic, Day]:
    """The campaign day of a generated world, as the replay draws it."""
    tables = load("world", seed=0, **{**SMALL, **options}).tables
    campaign = campaign_from_tables(tables)
    traffic = fit_traffic(campaign, tables, served(tables, campaign))
    return campaign, traffic, draw_day(traffic.forecast(campaign).expected, traffic.accounts, seed=0)


@pytest.mark.parametrize("trials", [8, 32])
def test_the_replayed_day_has_the_requests_that_its_budget_is_for(trials: int) -> None:
    campaign, _, day = replayed(trials=trials, day_requests=5000, budget_per_request=20.0)
    # a Poisson count of mean 5,000 leaves 5 standard deviations once in two million days
    assert abs(len(day) - 5000) < 5 * np.sqrt(5000)
    assert campaign.budget.limit == 20 * 5000


def test_a_stated_number_of_requests_leaves_the_shares_of_sides_hours_and_accounts() -> None:
    tables = load("world", seed=0, **SMALL).tables
    campaign = campaign_from_tables(tables)
    past = Campaign.from_dict({**campaign.to_dict(), "expected_requests": None})
    stated, plain = (fit_traffic(each, tables, served(tables, each)) for each in (campaign, past))
    assert sum(map(np.sum, plain.forecast(past).expected.values())) == pytest.approx(750 * 8 / 2)
    for side in campaign.sides:
        np.testing.assert_array_equal(stated.profiles[side].shares, plain.profiles[side].shares)
        np.testing.assert_array_equal(stated.accounts[side].activity, plain.accounts[side].activity)
        np.testing.assert_allclose(
            stated.forecast(campaign).expected[side], 10 * plain.forecast(past).expected[side], rtol=1e-12
        )


def test_the_stated_number_is_that_of_the_window_however_long_it_is() -> None:
    tables = load("world", seed=0, **SMALL).tables
    day = campaign_from_tables(tables)
    for hours in (5, 60):
        campaign = Campaign.from_dict({**day.to_dict(), "hours": hours, "expected_requests": 900})
        expected = fit_traffic(campaign, tables, served(tables, campaign)).forecast(campaign).expected
        assert sum(map(np.sum, expected.values())) == pytest.approx(900)


def test_a_number_that_is_stated_changed_or_removed_later_counts_at_once(tmp_path: Path) -> None:
    """The campaign's file may change after featurize stored the traffic."""
    tables = load("world", seed=0, **SMALL).tables
    campaign = campaign_from_tables(tables)
    for at_featurize in (None, 3000):
        one = Campaign.from_dict({**campaign.to_dict(), "expected_requests": at_featurize})
        fit_traffic(one, tables, served(tables, one)).save(tmp_path)
        for hours, number, told in ((24, 900, 900), (24, 40_000, 40_000), (6, 3000, 3000), (24, None, 3000)):
            later = Campaign.from_dict({**campaign.to_dict(), "expected_requests": number, "hours": hours})
            remaining = before_start(later, Traffic.load(tmp_path)).remaining
            assert sum(map(np.sum, remaining.values())) == pytest.approx(told)


def test_the_day_of_the_default_world_is_that_of_its_trial() -> None:
    """The default states as many requests as a day of its trial has, so nothing changes."""
    tables = load("world", seed=0).tables
    campaign = campaign_from_tables(tables)
    past = Campaign.from_dict({**campaign.to_dict(), "expected_requests": None})
    stated, plain = (
        draw_day(traffic.forecast(each).expected, traffic.accounts, seed=0)
        for each in (campaign, past)
        for traffic in [fit_traffic(each, tables, served(tables, each))]
    )
    np.testing.assert_array_equal(stated.request_id, plain.request_id)
    np.testing.assert_array_equal(stated.account_id, plain.account_id)
    np.testing.assert_array_equal(stated.at, plain.at)


@pytest.mark.parametrize(("days", "opens", "closes"), [(7, 0, 24), (7, 9, 21), (1, 9, 21), (1, 0, 24)])
@pytest.mark.parametrize("zone", [0, 8, 16])
def test_the_level_is_that_of_whole_days_wherever_the_days_begin(days: int, opens: int, closes: int, zone: int) -> None:
    """Sixty requests in each hour that is open, on days of a zone ``zone`` hours before UTC."""
    tables = load("world", seed=0, **SMALL).tables
    minutes = np.arange(days * 24 * 60).reshape(days, 24, 60)[:, opens:closes].ravel()
    past = tables.exposure[tables.exposure["side"] == "customer"].head(1)
    past = past.loc[past.index.repeat(minutes.size)].reset_index(drop=True)
    start = pd.Timestamp("2026-03-02T00:00:00Z") - pd.Timedelta(hours=zone)
    past = past.assign(
        request_id=[f"r{minute}" for minute in minutes], decided_at=start + pd.to_timedelta(minutes, unit="min")
    )
    campaign = Campaign.from_dict({**campaign_from_tables(tables).to_dict(), "expected_requests": None})
    found = fit_traffic(campaign, tables.replaced(exposure=past), served(tables, campaign)).profiles["customer"]
    assert found.level == pytest.approx(60 * (closes - opens))
    open_hours = (np.arange(opens, closes) - zone) % 24
    np.testing.assert_allclose(found.shares[open_hours], found.shares[open_hours[0]])


def test_the_context_of_the_newest_past_requests_is_kept_where_conditions_read_it(tmp_path: Path) -> None:
    tables = load("world", seed=0, context=1.0, **{**SMALL, "both": 0}).tables
    plain = campaign_from_tables(tables)
    rule = {"name": "apps", "expression": 'context.c_channel == "app"', "side": "customer"}
    campaign = Campaign.from_dict({**plain.to_dict(), "rules": [rule]})
    unknown = {**rule, "expression": 'context.c_channel == "app" && context.x_nowhere > 1.0'}
    lacks = Campaign.from_dict({**plain.to_dict(), "rules": [unknown]})
    assert fit_traffic(lacks, tables, served(tables, lacks)).contexts == {}
    assert fit_traffic(plain, tables, served(tables, plain)).contexts == {}
    fit_traffic(campaign, tables, served(tables, campaign)).save(tmp_path)
    (found,) = read_part(tmp_path, "contexts").values()
    exposure = tables.exposure
    mine = exposure[exposure["side"] == "customer"].sort_values("decided_at", ascending=False, kind="stable")
    assert list(found) == ["c_channel"]
    assert found["c_channel"].tolist() == mine["c_channel"].head(len(found)).tolist()
    assert len(found) == min(4000, len(mine))


def small_traffic(account: str) -> Traffic:
    """One account that asks, with a partner and a context."""
    accounts = {"customer": Accounts(np.array([account]), np.ones(1))}
    pairs = {"customer": pd.DataFrame({"account_id": [account], "partner_id": ["m"], "activity": [1]})}
    contexts = {"customer": pd.DataFrame({"c_channel": ["app"]})}
    return Traffic({"customer": Profile(np.ones(24), 100.0)}, accounts, pairs, contexts)


def test_a_save_that_is_killed_leaves_files_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_traffic("a").save(tmp_path)

    def cut(_: pd.DataFrame, path: Path, **__: object) -> None:
        Path(path).write_bytes(b"PAR1")
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_parquet", cut)
    with pytest.raises(KeyboardInterrupt):
        small_traffic("b").save(tmp_path)
    assert Traffic.load(tmp_path).accounts["customer"].account_id.tolist() == ["a"]


@pytest.mark.parametrize(
    ("file", "read"),
    [
        (FILE, Traffic.load),
        (traffic_file("customer"), Traffic.load),
        (traffic_file("customer", "pairs"), partial(read_part, part="pairs")),
        (traffic_file("customer", "contexts"), partial(read_part, part="contexts")),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, file: str, read: Callable[[Path], object]) -> None:
    small_traffic("a").save(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(
        InvalidInput, match=f"{re.escape(file)}: cannot be read .*; run `shadowprice job featurize` again"
    ):
        read(tmp_path)
