import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets import Dataset, load
from shadowprice.errors import MissingExtra
from shadowprice.tables import campaign_from_tables, labeled


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load("thornton")


@pytest.fixture(scope="module")
def raw(shared_data: Path) -> pd.DataFrame:
    """The same experiment from the file beside the project, people with amount and answer."""
    everyone = pd.read_csv(shared_data / "thornton" / "thornton_hiv.csv.gz")
    return everyone[everyone["got"].notna() & everyone["tinc"].notna()]


def test_people_are_those_of_the_file_with_amount_and_answer(dataset: Dataset, raw: pd.DataFrame) -> None:
    rows = labeled(dataset.tables, "customer")
    assert len(rows) == len(raw) == 2834
    assert [int(person[1:]) for person in rows["account_id"]] == raw.index.tolist()
    np.testing.assert_array_equal(rows["response"], raw["got"])
    village = [None if np.isnan(number) else f"v{number:03.0f}" for number in raw["villnum"]]
    assert rows["partner_id"].tolist() == village


def test_levels_hold_their_amounts_and_enough_people(dataset: Dataset, raw: pd.DataFrame) -> None:
    rows = labeled(dataset.tables, "customer")
    cents = 100 * raw["tinc"].to_numpy()
    by_level = pd.DataFrame({"level": rows["level"], "face_value": rows["face_value"], "cents": cents}).groupby("level")
    assert by_level.size().min() >= 90
    assert by_level["face_value"].first().tolist() == by_level["cents"].mean().round().tolist()
    # Bins are intervals: no amount of a lower level reaches one of a higher level.
    assert (by_level["cents"].max().iloc[:-1].to_numpy() < by_level["cents"].min().iloc[1:].to_numpy()).all()
    zero = rows["level"] == 0
    assert (cents[zero] == 0).all()
    assert (cents[~zero] > 0).all()
    assert rows.loc[zero, "response"].mean() == pytest.approx(0.3387, abs=1e-4)


def test_money_paid_is_the_amount_drawn(dataset: Dataset, raw: pd.DataFrame) -> None:
    paid = (100 * raw["tinc"] * raw["got"]).round()
    np.testing.assert_array_equal(dataset.tables.outcome["cost_paid"], paid)


def test_propensities_are_the_shares_of_each_draw(dataset: Dataset, raw: pd.DataFrame) -> None:
    rows = labeled(dataset.tables, "customer")
    second = (raw["villnum"] >= 100).to_numpy()
    for draw in (second, ~second):
        share = rows[draw].groupby("level")["propensity"].first()
        assert share.sum() == pytest.approx(1.0)
        for level, propensity in share.items():
            assert propensity == pytest.approx((rows.loc[draw, "level"] == level).mean())
    zero = rows["level"] == 0
    assert rows.loc[zero & second, "propensity"].iloc[0] > 2 * rows.loc[zero & ~second, "propensity"].iloc[0]


def test_a_person_has_no_feature_but_age_distance_and_draw(dataset: Dataset, raw: pd.DataFrame) -> None:
    tables = dataset.tables
    person = tables.account[tables.account["side"] == "customer"]
    assert list(person.filter(regex="^[xc]_").dropna(axis=1, how="all")) == ["c_draw", "x_age", "x_distance_km"]
    np.testing.assert_array_equal(person["x_age"], raw["age"])
    np.testing.assert_allclose(person["x_distance_km"], raw["distvct"], rtol=1e-6)
    assert not list(tables.exposure.filter(regex="^[xc]_"))


def test_villages_are_merchants_without_offers(dataset: Dataset, raw: pd.DataFrame) -> None:
    tables = dataset.tables
    villages = tables.account[tables.account["side"] == "merchant"]
    assert len(villages) == raw["villnum"].nunique() == 119
    assert len(tables.edge) == raw["villnum"].notna().sum() == 2830
    assert (tables.edge["ts"] < tables.exposure["decided_at"].min()).all()
    assert set(tables.offer["side"]) == set(tables.exposure["side"]) == {"customer"}
    assert set(campaign_from_tables(tables).sides) == {"customer"}


def test_the_split_is_by_account_and_spans_all_levels(dataset: Dataset) -> None:
    rows = labeled(dataset.tables, "customer")
    part = dataset.split.assign(rows)
    assert dataset.split.by == "account"
    assert rows.groupby(part)["level"].nunique().tolist() == [11, 11, 11]


def test_the_budget_binds(dataset: Dataset) -> None:
    rows = labeled(dataset.tables, "customer")
    limit = campaign_from_tables(dataset.tables).budget.limit
    top = rows[rows["level"] == rows["level"].max()]
    assert rows["face_value"].min() == 0
    assert 0 < limit < 0.5 * len(rows) * top["response"].mean() * top["face_value"].iloc[0]


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "causaldata", None)
    with pytest.raises(MissingExtra, match=r"shadowprice\[datasets\]"):
        load("thornton")
