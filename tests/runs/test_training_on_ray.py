"""Training on Ray: two workers learn what this process learns, also when one of them is killed."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.world.training_set import training_set
from shadowprice.errors import InvalidInput
from shadowprice.learning.distributed import PROGRESS, RAY, WEIGHTS, ray_workers
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.recipes import Training
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.on_ray.local import start_ray
from shadowprice.responses.sided import load_sided
from shadowprice.responses.training import FitResult, TrainingConfig
from shadowprice.responses.training.team import share_out

QUICK = TrainingConfig(epochs=8, save_seconds=0)


@pytest.fixture(scope="module")
def cluster():
    """Ray itself, started once: training leaves a Ray that it did not start alone."""
    import ray

    os.environ["SHADOWPRICE_TEST_MARK"] = mark = f"train-{os.getpid()}"
    start_ray(ray, num_cpus=4, include_dashboard=False)
    yield mark
    ray.shutdown()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    data = training_set("world", 0, customers=200, merchants=60, both=5, trials=2)[1]
    data.save(folder := tmp_path_factory.mktemp("data"))
    return folder, data


def workers(mark: str) -> list[int]:
    """Processes of the cluster that train."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            trains = b"RayTrainWorker" in (path / "cmdline").read_bytes()
            if trains and mark.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_two_workers_of_which_one_is_killed_train_the_model_of_this_process(cluster, saved, tmp_path) -> None:
    folder, data = saved
    killed = []

    def kill() -> None:
        deadline = time.monotonic() + 300
        while not killed and time.monotonic() < deadline:
            try:
                begun = json.loads((tmp_path / RAY / PROGRESS).read_text())["epoch"] >= 2
            except (OSError, ValueError):
                begun = False
            if begun and (found := workers(cluster)):
                os.kill(found[-1], signal.SIGKILL)
                killed.append(found[-1])
            time.sleep(0.01)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    # So many epochs that the workers cannot end before one of them is killed.
    config = TrainingConfig(epochs=60, patience=60, save_seconds=0)
    kept = tmp_path / "checkpoint"
    with ray_workers(tmp_path, workers=2, label="joint_gnn", epochs=60):
        model, result = train(TrainingSet.load(folder), "joint_gnn", config, checkpoint=kept, report=lambda row: None)
    killer.join()
    assert killed
    here, expected = train(data, "joint_gnn", config, report=lambda row: None)
    assert result.epochs == expected.epochs == 60
    assert result.validation_loss == pytest.approx(expected.validation_loss, rel=1e-3)
    for name, tensor in here.network.state_dict().items():
        np.testing.assert_allclose(model.network.state_dict()[name].numpy(), tensor.numpy(), atol=2e-2, err_msg=name)


@pytest.mark.timeout(900)
def test_a_response_model_trains_on_two_workers_as_in_this_process(cluster, saved, tmp_path) -> None:
    folder, data = saved
    found = {}
    for workers in (0, 2):
        out = tmp_path / str(workers)
        _, result = fit_bundle(folder, out, Training("s_learner"), QUICK, workers=workers)
        curves = load_sided(out).curves(data.inputs, data.part("test"))
        found[workers] = (result.validation_loss, curves["customer"].response)
    assert (tmp_path / "2" / RAY / WEIGHTS).exists()
    assert found[2][0] == pytest.approx(found[0][0], rel=1e-3)
    np.testing.assert_allclose(found[2][1], found[0][1], atol=2e-3)


@pytest.mark.timeout(900)
def test_one_worker_trains_the_model_of_this_process_bit_for_bit(cluster, saved, tmp_path) -> None:
    folder, data = saved
    versions = [fit_bundle(folder, tmp_path / str(n), Training("joint_dnn"), QUICK, workers=n)[0] for n in (0, 1)]
    found = [load_sided(tmp_path / str(n)).curves(data.inputs, data.part("test")) for n in (0, 1)]
    for side, curves in found[0].items():
        np.testing.assert_array_equal(found[1][side].response, curves.response)
    assert len(versions) == 2


def refuse(module: torch.nn.Module, calls: str, progress: object) -> FitResult:
    with Path(calls).open("a") as file:
        file.write("called\n")
    raise InvalidInput("has neither a label nor features", field="offers", rows=[5])


@pytest.mark.timeout(900)
def test_the_error_of_a_worker_is_raised_as_itself_and_not_tried_again(cluster, tmp_path) -> None:
    calls = tmp_path / "calls"
    with (
        pytest.raises(InvalidInput) as caught,
        ray_workers(tmp_path, workers=1, label="refused", epochs=1),
    ):
        share_out(refuse, torch.nn.Linear(1, 1), lambda rank, count: str(calls), 100)
    assert str(caught.value) == "offers: has neither a label nor features (first rows: 5)"
    assert (caught.value.field, caught.value.rows) == ("offers", (5,))
    assert calls.read_text() == "called\n"
