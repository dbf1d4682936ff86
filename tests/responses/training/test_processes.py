"""Two processes with half of the rows each train the network of one: run as a program, this is one of the two."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ray import cloudpickle

from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.datasets.vouchers import generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses import make
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import FitResult, TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.processes import Processes, this_process, together, weighted_mean
from shadowprice.responses.training.team import Task, Trained, share_out, trained_by

WHOLE = TrainingConfig(learning_rate=5e-3, epochs=2, batch_rows=10_000)
"""Steps of all rows: the same in one process and in several, which otherwise deal other rows to a step."""
LEVELS = (10, 20, 40)


@dataclass
class Run:
    """Report of one process: sizes of the task and of the rows it was sent, gradients of the last step, result."""

    task_bytes: int
    rows: list[int]
    gradients: dict[str, torch.Tensor | None]
    trained: Trained


def do(task: Task, part: Any, size: int = 0) -> Run:
    """Run a task; the gradient of the last step is still there."""
    trained = task.run(part)
    gradients = {
        name: None if each.grad is None else each.grad.clone() for name, each in task.module.named_parameters()
    }
    return Run(size, rows_of(part), gradients, trained)


def rows_of(part: Any) -> list[int]:
    """Rows of train and validation that a process was sent."""
    if hasattr(part, "train"):
        return [sum(len(rows) for rows in split.values()) for split in (part.train, part.validation)]
    return [len(rows) for rows in part]


class Pair:
    """Two processes, each of which is sent its task and its rows as Ray sends them."""

    count = 2

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", __file__, str(folder)]
        pipe = subprocess.PIPE
        self._processes = [
            subprocess.Popen([*command, str(rank)], env=environment, stdin=pipe, stdout=pipe) for rank in range(2)
        ]
        self.runs: list[list[Run]] = []

    def train(self, task: Task, parts: Sequence[Any]) -> Trained:
        sent, common = [cloudpickle.dumps((task, part)) for part in parts], len(cloudpickle.dumps(task))
        for process, each in zip(self._processes, sent, strict=True):
            process.stdin.write(struct.pack("<QQ", len(each), common) + each)
            process.stdin.flush()
        self.runs.append([cloudpickle.load(process.stdout) for process in self._processes])
        return self.runs[-1][0].trained

    def close(self) -> None:
        for process in self._processes:
            process.stdin.close()
            process.wait(30)
            process.stdout.close()


def serve(folder: Path, rank: int) -> None:
    """Be one of the two processes."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    while head := sys.stdin.buffer.read(16):
        size, common = struct.unpack("<QQ", head)
        task, part = cloudpickle.loads(sys.stdin.buffer.read(size))
        with together(Processes(rank, 2, torch.distributed.all_reduce)):
            answers.write(cloudpickle.dumps(do(task, part, common)))
        answers.flush()


class Recorder:
    """One process with all rows."""

    count = 1

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def train(self, task: Task, parts: Sequence[Any]) -> Trained:
        self.runs.append(do(*cloudpickle.loads(cloudpickle.dumps((task, parts[0])))))
        return self.runs[-1].trained


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    found = Pair(tmp_path_factory.mktemp("pair"))
    yield found
    found.close()


@pytest.fixture
def pair(processes: Pair) -> Pair:
    processes.runs.clear()
    return processes


def requests() -> pd.DataFrame:
    random = np.random.default_rng(0)
    n = 900
    level = random.integers(0, len(LEVELS), n)
    x = random.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(-(x[:, 0] + 0.5 * level - 0.5)))
    names = [f"a{k // 3:03}" for k in range(n)]
    weight = random.uniform(0.5, 2.0, n)
    return pd.DataFrame({"account_id": names, "level": level, "response": (random.random(n) < chance) * 1.0,
                         "x_0": x[:, 0], "x_1": x[:, 1], "weight": weight})  # fmt: skip


def fitted(name: str) -> np.ndarray:
    """Curves (J, N) that a model learns: of a graph, of requests, of vouchers, of funds."""
    if name == "esdpm" or name == "graph":
        drawn = draw(FundOptions(users=80, merchants=20, funds=4, deliveries=4), seed=3)
        frame, graph = drawn.frame(), [drawn.graph()]
        if name == "esdpm":
            model = make(
                name, levels=range(4), inputs=Inputs(snapshots=graph, behaviours=drawn.behaviours()), training=WHOLE
            )
        else:
            frame = frame[["account_id", "level", "response", "snapshot_at"]]
            model = make("hazard", levels=LEVELS, inputs=Inputs(snapshots=graph), encoder="gcn2", training=WHOLE)
            frame = frame[frame["level"] < len(LEVELS)].reset_index(drop=True)
        return model.fit(frame).curve(frame).response
    if name == "dmbgn":
        vouchers = generate(seed=5, sessions=700)
        log = SessionLog.build(vouchers.tables)
        train = log.requests(vouchers.part() == "train")
        options = {"dropout": 0.0, "pretraining": 1, "fine_tuning": 1.0}
        model = make(name, levels=log.levels, inputs=Inputs(sessions=log), training=WHOLE, **options)
        return model.fit(train).curve(train).response
    options = {"bias_epochs": 3} if name == "dipn" else {}
    return make(name, levels=LEVELS, training=WHOLE, **options).fit(requests()).curve(requests()).response


