import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from operations.common.workspace import GROUPS, read_campaign, read_groups
from operations.featurize import LEAST_GROUPS, FeaturizeJob
from operations.featurize import run as featurize
from shadowprice.arms import Arm, Experiment
from shadowprice.datasets import Dataset, load
from shadowprice.datasets.package import save_dataset
from shadowprice.errors import InvalidInput
from shadowprice.learning.recipes import recipe
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.history import Traffic
from shadowprice.responses.joint.model import JointModel


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load("world", customers=200, merchants=60, both=5, trials=2, day_requests=500)


def run(dataset: Dataset, folder: Path, **options: str) -> tuple[TrainingSet, dict]:
    save_dataset(dataset, folder / "data")
    job = FeaturizeJob(tables=folder / "data", workspace=folder, training=folder / "training", **options)
    facts = featurize(job)
    return TrainingSet.load(folder / "training"), dict(facts)


@pytest.fixture(scope="module")
def ready(world: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingSet, dict, Path]:
    folder = tmp_path_factory.mktemp("ready")
    return *run(world, folder), folder


def test_a_campaign_that_is_served_is_kept_and_the_groups_of_its_experiment_are_made_once(
    ready: tuple[TrainingSet, dict, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(ready[2], folder)
    assert not (folder / GROUPS).exists()
    arms = (Arm(name="holdout", kind="holdout", share=1000), Arm(name="policy", kind="policy", share=9000))
    test = Experiment(arms=arms, salt="spring", unit="cluster")
    served = replace(read_campaign(folder), gap_limit=0.5, experiment=test)
    (folder / "campaign.json").write_text(json.dumps(served.to_dict()))
    with pytest.raises(InvalidInput, match=GROUPS):
        read_groups(served, folder)
    job = FeaturizeJob(tables=folder / "data", workspace=folder, training=folder / "again", keep_campaign=True)
    featurize(job)
    assert read_campaign(folder) == served
    again = TrainingSet.load(folder / "again")
    assert again.levels["customer"] == served.terms("customer").levels
    groups, graph = read_groups(served, folder), again.snapshots[-1]
    names = np.array(groups.units(graph.account_id.tolist()))
    sizes = np.unique(names, return_counts=True)[1]
    assert sizes.sum() == graph.nodes
    assert sizes.size >= LEAST_GROUPS
    assert sizes.max() == graph.nodes // LEAST_GROUPS
    # Neighbors are together more often than two accounts at random.
    together = names[graph.edge_index[0]] == names[graph.edge_index[1]]
    assert together.mean() > ((sizes / sizes.sum()) ** 2).sum()
    first = (folder / GROUPS).stat().st_mtime_ns
    featurize(replace(job, training=folder / "third"))
    assert (folder / GROUPS).stat().st_mtime_ns == first
    featurize(replace(job, training=folder / "fourth", keep_campaign=False))
    assert read_campaign(folder).gap_limit != 0.5


def test_it_leaves_a_training_set_a_campaign_and_the_traffic(ready: tuple[TrainingSet, dict, Path]) -> None:
    data, facts, folder = ready
    assert {side: len(rows) for side, rows in data.rows.items()} == {"customer": 400, "merchant": 120}
    assert facts["customer accounts served"] == 200
    campaign, traffic = read_campaign(folder), Traffic.load(folder)
    assert campaign.name == "world"
    # The level is that of the past, 520 requests in two days; the campaign states 500 a day.
    assert sum(profile.level for profile in traffic.profiles.values()) == pytest.approx(260)
    assert sum(map(np.sum, traffic.forecast(campaign).expected.values())) == pytest.approx(500)


def test_accounts_profiled_late_and_ties_older_than_profiles_are_left_out_and_counted(
    world: Dataset, tmp_path: Path
) -> None:
    """Profiles at ten instants, more than there are snapshots; some only after the account was asked."""
    tables = world.tables
    account = tables.account.copy()
    later = pd.to_timedelta(np.arange(len(account)) % 10 * 4, unit="h")
    account["snapshot_ts"] = account["snapshot_ts"] + later
    data, facts = run(replace(world, tables=tables.replaced(account=account)), tmp_path)
    asked_before = facts["customer rows without a profile at the time"]
    assert 0 < asked_before < 400
    assert len(data.rows["customer"]) == 400 - asked_before
    assert len(data.snapshots) == 4
    assert data.snapshots[0].edges < data.snapshots[-1].edges
    # every row finds its account in the snapshot it sees
    rows = {side: frame for side, frame in data.rows.items() if len(frame)}
    model = JointModel.prepare(recipe("joint_gnn", data), data.snapshots, rows)
    model.data(data.snapshots, rows, rows)


def test_a_side_with_offers_and_no_outcome_is_refused_with_what_to_do(world: Dataset, tmp_path: Path) -> None:
    tables = world.tables
    merchants = tables.exposure.loc[tables.exposure["side"] == "merchant", "request_id"]
    outcome = tables.outcome[~tables.outcome["request_id"].isin(merchants)]
    with pytest.raises(InvalidInput, match=r"outcome.*'merchant'.*leave its offers out"):
        run(replace(world, tables=tables.replaced(outcome=outcome)), tmp_path)


@pytest.mark.parametrize("weighting", ["known", "fitted"])
def test_rows_that_were_not_assigned_at_random_are_weighted_back_to_a_trial(weighting: str, tmp_path: Path) -> None:
    drawn = load("promotion", seed=1, rows=2000, features=(3,), levels=(0, 50, 100), bias=1.0)
    data, facts = run(drawn, tmp_path, weighting=weighting)
    rows, truth = data.rows["customer"], drawn.truth.pivot(index="account_id", columns="level", values="response")
    assert f"{weighting} propensities" in facts["customer weights"]
    assert rows["balancing_weight"].mean() == pytest.approx(1.0)
    assert (rows["weight"] == 1.0).all(), "a row's own weight is not the propensity's"
    active = truth[0].loc[rows["account_id"]].to_numpy()
    for level in range(3):
        own = (rows["level"] == level).to_numpy()
        weighted = np.average(active[own], weights=rows["balancing_weight"][own])
        assert abs(weighted - active.mean()) < 0.35 * max(abs(active[own].mean() - active.mean()), 0.03)


def test_without_a_word_every_row_counts_alike_and_an_unknown_word_is_refused(
    world: Dataset, ready: tuple[TrainingSet, dict, Path], tmp_path: Path
) -> None:
    data = ready[0]
    assert all((rows["weight"] == 1.0).all() for rows in data.rows.values())
    assert all("balancing_weight" not in rows for rows in data.rows.values())
    with pytest.raises(InvalidInput, match="weighting: must be one of none, known, fitted"):
        run(world, tmp_path, weighting="some")
