from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feature_repo.featurize import featurize, read_campaign
from shadowprice.datasets import Dataset, load
from shadowprice.datasets.package import save_dataset
from shadowprice.errors import InvalidInput
from shadowprice.learning.recipes import recipe
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.history import Traffic
from shadowprice.responses.joint import JointModel


@pytest.fixture(scope="module")
def world() -> Dataset:
    return load("world", customers=200, merchants=60, both=5, trials=2)


def run(dataset: Dataset, folder: Path) -> tuple[TrainingSet, dict]:
    save_dataset(dataset, folder / "data")
    facts = featurize(folder / "data", folder, folder / "training")
    return TrainingSet.load(folder / "training"), facts


def test_it_leaves_a_training_set_a_campaign_and_the_traffic(world: Dataset, tmp_path: Path) -> None:
    data, facts = run(world, tmp_path)
    assert {side: len(rows) for side, rows in data.rows.items()} == {"customer": 400, "merchant": 120}
    assert facts["customer accounts served"] == 200
    campaign, traffic = read_campaign(tmp_path), Traffic.load(tmp_path)
    assert campaign.name == "world"
    assert sum(profile.level for profile in traffic.profiles.values()) == pytest.approx(260)


def test_accounts_profiled_late_and_ties_older_than_profiles_are_left_out_and_counted(
    world: Dataset, tmp_path: Path
) -> None:
    """Profiles at ten instants, more than there are snapshots; some only after the account was asked."""
    tables = world.tables
    account = tables.account.copy()
    later = pd.to_timedelta(np.arange(len(account)) % 10 * 4, unit="h")
    account["snapshot_ts"] = account["snapshot_ts"] + later
    data, facts = run(replace(world, tables=replace(tables, account=account)), tmp_path)
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
        run(replace(world, tables=replace(tables, outcome=outcome)), tmp_path)
