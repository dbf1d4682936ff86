from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets import Dataset, load
from shadowprice.datasets.o2o import JULY_FILE, LABELED_FILE
from shadowprice.errors import InvalidTable, NotFound
from shadowprice.evaluation.uplift.slope import within_slope
from shadowprice.learning.identification import slope_within_cells
from shadowprice.tables import campaign_from_tables, labeled

YUAN = (1, 5, 10, 20, 30, 50)
WINDOW_STARTS = {1: "2016-04-14", 2: "2016-05-15", 3: "2016-07-01"}


@pytest.fixture(scope="module")
def folder(shared_data: Path) -> Path:
    return shared_data / "o2o_coupon"


@pytest.fixture(scope="module")
def raw(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / LABELED_FILE)


@pytest.fixture(scope="module")
def labeled_only(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the labeled receipts and without July's."""
    alone = tmp_path_factory.mktemp("o2o")
    (alone / LABELED_FILE).symlink_to((folder / LABELED_FILE).resolve())
    return alone


@pytest.fixture(scope="module")
def dataset(labeled_only: Path) -> Dataset:
    return load("o2o", data=str(labeled_only))


def source_row(request_id: pd.Series[Any]) -> pd.Series[Any]:
    """Row of the source file that a request was made from."""
    return request_id.str.rsplit("-", n=1).str[1].astype(int)


def as_of(exposure: pd.DataFrame, account: pd.DataFrame, key: str, side: str) -> pd.DataFrame:
    """Newest snapshot not later than the decision, joined by pandas."""
    history = account[account["side"] == side].rename(columns={"account_id": key}).sort_values("snapshot_ts")
    rows = exposure[["request_id", key, "decided_at"]].sort_values("decided_at", kind="stable")
    return pd.merge_asof(rows, history, left_on="decided_at", right_on="snapshot_ts", by=key)


def test_rows_and_redeemed_shares_per_level_are_those_of_the_file(dataset: Dataset, raw: pd.DataFrame) -> None:
    rows = labeled(dataset.tables, "customer")
    for level, yuan in enumerate(YUAN):
        of_level = raw[(raw["value_yuan"] == yuan) & (raw["is_man_jian"] == 1)]
        mine = rows[rows["level"] == level]
        assert len(mine) == len(of_level)
        assert set(mine["face_value"]) == {100 * yuan}
        assert mine["response"].sum() == (of_level["outcome"] == "redeemed_le15d").sum()
    assert len(rows) == 296_356
    assert rows["response"].mean() == pytest.approx(0.08193, abs=1e-5)


def test_what_is_dropped_is_counted(dataset: Dataset, raw: pd.DataFrame) -> None:
    notes = dataset.notes
    assert int(notes["dropped: percentage discounts"]) == (raw["is_man_jian"] == 0).sum() == 6237
    assert int(notes["dropped: value is no level"].split()[0]) == (raw["value_yuan"] == 100).sum() == 2
    assert len(dataset.tables.exposure) == len(raw) - 6237 - 2


def test_late_redemptions_are_neither_redeemed_nor_paid(dataset: Dataset, raw: pd.DataFrame) -> None:
    outcome = dataset.tables.outcome
    kind = raw["outcome"].iloc[source_row(outcome["request_id"])].to_numpy()
    assert (kind == "redeemed_gt15d").sum() == int(dataset.notes["late redemptions"].split()[0]) == 4157
    assert outcome.loc[kind == "redeemed_gt15d", ["redeemed", "cost_paid"]].to_numpy().sum() == 0
    paid = 100 * raw.loc[(raw["outcome"] == "redeemed_le15d") & (raw["value_yuan"] <= 50), "value_yuan"].sum()
    assert outcome["cost_paid"].sum() == paid


def test_every_exposure_joins_to_the_history_that_its_own_row_carries(dataset: Dataset, raw: pd.DataFrame) -> None:
    tables = dataset.tables
    for key, side, prefix in (("account_id", "customer", "u_"), ("partner_id", "merchant", "m_")):
        joined = as_of(tables.exposure, tables.account, key, side)
        own = raw.iloc[source_row(joined["request_id"])].reset_index(drop=True)
        starts = own["window"].map(WINDOW_STARTS)
        assert (joined["snapshot_ts"].dt.strftime("%Y-%m-%d") == starts).all()
        assert (joined["snapshot_ts"] <= joined["decided_at"]).all()
        # Rebuilt merchant groups that mix two shops have no single history.
        sound = ~own["merchant_group"].isin([5776, 6759]) if side == "merchant" else pd.Series(True, index=own.index)
        for column in (name for name in raw.columns if name.startswith(prefix)):
            np.testing.assert_array_equal(joined.loc[sound, f"x_{column}"], own.loc[sound, column].astype(float))


def test_the_features_of_the_request_do_not_reveal_the_value(dataset: Dataset, raw: pd.DataFrame) -> None:
    exposure = dataset.tables.exposure
    features = exposure.filter(regex="^x_").assign(
        x_pay_rate=raw["pay_rate"].iloc[source_row(exposure["request_id"])].to_numpy()
    )

    def revealed(column: str) -> float:
        known = ["x_log_threshold", column]
        levels = exposure["offer_id"].groupby([features[name] for name in known], dropna=False).transform("nunique")
        return float((levels == 1).mean())

    assert revealed("x_pay_rate") == 1.0
    for column in features.columns.drop(["x_pay_rate", "x_log_threshold"]):
        assert revealed(column) < 0.15, column


def test_propensities_are_smoothed_frequencies_of_their_cell(dataset: Dataset, raw: pd.DataFrame) -> None:
    used = raw[raw["value_yuan"].isin(YUAN)]
    narrow, wide = ["merchant_group", "threshold_yuan", "window"], ["threshold_yuan", "window"]
    count: Counter[Any] = Counter()
    for cell in (narrow, [*narrow, "value_yuan"], wide, [*wide, "value_yuan"]):
        count.update(used[cell].itertuples(index=False, name=None))
    exposure = dataset.tables.exposure.sample(500, random_state=0)
    own = raw.iloc[source_row(exposure["request_id"])]
    for propensity, (_, row) in zip(exposure["propensity"], own.iterrows(), strict=True):
        cell, broad = tuple(row[narrow]), tuple(row[wide])
        prior = count[(*broad, row["value_yuan"])] / count[broad]
        assert propensity == pytest.approx((count[(*cell, row["value_yuan"])] + prior) / (count[cell] + 1))
    assert "fitted" in dataset.notes["propensity"]


def test_the_last_labeled_week_is_the_test_and_no_label_of_it_is_seen_before(dataset: Dataset) -> None:
    exposure, outcome = dataset.tables.exposure, dataset.tables.outcome
    part = dataset.split.assign(exposure)
    decided = exposure["decided_at"].dt.strftime("%Y-%m-%d")
    assert (decided[part == "train"].min(), decided[part == "train"].max()) == ("2016-04-14", "2016-05-17")
    assert (decided[part == "validation"].min(), decided[part == "validation"].max()) == ("2016-05-18", "2016-05-24")
    assert (decided[part == "test"].min(), decided[part == "test"].max()) == ("2016-05-25", "2016-05-31")
    assert (outcome["observed_at"][part == "test"] > pd.Timestamp("2016-05-25", tz="UTC")).all()


def test_a_purged_split_trains_only_on_labels_known_when_the_test_begins(labeled_only: Path) -> None:
    dataset = load("o2o", data=str(labeled_only), purge=True)
    part = dataset.split.assign(dataset.tables.exposure)
    known = dataset.tables.outcome["observed_at"]
    begins = pd.Timestamp("2016-05-25", tz="UTC")
    assert known[part == "train"].max() <= begins < known[part == "purged"].min()
    assert Counter(part) == {"train": 111_733, "purged": 38_531, "validation": 88_282, "test": 57_810}


def test_edges_precede_their_window_and_add_up_to_the_pair_history(dataset: Dataset, raw: pd.DataFrame) -> None:
    edge = dataset.tables.edge
    assert set(edge["ts"].dt.strftime("%Y-%m-%dT%H:%M:%S")) == {"2016-04-13T23:59:59", "2016-05-14T23:59:59"}
    used = raw[raw["value_yuan"].isin(YUAN)]
    history = (
        used.groupby(["user_id", "merchant_group", "window"])["um_user_merchant_any"].first().unstack(fill_value=0)
    )
    # Where a later history is shorter than an earlier one, the earlier one stands.
    most = history.max(axis=1)
    most = most[most > 0]
    total = edge.groupby(["src", "dst"])["weight"].sum()
    expected = pd.Series(most.to_numpy(), index=[(f"u{user}", f"m{merchant}") for user, merchant in most.index])
    assert len(total) == len(expected)
    assert total.to_dict() == expected.to_dict()


def test_users_and_merchants_never_share_a_name(dataset: Dataset) -> None:
    sides = dataset.tables.account.groupby("side")["account_id"].agg(set)
    assert not sides["customer"] & sides["merchant"]
    assert len(sides["customer"]) == dataset.tables.exposure["account_id"].nunique()


def test_the_budget_binds_and_can_be_met(dataset: Dataset, raw: pd.DataFrame) -> None:
    campaign = campaign_from_tables(dataset.tables)
    assert (campaign.starts_at.isoformat(), campaign.hours) == ("2016-07-01T00:00:00+00:00", 24)
    assert set(campaign.sides) == {"customer"}
    used = raw[raw["value_yuan"].isin(YUAN)]
    train = used[used["date_received"] < "2016-05-18"]
    redeemed = train["outcome"] == "redeemed_le15d"
    a_day = len(train) / train["date_received"].nunique()
    assert campaign.budget.limit == int(0.5 * a_day * (100 * train["value_yuan"] * redeemed).mean())
    assert a_day * 100 * redeemed.mean() < campaign.budget.limit < a_day * 5000 * redeemed.mean()


def test_july_is_there_to_allocate_and_no_labeled_request_can_see_it(dataset: Dataset, folder: Path) -> None:
    raw = pd.read_parquet(folder / JULY_FILE)
    tables = load("o2o", data=str(folder)).tables
    begins = pd.Timestamp("2016-07-01", tz="UTC")
    july = tables.exposure[tables.exposure["decided_at"] >= begins]
    assert len(july) == raw["value_yuan"].isin(YUAN).sum() == 110_242
    assert not july["request_id"].isin(tables.outcome["request_id"]).any()
    snapshots = tables.account[tables.account["snapshot_ts"] >= begins]
    assert set(snapshots["snapshot_ts"]) == {begins}
    assert set(july["account_id"]) == set(snapshots.loc[snapshots["side"] == "customer", "account_id"])
    rows = labeled(tables, "customer")
    pd.testing.assert_frame_equal(rows, labeled(dataset.tables, "customer"))
    assert rows["decided_at"].max() < pd.Timestamp("2016-06-01", tz="UTC") < begins
    for table, time in (("account", "snapshot_ts"), ("edge", "ts")):
        seen = getattr(tables, table)[getattr(tables, table)[time] < pd.Timestamp("2016-06-01", tz="UTC")]
        pd.testing.assert_frame_equal(seen.reset_index(drop=True), getattr(dataset.tables, table))


def test_a_folder_without_the_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=LABELED_FILE):
        load("o2o", data=str(tmp_path))


