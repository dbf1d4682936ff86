"""A trial drawn by store: intervals, tests, splits and judged rows count stores in place of accounts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from cli.main import main
from shadowprice.currency import Currency
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidTable
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evidence.sides import evidence_of
from shadowprice.graphs.build import snapshot_times
from shadowprice.learning.comparison.trials import trial_of
from shadowprice.learning.labeling import context_of, write_labeled
from shadowprice.reports.texts import evidence_notes
from shadowprice.tables import Tables, campaign_from_tables, labeled, validate_tables

CENTS = (0, 300, 600, 900)


def by_store(tables: Tables, stores: int = 120, seed: int = 2) -> tuple[Tables, np.ndarray, np.ndarray]:
    """Draw the levels of a trial by store, and responses that hang together in a store; return store and level."""
    rng = np.random.default_rng(seed)
    accounts = len(tables.exposure)
    store = rng.choice(stores, accounts, p=rng.dirichlet(np.full(stores, 4.0)))
    level = rng.integers(4, size=stores)[store]
    chance = np.clip(0.2 + 0.05 * level + rng.normal(0, 0.12, stores)[store], 0.01, 0.95)
    response = (rng.random(accounts) < chance).astype(int)
    cents = np.array(CENTS)[level]
    exposure = tables.exposure.assign(offer_id=[f"o{each}" for each in cents])
    outcome = tables.outcome.assign(redeemed=response, cost_paid=cents * response)
    return tables.replaced(exposure=exposure, outcome=outcome), store, level


def named(tables: Tables, store: np.ndarray) -> Tables:
    """Name the store of each account, but for those of the first one."""
    cluster = np.where(store > 0, np.char.add("s", store.astype(str)), None)
    return validate_tables(tables.as_dict() | {"exposure": tables.exposure.assign(cluster=cluster)})


def evidence(tables: Tables) -> SideEvidence:
    (found,) = evidence_of(tables, campaign_from_tables(tables), Currency())
    return found


def width(found: SideEvidence) -> float:
    """Width of the interval of the difference of the highest level."""
    difference = found.levels[3].difference
    assert difference is not None
    return difference.high - difference.low


def test_the_interval_is_that_of_clustered_least_squares_and_of_drawing_whole_stores(make) -> None:
    tables, store, level = by_store(make(accounts=4000)[1])
    found, alone = evidence(named(tables, store + 1)), evidence(tables)
    y = tables.outcome["redeemed"].to_numpy(dtype=float)
    dummies = np.column_stack([np.ones(y.size), *(level == j for j in (1, 2, 3))]).astype(float)
    fitted = sm.OLS(y, dummies).fit(cov_type="cluster", cov_kwds={"groups": store})
    difference = found.levels[3].difference
    assert difference is not None
    assert difference.value == pytest.approx(fitted.params[3])
    error = float(fitted.bse[3])
    rng = np.random.default_rng(0)
    sums = np.zeros((2, 2, store.max() + 1))
    for j, at in ((0, 0), (1, 3)):
        sums[j, 0] = np.bincount(store, y * (level == at), minlength=store.max() + 1)
        sums[j, 1] = np.bincount(store, level == at, minlength=store.max() + 1)
    drawn = sums[:, :, rng.integers(store.max() + 1, size=(4000, store.max() + 1))].sum(axis=-1)
    means = drawn[:, 0] / drawn[:, 1]
    assert float(np.std(means[1] - means[0])) == pytest.approx(error, rel=0.1)
    # The quantile of t for some fifty stores of two levels.
    assert width(found) / 2 == pytest.approx(2.01 * error, rel=0.05)
    assert width(found) > 1.7 * width(alone)
    assert found.clusters == np.unique(store).size
    assert sum(each.accounts for each in found.levels) == found.clusters
    assert (found.unit, alone.unit) == ("clusters", "accounts")
    # Shares of accounts of a draw by store are no fault of the propensities.
    assert alone.sample_ratio_p is not None
    assert found.sample_ratio_p is not None
    assert alone.sample_ratio_p < 1e-4 < 0.01 < found.sample_ratio_p


def test_intervals_by_store_hold_the_truth_where_those_by_account_do_not() -> None:
    held = {"store": 0, "account": 0}
    for seed in range(150):
        rng = np.random.default_rng(seed)
        store = rng.integers(60, size=1500)
        level = rng.integers(2, size=60)[store]
        y = rng.normal(0, 0.5, 60)[store] + rng.normal(size=store.size)
        frame = pd.DataFrame({"account_id": [f"a{k}" for k in range(store.size)], "cluster": [f"s{k}" for k in store]})
        for name, owner in (("store", row_clusters(frame)), ("account", row_clusters(frame[["account_id"]]))):
            means = LevelMeans(level, 2, account=owner).of(y)
            interval = means.estimate(np.array([-1.0, 1.0]))
            held[name] += interval.low <= 0 <= interval.high
    assert held["store"] / 150 > 0.9
    assert held["account"] / 150 < 0.75


def test_no_store_is_in_two_parts_and_judged_rows_have_the_store(make, tmp_path: Path) -> None:
    plain, store, _ = by_store(make(accounts=1500)[1])
    tables = named(plain, store)
    split = Split(by="account")
    rows = {}
    for name, each in (("plain", plain), ("stores", tables)):
        path = tmp_path / f"{name}.parquet"
        dataset = Dataset(name="tables", tables=each, split=split)
        write_labeled(dataset, "customer", context_of(each, "customer"), snapshot_times(each), path)
        rows[name] = pd.read_parquet(path)
    assert rows["plain"].drop(columns="split").equals(rows["stores"].drop(columns=["split", "cluster"]))
    assert (rows["stores"].dropna(subset="cluster").groupby("cluster")["split"].nunique() == 1).all()
    assert rows["stores"]["split"].nunique() == 3
    alone = rows["stores"]["cluster"].isna()
    assert alone.sum() > 1
    assert (rows["stores"]["split"] == rows["plain"]["split"])[alone].all()
    campaign = campaign_from_tables(tables)
    chance = np.full(len(store), 0.25)
    stored = rows["stores"].astype({"account_id": "string[pyarrow]", "cluster": "string[pyarrow]"})
    assert row_clusters(stored).tolist() == row_clusters(rows["stores"]).tolist()
    judged = trial_of(rows["stores"], chance, campaign, "customer").account
    assert np.unique(judged).size == np.unique(store[~alone]).size + alone.sum()
    assert (
        trial_of(rows["plain"], chance, campaign, "customer").account.tolist() == rows["plain"]["account_id"].tolist()
    )


def test_an_account_is_in_one_cluster(make) -> None:
    tables = make(accounts=200)[1].as_dict()
    twice = pd.concat([tables["exposure"], tables["exposure"].iloc[:2].assign(request_id=["y0", "y1"])])
    cluster = np.where(twice["request_id"] == "y1", "s9", "s0")
    with pytest.raises(InvalidTable, match=r"exposure.cluster: must be the same in all rows of an account.*2 rows"):
        validate_tables(tables | {"exposure": twice.assign(cluster=cluster).reset_index(drop=True)})
    # A row that names no cluster, such as one of the served log, is of the cluster of its account.
    some = twice.assign(cluster=np.where(twice["request_id"].str.startswith("y"), "s0", None)).reset_index(drop=True)
    extended = dict(tables) | {"exposure": some}
    extended["outcome"] = pd.concat([tables["outcome"], tables["outcome"].iloc[:2].assign(request_id=["y0", "y1"])])
    rows = labeled(validate_tables(extended), "customer")
    assert rows.groupby("cluster")["account_id"].nunique().tolist() == [2]
    assert rows["cluster"].notna().sum() == 4


def test_a_draw_by_store_that_no_column_declares_is_named(make) -> None:
    plain, store, _ = by_store(make(accounts=1500)[1])
    place = np.char.add("s", store.astype(str))
    known = plain.replaced(account=plain.account.assign(c_store=place))
    found = evidence(known)
    assert found.drawn_by == "c_store"
    (note, *_) = evidence_notes(found, Currency())
    assert note.startswith("All accounts with the same c_store got the same level.")
    assert "map it as exposure.cluster" in note
    told = plain.replaced(exposure=plain.exposure.assign(c_store=place))
    assert evidence(told).drawn_by == "c_store"
    assert evidence(named(known, store + 1)).drawn_by == ""
    # One store with a second level tells that accounts were drawn.
    offer = plain.exposure["offer_id"].to_numpy(copy=True)
    offer[np.flatnonzero(store == 5)[0]] = next(each for each in np.unique(offer) if each != offer[store == 5][0])
    assert evidence(known.replaced(exposure=plain.exposure.assign(offer_id=offer))).drawn_by == ""


def test_init_proposes_the_column_by_which_offers_were_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(4)
    store = rng.integers(40, size=900)
    value = rng.choice([0, 5], 40)[store]
    sent = pd.Timestamp("2026-03-02T09:00Z") + pd.to_timedelta(rng.integers(30_000, size=900), unit="min")
    log = pd.DataFrame({"customer": [f"k{k}" for k in range(900)], "sent": sent.strftime("%Y-%m-%dT%H:%M:%SZ")})
    log["value"], log["branch"], log["town"] = value, np.char.add("F", store.astype(str)), rng.choice(["A", "B"], 900)
    log["redeemed"] = (rng.random(900) < 0.2 + 0.04 * value).astype(int)
    for branch, declared in (("branch", True), ("nothing", False)):
        folder = tmp_path / branch
        folder.mkdir()
        own = log if declared else log.assign(branch=rng.permutation(log["branch"]))
        own.to_csv(folder / "log.csv", index=False)
        assert main(["init", str(folder), "--trials", str(folder / "log.csv")]) == 0
        text = (folder / "mapping.yaml").read_text()
        assert ("cluster: branch # CHECK: all rows with the same value have one offer" in text) == declared
    capsys.readouterr()
    assert main(["check", str(tmp_path / "branch" / "mapping.yaml")]) == 0
    assert "Clusters" in capsys.readouterr().out
