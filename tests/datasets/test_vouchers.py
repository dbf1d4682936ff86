"""Generated voucher sessions against S3's regions, and sessions from a folder."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.registry import load
from shadowprice.datasets.voucher_draws import CATEGORIES, HALF_LIFE
from shadowprice.datasets.vouchers import DAYS, generate, read
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.graphs.sessions import SessionLog
from shadowprice.tables import SessionTables, campaign_from_tables


@pytest.mark.parametrize(("region", "published"), [("A", 0.442), ("B", 0.116), ("C", 0.312)])
def test_a_region_has_the_share_of_sessions_with_history_of_the_paper(region: str, published: float) -> None:
    log = SessionLog.build(generate(seed=1, sessions=20_000, region=region).tables)
    frame = log.requests()
    _, at = log.locate(frame)
    shares = (log.history(frame["account_id"], at, 1) >= 0).mean()
    assert shares == pytest.approx(published, abs=0.03)


def test_region_b_has_half_the_vouchers_of_the_others() -> None:
    """S3: 1,000, 500 and 1,000."""
    vouchers = [generate(seed=1, sessions=500, region=r).tables.session["voucher_id"].nunique() for r in "ABC"]
    assert vouchers[0] == vouchers[2] == 2 * vouchers[1]


def test_the_test_takes_the_last_days() -> None:
    data = generate(seed=1, sessions=4000, test_days=21)
    assert (data.part() == "test").mean() == pytest.approx(21 / DAYS, abs=0.02)
    for wrong in (0, DAYS):
        with pytest.raises(InvalidInput, match="test_days"):
            generate(sessions=40, test_days=wrong)


def order_by_hand(carts: pd.DataFrame) -> list[float]:
    """Recency and succession of every category, of one session's carts."""
    late = [int(str(name)[-1]) for name in carts.sort_values("ts", ascending=False)["category"]]
    weight = [2 ** (-rank / HALF_LIFE) for rank in range(len(late))]
    found = []
    for k in range(CATEGORIES):
        recency = sum(w for w, c in zip(weight, late, strict=True) if c == k) / sum(weight) - late.count(k) / len(late)
        pairs = [(before, after) for after, before in pairwise(late)]
        other = (k - 1) % CATEGORIES
        found.append(recency + (pairs.count((other, k)) - pairs.count((k, other))) / max(len(pairs), 1))
    return found


def test_order_adds_recency_and_succession_of_the_carts_to_the_logit_and_leaves_counts_alone() -> None:
    plain, ordered = (generate(seed=3, sessions=400, order=order) for order in (0.0, 12.0))
    tables = ordered.tables.behaviour, plain.tables.behaviour
    before, counted = (each[each["phase"] == "before"] for each in tables)
    pd.testing.assert_series_equal(*(each.groupby(["session_id", "item_id"]).size() for each in (before, counted)))
    assert plain.truth is not None
    assert ordered.truth is not None
    added = np.log(ordered.truth / (1 - ordered.truth)) - np.log(plain.truth / (1 - plain.truth))
    session = {name: at for at, name in enumerate(ordered.tables.session["session_id"])}
    carts = before[before["action"] == "cart"].groupby("session_id")
    untied = {session[str(name)]: order_by_hand(own) for name, own in carts if not own["ts"].duplicated().any()}
    term, rows = 12.0 * np.array(list(untied.values())), added[list(untied)]
    assert len(untied) > 250
    for offer in range(rows.shape[1]):
        shift = rows[:, [offer]] - term
        fits = np.abs(shift - np.median(shift, axis=0)).max(axis=0) < 1e-6
        assert fits.sum() == 1, offer
    with pytest.raises(InvalidInput, match="order: must not be negative"):
        generate(sessions=40, order=-1.0)


def test_a_log_that_ends_while_vouchers_are_valid_shows_the_rate_at_which_they_are_redeemed(tmp_path: Path) -> None:
    """An export ends at one instant: of the newest vouchers it holds those that were redeemed early."""
    data = generate(seed=2, sessions=4000)
    session = data.tables.session.drop(columns="label")
    end = session["collected_at"].max() - pd.Timedelta(days=1)
    session = session[session["collected_at"] <= end]
    session = session.assign(redeemed_at=session["redeemed_at"].where(session["redeemed_at"] <= end))
    kept = data.tables.behaviour[data.tables.behaviour["session_id"].isin(session["session_id"])]
    write_tables(SessionTables(session.assign(label=pd.array([pd.NA] * len(session), dtype="Int64")), kept), tmp_path)
    found = read(str(tmp_path)).tables.session
    assert data.truth is not None
    drawn = data.tables.session.set_index("session_id").loc[found["session_id"], "label"]
    known = found["label"].notna().to_numpy()
    assert found.loc[known, "label"].tolist() == drawn[known].tolist()
    still_valid = found["expires_at"] > end
    assert (still_valid & found["redeemed_at"].notna()).sum() > 20
    assert not (still_valid.to_numpy() & known).any()
    # The budget of a day counts all vouchers at the rate of those that are known.
    campaign = campaign_from_tables(load("vouchers", str(tmp_path)).tables)
    month = end - found["collected_at"] <= pd.Timedelta(days=31)
    spent = (data.tables.session["discount"] * data.tables.session["label"])[: len(found)][month].sum() / 31
    assert campaign.budget.limit == pytest.approx(spent, rel=0.1)
    # What was redeemed is history for later requests, also where the voucher would still be valid.
    log = SessionLog.build(replace(data.tables, session=found, behaviour=kept))
    last = found[still_valid & found["redeemed_at"].notna()].iloc[:1]
    past = log.history(last["user_id"], np.array([np.iinfo(np.int64).max]), 1)
    assert found["session_id"].iloc[past[0, 0]] in set(found.loc[found["redeemed_at"].notna(), "session_id"])


def test_sessions_from_a_folder_expire_when_they_say_so_or_after_label_days(tmp_path: Path) -> None:
    data = generate(seed=2, sessions=60)
    session = data.tables.session.copy()
    session.loc[::2, "expires_at"] = pd.NaT
    write_tables(SessionTables(session, data.tables.behaviour), tmp_path)
    found = read(str(tmp_path), test_from=data.test_from, label_days=3.0)
    expires = (
        found.tables.session.set_index("session_id").loc[session["session_id"], "expires_at"].reset_index(drop=True)
    )
    expected = session["expires_at"].fillna(session["collected_at"] + pd.Timedelta(days=3))
    pd.testing.assert_series_equal(expires, expected, check_names=False)
    known = found.tables.session["expires_at"] <= pd.Timestamp(data.test_from)
    early = found.tables.session["collected_at"] < pd.Timestamp(data.test_from)
    np.testing.assert_array_equal(found.part() == "train", known & early)
    with pytest.raises(InvalidInput, match="label_days"):
        read(str(tmp_path), test_from=data.test_from, label_days=-1.0)


def test_a_voucher_that_expires_before_its_collection_is_refused(tmp_path: Path) -> None:
    data = generate(seed=2, sessions=60)
    session = data.tables.session.copy()
    session.loc[5, "expires_at"] = session.loc[5, "collected_at"] - pd.Timedelta(hours=1)
    write_tables(SessionTables(session, data.tables.behaviour), tmp_path)
    with pytest.raises(InvalidTable, match=r"session.expires_at: is before collected_at.*row 5"):
        read(str(tmp_path), test_from=data.test_from)