def test_a_file_of_another_shape_is_refused(tmp_path: Path, raw: pd.DataFrame) -> None:
    raw.head(50).drop(columns=["threshold_yuan", "u_buy_total"]).to_parquet(tmp_path / LABELED_FILE)
    with pytest.raises(InvalidTable, match=r"threshold_yuan: the column is missing"):
        load("o2o", data=str(tmp_path))
    raw.head(50).assign(outcome="perhaps").to_parquet(tmp_path / LABELED_FILE)
    with pytest.raises(InvalidTable, match=r"outcome: must be one of .* first: 0, 1, 2, 3, 4"):
        load("o2o", data=str(tmp_path))


def test_before_18_may_the_effect_of_the_value_is_not_identified_where_pooled_rows_are_sure_of_the_whole(
    dataset: Dataset,
) -> None:
    rows = labeled(dataset.tables, "customer")
    rows["snapshot_at"] = (rows["decided_at"] - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    levels = [100 * yuan for yuan in YUAN]
    early = rows[rows["decided_at"] < "2016-05-18"]
    confounders = dataset.confounders["customer"]
    slope = slope_within_cells(early, levels, confounders)
    assert slope is not None
    assert not slope.identified
    assert slope.low < 0 < slope.high
    whole = slope_within_cells(rows, levels, confounders)
    assert whole is not None
    assert not whole.identified
    cells = [rows[name].astype(str).to_numpy() for name in confounders]
    pooled = within_slope(
        rows["response"], np.array(levels)[rows["level"]], cells, cluster=rows["account_id"].to_numpy(dtype=str)
    )
    assert pooled.low > 0, "the same rows, pooled over weeks with errors by account"


def test_percentages_come_in_with_an_assumed_order_and_a_chosen_cap(
    dataset: Dataset, labeled_only: Path, raw: pd.DataFrame
) -> None:
    asked = load("o2o", data=str(labeled_only), order_yuan=400)
    terms = campaign_from_tables(asked.tables).terms("customer")
    shares = {offer: share.share for offer, share in zip(terms.offers, terms.percent, strict=True) if share is not None}
    assert shares == {f"percent-{share}": float(share) for share in (5, 10, 15, 20, 25, 30, 40, 50)}
    assert not terms.ordered
    rows = asked.tables.exposure.merge(asked.tables.outcome, on="request_id")
    mine = rows[rows["offer_id"].isin(shares)]
    discounts = raw[raw["is_man_jian"] == 0]
    assert (len(mine), int(mine["redeemed"].sum())) == (6237, int((discounts["outcome"] == "redeemed_le15d").sum()))
    # Of 400 yuan, in fen: 20 % are above the cap of 50 yuan, 5 % below.
    paid = mine[mine["redeemed"] == 1].groupby("offer_id")["cost_paid"].unique()
    assert (paid["percent-20"].tolist(), paid["percent-5"].tolist()) == ([5000], [2000])
    assert mine["propensity"].between(0, 1, inclusive="right").all()
    assert "400 yuan, which is an assumption" in asked.notes["percentages"]
    assert asked.notes["dropped: percentage discounts"] == "0"
    # Without the option nothing changes.
    assert "order_yuan lets them in" in dataset.notes["percentages"]
    assert dataset.tables.offer["percent"].isna().all()
    others = rows[~rows["offer_id"].isin(shares)].set_index("request_id")
    before = dataset.tables.exposure.set_index("request_id")
    pd.testing.assert_series_equal(others["propensity"].sort_index(), before["propensity"].sort_index())
