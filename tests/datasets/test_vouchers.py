"""Generated voucher sessions against S3's regions, and sessions from a folder."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.voucher_draws import CATEGORIES, HALF_LIFE
from shadowprice.datasets.vouchers import DAYS, generate, read
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.graphs.sessions import SessionLog
from shadowprice.tables import SessionTables


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
