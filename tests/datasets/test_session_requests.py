"""Voucher sessions as the canonical tables of a campaign."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.campaign import Campaign
from shadowprice.currency import USD, Currency
from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.session_requests import request_tables, with_served
from shadowprice.datasets.truth import true_curves
from shadowprice.datasets.vouchers import generate, load, read
from shadowprice.errors import InvalidInput
from shadowprice.tables import SessionTables, campaign_from_tables, labeled


def test_each_session_is_a_request_that_was_answered_with_its_voucher() -> None:
    dataset = load(None, seed=1, sessions=400)
    assert dataset.sessions is not None
    session = dataset.sessions.session.set_index("session_id")
    campaign = campaign_from_tables(dataset.tables)
    terms = campaign.terms("customer")
    rows = labeled(dataset.tables, "customer").set_index("request_id")
    own = session.loc[rows.index]
    assert [terms.offers[level] for level in rows["level"]] == own["voucher_id"].tolist()
    assert rows["response"].tolist() == own["label"].tolist()
    assert [terms.incentives[level] for level in rows["level"]] == own["discount"].tolist()
    assert (rows["decided_at"] == own["collected_at"]).all()
    last = session["collected_at"].max()
    assert campaign.starts_at == (last.normalize() + pd.Timedelta(days=1)).to_pydatetime()


def test_vouchers_of_one_discount_have_names_and_keep_it_as_their_level() -> None:
    campaign = campaign_from_tables(load(None, seed=0, sessions=400).tables)
    terms = campaign.terms("customer")
    assert len(set(terms.levels)) < len(terms.levels) == len(set(terms.offers))
    assert terms.levels == terms.amounts == tuple(sorted(terms.levels))
    assert not terms.ordered
    assert not terms.control
    assert terms.offers == campaign.offer_ids["customer"]
    assert Campaign.from_dict(campaign.to_dict()) == campaign


def test_the_name_of_a_voucher_has_its_least_spend_and_validity() -> None:
    dataset = load(None, seed=0, sessions=400)
    assert dataset.sessions is not None
    session = dataset.sessions.session
    terms = session.drop_duplicates("voucher_id").set_index("voucher_id")
    campaign = campaign_from_tables(dataset.tables).terms("customer")
    assert campaign.names(Currency.of(USD)) == tuple(
        f"{name} (${terms.discount[name] / 100:.2f} from ${terms.min_spend[name] / 100:.2f}, 7 days)"
        for name in campaign.offers
    )
    other = session["voucher_id"] == campaign.offers[0]
    late = session["expires_at"] + pd.Timedelta(days=1)
    mixed = session.assign(expires_at=late.where(other & (np.arange(len(session)) % 2 == 0), session["expires_at"]))
    tables = request_tables(SessionTables(mixed, dataset.sessions.behaviour), {})
    found = campaign_from_tables(tables).terms("customer")
    assert found.valid_hours == (0, *(168,) * (len(found.levels) - 1)), "a voucher of two validities names none"
    assert found.least_spends == campaign.least_spends


def test_the_truth_is_that_of_the_latest_session_of_each_person() -> None:
    data, dataset = generate(seed=1, sessions=300), load(None, seed=1, sessions=300)
    session = data.tables.session.reset_index(drop=True)
    latest = session.sort_values("collected_at").groupby("user_id").tail(1)
    assert data.truth is not None
    assert dataset.truth is not None
    found = true_curves(dataset.truth, "customer", latest["user_id"], data.truth.shape[1])
    np.testing.assert_allclose(found.T, data.truth[latest.index.to_numpy()])


def test_without_a_budget_a_day_has_what_a_day_of_the_last_month_cost() -> None:
    dataset = load(None, seed=1, sessions=1000)
    assert dataset.sessions is not None
    session = dataset.sessions.session
    recent = session[session["collected_at"] >= session["collected_at"].max() - pd.Timedelta(days=31)]
    spent = float((recent["discount"] * recent["label"]).sum()) / 31
    assert campaign_from_tables(dataset.tables).budget.limit == pytest.approx(spent, abs=1)
    given = load(None, sessions=400, budget=700, requests=9, starts_at="2026-11-01T05:00+05:00", campaign="autumn")
    campaign = campaign_from_tables(given.tables)
    assert (campaign.name, campaign.budget.limit, campaign.expected_requests) == ("autumn", 700, 9)
    assert campaign.starts_at == datetime(2026, 11, 1, tzinfo=UTC)
    for wrong in ("tomorrow", "2026-11-01"):
        with pytest.raises(InvalidInput, match=r"starts_at.*such as 2026-11-01T00:00Z"):
            load(None, sessions=400, starts_at=wrong)


def test_a_day_for_which_nothing_was_ever_redeemed_needs_a_budget(tmp_path: Path) -> None:
    tables = generate(seed=2, sessions=60).tables
    write_tables(SessionTables(tables.session.assign(label=0, redeemed_at=pd.NaT), tables.behaviour), tmp_path)
    with pytest.raises(InvalidInput, match="budget: is needed"):
        load(str(tmp_path))
    assert campaign_from_tables(load(str(tmp_path), budget=500).tables).budget.limit == 500


def test_without_test_from_the_newest_fifth_of_the_sessions_tests(tmp_path: Path) -> None:
    write_tables(generate(seed=2, sessions=500).tables, tmp_path)
    found = read(str(tmp_path))
    assert (found.part() == "test").mean() == pytest.approx(0.2, abs=0.01)
    for wrong in ("yesterday", "2026-02-01"):
        with pytest.raises(InvalidInput, match=r"test_from.*such as 2026-11-01T00:00Z"):
            read(str(tmp_path), test_from=wrong)


def test_served_requests_become_sessions_and_known_ones_stay() -> None:
    tables = generate(seed=3, sessions=50).tables
    known = tables.session.iloc[0]
    at = pd.Series(pd.to_datetime(["2026-04-01T10:00Z", "2026-04-01T11:00Z", "2026-04-01T12:00Z"]))
    exposure = pd.DataFrame(
        {
            "request_id": ["r1", known["session_id"], "r2"],
            "account_id": known["user_id"],
            "offer_id": known["voucher_id"],
            "decided_at": at,
        }
    )
    outcome = pd.DataFrame(
        {
            "request_id": exposure["request_id"],
            "redeemed": pd.array([1, 1, 0], dtype="Int64"),
            "observed_at": at + pd.Timedelta(hours=2),
        }
    )
    dropped = tables.session["session_id"].iloc[-1]
    row = {
        "phase": "before",
        "action": "cart",
        "item_id": "i1",
        "ts": at[0] - pd.Timedelta(minutes=5),
        "price_level": 3,
    }
    carts = pd.DataFrame([{"session_id": name, **row} for name in ("r1", known["session_id"])])
    found = with_served(tables, exposure, outcome, carts.astype({"price_level": "Int64"}), 72.0, [dropped])
    session = found.session.set_index("session_id")
    assert len(session) == len(tables.session) - 1 + 2
    assert dropped not in set(found.behaviour["session_id"])
    own, before = (each.behaviour["session_id"].value_counts() for each in (found, tables))
    assert own["r1"] == 1
    assert own.get(known["session_id"], 0) == before.get(known["session_id"], 0), "a known session stays as it is"
    assert session.loc[known["session_id"], "collected_at"] == known["collected_at"]
    first, second = session.loc["r1"], session.loc["r2"]
    assert (first["label"], second["label"]) == (1, 0)
    assert first["redeemed_at"] == at[0] + pd.Timedelta(hours=2)
    assert pd.isna(second["redeemed_at"])
    assert second["expires_at"] == at[2] + pd.Timedelta(hours=72)
    assert (first["discount"], first["min_spend"]) == (known["discount"], known["min_spend"])
