"""Offers in percent in a user's own files: what init proposes of them, and what the mapping makes of it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import cli.main as command
from shadowprice.campaign import Percent
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.tables import campaign_from_tables, labeled

COUPONS = {"none": (None, 0.0, 0.0), "ten": (10, 5.0, 0.0), "twenty": (20, 10.0, 30.0), "five off": (None, 5.0, 0.0)}


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    dice, n = np.random.default_rng(3), 400
    coupon = dice.choice([*COUPONS], n)
    percent, cap, least = zip(*(COUPONS[name] for name in coupon), strict=True)
    used = (dice.random(n) < 0.4).astype(int)
    order = np.round(np.exp(dice.normal(3.6, 0.6, n)), 2)
    return pd.DataFrame({
        "customer": [f"c{place}" for place in range(n)],
        "sent": pd.Timestamp("2026-05-01") + pd.to_timedelta(dice.integers(0, 600, n), unit="h"),
        "coupon": coupon,
        "percent off": percent,
        "max discount": cap,
        "min order": least,
        "order total": np.where(used == 1, order, np.nan),
        "used": used,
    })  # fmt: skip


@pytest.fixture(scope="module")
def proposed(trials: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("percent")
    trials.to_csv(folder / "coupons.csv", index=False)
    assert command.main(["init", str(folder), "--trials", str(folder / "coupons.csv")]) == 0
    return folder / "mapping.yaml"


def test_init_proposes_percentages_with_their_caps_and_least_spends(proposed: Path) -> None:
    given = yaml.load(proposed.read_text(), Loader=yaml.BaseLoader)
    columns = given["tables"]["exposure"]["columns"]
    assert given["currency"] == "USD"
    own = {"offer_id": "coupon", "percent": "percent off", "face_value": "max discount", "min_spend": "min order"}
    assert {name: columns[name] for name in own} == own
    assert columns["amount"] == "order total"
    assert "cost" not in columns


def test_what_was_paid_follows_from_the_orders(proposed: Path, trials: pd.DataFrame) -> None:
    tables = load("mapping", data=str(proposed)).tables
    terms = campaign_from_tables(tables).terms("customer")
    assert dict(zip(terms.offers, zip(terms.percent, terms.amounts, strict=True), strict=True)) == {
        "none": (None, 0),
        "five off": (None, 500),
        "ten": (Percent(share=10.0), 500),
        "twenty": (Percent(share=20.0, least=3000), 1000),
    }
    cents = np.rint(trials["order total"].fillna(0) * 100)
    part = np.minimum(np.floor(trials["percent off"] / 100 * cents + 0.5), trials["max discount"] * 100)
    expected = part.where(cents >= trials["min order"] * 100, 0).fillna(trials["max discount"] * 100) * trials["used"]
    found = tables.outcome.set_index("request_id")["cost_paid"]
    assert found.loc[tables.exposure["request_id"]].tolist() == found.tolist()
    account = tables.exposure.set_index("account_id")["request_id"]
    paid = found.loc[account.loc[trials["customer"]]].to_numpy()
    assert paid.tolist() == expected.astype(int).tolist()
    assert (paid[(trials["coupon"] == "twenty") & (trials["used"] == 1)] == 0).any()
    rows = labeled(tables, "customer")
    assert rows.loc[rows["response"] == 1, "amount"].notna().all()


@pytest.mark.parametrize(("column", "reason"), [("offer_id", "does not tell percentages apart"), ("amount", "or map")])
def test_what_a_percentage_cannot_do_without_is_asked_for(proposed: Path, column: str, reason: str) -> None:
    given = yaml.load(proposed.read_text(), Loader=yaml.BaseLoader)
    del given["tables"]["exposure"]["columns"][column]
    path = proposed.with_name(f"without-{column}.yaml")
    path.write_text(yaml.safe_dump(given))
    with pytest.raises(InvalidInput, match=reason):
        map_tables(read_mapping(path))