@pytest.mark.parametrize("name", ["graph", "dipn", "s_learner", "dmbgn", "esdpm"])
def test_two_processes_with_half_of_the_rows_each_take_the_steps_of_one_with_all(name: str, pair: Pair) -> None:
    one = Recorder()
    with trained_by(one):
        expected = fitted(name)
    with trained_by(pair):
        found = fitted(name)
    assert len(pair.runs) == len(one.runs) > 0
    assert expected.std() > 1e-4
    np.testing.assert_allclose(found, expected, atol=2e-3)
    for ranks, alone in zip(pair.runs, one.runs, strict=True):
        for own, other, of_all in zip(*(run.rows for run in ranks), alone.rows, strict=True):
            assert own + other == of_all
            assert min(own, other) > 0.25 * of_all
        for key, known in alone.gradients.items():
            for run in ranks:
                gradient = run.gradients[key]
                if known is None:
                    assert gradient is None
                    continue
                torch.testing.assert_close(gradient, known, rtol=1e-2, atol=1e-3 * float(known.abs().max()) + 1e-6)
                assert torch.equal(run.trained.weights[key], ranks[0].trained.weights[key])
        # What all are sent holds no rows.
        assert ranks[0].task_bytes < 2_000_000


def test_few_rows_are_trained_on_in_this_process(pair: Pair) -> None:
    with trained_by(pair):
        make("dipn", levels=LEVELS, training=WHOLE, bias_epochs=1).fit(requests().iloc[:60])
    assert not pair.runs


@pytest.mark.parametrize("count", [1, 2])
def test_steps_of_several_processes_are_equally_many(count: int, pair: Pair) -> None:
    """Batches of a hundred rows: each process takes its part, and the model of the one is close to that of two."""
    team = pair if count == 2 else Recorder()
    quick = TrainingConfig(learning_rate=5e-3, epochs=40, batch_rows=100)
    with trained_by(team):
        found = make("s_learner", levels=LEVELS, training=quick).fit(requests()).curve(requests()).response
    alone = make("s_learner", levels=LEVELS, training=quick).fit(requests()).curve(requests()).response
    if count == 1:
        np.testing.assert_array_equal(found, alone)
    assert np.corrcoef(found.ravel(), alone.ravel())[0, 1] > 0.98


def test_the_mean_gradient_of_unlike_parts_is_that_of_all_rows() -> None:
    """Two processes, one after the other: the sums over both are known beforehand."""
    losses = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], requires_grad=True)
    weight = torch.tensor([1.0, 3.0, 0.5, 2.0, 1.0])
    weighted_mean(losses, weight).backward()
    assert losses.grad is not None
    whole, losses.grad = losses.grad, None
    for rank, mine in enumerate((torch.arange(3), torch.arange(3, 5))):
        with together(Processes(rank, 2, lambda total: total.copy_(weight.sum()))):
            weighted_mean(losses[mine], weight[mine]).backward()
    torch.testing.assert_close(losses.grad / 2, whole)
    assert this_process().count == 1


def test_the_first_process_keeps_the_checkpoint_of_each_run(tmp_path: Path, pair: Pair) -> None:
    """An interrupted fit goes on where it was, also by a team: runs that have ended are not repeated."""
    frame = requests()
    found = []
    for _ in range(2):
        with trained_by(pair), checkpointing(tmp_path / "kept", stamp="a"):
            found.append(make("dipn", levels=LEVELS, training=WHOLE, bias_epochs=3).fit(frame).curve(frame).response)
        assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["0.safetensors", "1.safetensors"]
    np.testing.assert_array_equal(*found)


def test_a_module_that_a_team_trained_has_its_weights_here(pair: Pair) -> None:
    module = torch.nn.Linear(1, 1)

    def fit(module: torch.nn.Module, part: Sequence[range], progress: object) -> FitResult:
        with torch.no_grad():
            module.weight.fill_(this_process().total(sum(part[0])))
        return FitResult(this_process().count, 0, 0.0, [])

    def deal(rank: int, count: int) -> Sequence[range]:
        return [range(rank, 10, count)]

    with trained_by(pair):
        assert share_out(fit, module, deal, 100).epochs == 2
    assert module.weight.detach().item() == 45.0
    assert share_out(fit, module, deal, 100).epochs == 1


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
