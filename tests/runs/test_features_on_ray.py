"""The job featurize with workers: Ray actors join the features that it joins alone."""

from pathlib import Path

import numpy as np
import pytest
import ray

from operations import featurize as module
from operations.common import snapshots
from operations.featurize import FeaturizeJob
from operations.prepare import PrepareJob
from operations.prepare import run as prepare
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.inputs import snapshot_folder


def test_the_snapshot_is_the_same_whoever_joins_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"customers": 300, "merchants": 80, "both": 10, "trials": 2}
    prepare(PrepareJob(tables=tmp_path / "tables", dataset="world", options=options))
    monkeypatch.setattr(snapshots, "BATCH", 60)
    started = []
    monkeypatch.setattr(ray, "init", lambda init=ray.init, **given: started.append(given) or init(**given))
    found = []
    for workers in (0, 2):
        folder = tmp_path / f"{workers} workers"
        job = FeaturizeJob(
            tables=tmp_path / "tables", training=folder / "training", workspace=folder / "workspace", workers=workers
        )
        module.run(job)
        assert len(started) == workers / 2
        found.append(GraphSnapshot.load(snapshot_folder(job.training, 0)))
    alone, shared = found
    assert alone.nodes == 370
    np.testing.assert_array_equal(shared.account_id, alone.account_id)
    assert shared.names == alone.names
    for side, features in alone.features.items():
        np.testing.assert_array_equal(shared.features[side], features)
