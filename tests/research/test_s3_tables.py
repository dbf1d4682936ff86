"""The flat baseline of S3's tables against a loop, their sizes, and RelaImpr against published figures."""

import math

import numpy as np
import pytest

from research.tables.s3.table3 import TABLE, improvement
from research.tables.s3.vouchers import SESSIONS, TEST_DAYS, crossed, crossed_order, draw
from shadowprice.datasets.vouchers import DAYS


def test_crossed_counts_are_the_items_before_the_collection_under_the_own_voucher() -> None:
    data, log, train, _ = draw(0, quick=True, region="B")
    rows = train.sample(80, random_state=0)
    found = crossed(log, rows)
    assert list(found.columns[: rows.shape[1]]) == list(rows.columns)
    behaviour, session = data.tables.behaviour, data.tables.session.set_index("session_id")
    for at, row in enumerate(rows.itertuples()):
        own = session.loc[row.session_id]
        before = behaviour[(behaviour["session_id"] == row.session_id) & (behaviour["ts"] <= own["collected_at"])]
        for category in behaviour["category"].unique():
            count = (before["category"] == category).sum()
            for offer in log.offered:
                expected = (count, count / max(len(before), 1)) if offer == own["voucher_id"] else (0, 0)
                columns = [f"x_{kind}_{category}_{offer}" for kind in ("count", "share")]
                assert found.iloc[at][columns].tolist() == pytest.approx(expected)


def test_the_order_that_a_flat_model_is_given_is_what_the_generator_added() -> None:
    plain, _, _, _ = draw(0, quick=True)
    data, log, train, _ = draw(0, quick=True, order=12.0)
    rows = train.iloc[:300]
    place = log.locate(rows)[0], rows["level"].to_numpy()
    assert plain.truth is not None
    assert data.truth is not None
    added = np.subtract(*(np.log(p / (1 - p)) for p in (data.truth[place], plain.truth[place])))
    found = crossed_order(log, rows)
    columns = [name for name in found if str(name).startswith("x_order_")]
    assert len(columns) == 4 * len(log.offered)
    for offer in range(len(log.offered)):
        own = place[1] == offer
        given = found.loc[own, [name for name in columns if name.endswith(log.offered[offer])]].to_numpy()
        # Few carts stand at one second, so that a table does not tell their order.
        spread = np.abs(added[own][:, None] - 12 * given - np.median(added[own][:, None] - 12 * given, axis=0))
        assert np.median(spread, axis=0).min() < 1e-6
        assert (spread < 1e-6).mean(axis=0).max() > 0.9


def test_every_cell_is_judged_by_ten_thousand_sessions() -> None:
    """Less five deviations of the number of sessions that fall into the test."""
    share = TEST_DAYS / DAYS
    for sessions in SESSIONS.values():
        assert sessions * share - 5 * math.sqrt(sessions * share * (1 - share)) > 10_000
    assert SESSIONS["A"] < SESSIONS["B"] < SESSIONS["C"]


@pytest.mark.parametrize(("auc", "published"), [(0.7759, 5.40), (0.7716, 3.73), (0.7773, 5.90), (0.7885, 10.20)])
def test_relaimpr_is_that_of_the_authors_public_sample(auc: float, published: float) -> None:
    assert improvement(auc, 0.7618) == pytest.approx(published, abs=0.05)


def test_the_paper_is_shown_in_three_regions() -> None:
    columns = {f"{name}, {region}" for name in ("AUC", "logloss", "RelaImpr") for region in "ABC"}
    assert all(set(row) == columns for row in TABLE.published.values())
    assert TABLE.published["DMBGN"]["AUC, C"] == 0.8591
    assert np.isclose(TABLE.published["DNN"]["RelaImpr, B"], 0.0)
