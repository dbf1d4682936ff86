"""Networks trained by two processes together are those of one: run as a program, this file is one of the two."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.datasets.vouchers import generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses import make
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.processes import Processes, this_process, together, weighted_mean

QUICK = TrainingConfig(learning_rate=5e-3, epochs=2, batch_rows=100)
LEVELS = (10, 20, 40)
ROWS = {"dipn": {"bias_epochs": 3}, "dragonnet": {}, "cfrnet": {}, "hazard": {}}


def requests() -> pd.DataFrame:
    random = np.random.default_rng(0)
    n = 450
    level = random.integers(0, len(LEVELS), n)
    x = random.normal(size=(n, 2))
    chance = 1 / (1 + np.exp(-(x[:, 0] + 0.5 * level - 0.5)))
    names = [f"a{k // 3:03}" for k in range(n)]
    weight = random.uniform(0.5, 2.0, n)
    return pd.DataFrame({"account_id": names, "level": level, "response": (random.random(n) < chance) * 1.0,
                         "x_0": x[:, 0], "x_1": x[:, 1], "weight": weight})  # fmt: skip


def curves() -> Iterator[tuple[str, np.ndarray]]:
    """Name of a model and the curves (J, N) that it learns."""
    frame = requests()
    for name, options in ROWS.items():
        model = make(name, levels=LEVELS, training=QUICK, **options).fit(frame)
        yield name, model.curve(frame).response
    drawn = draw(FundOptions(users=80, merchants=20, funds=4, deliveries=4), seed=3)
    funds = make("esdpm", levels=range(4), graph=[drawn.graph()], behaviours=drawn.behaviours(), training=QUICK)
    yield "esdpm", funds.fit(drawn.frame()).curve(drawn.frame()).response
    vouchers = generate(seed=5, sessions=120)
    log = SessionLog.build(vouchers.tables)
    train = log.requests(vouchers.part() == "train")
    dmbgn = make("dmbgn", levels=log.levels, sessions=log, training=QUICK, dropout=0.0, pretraining=1, fine_tuning=1.0)
    yield "dmbgn", dmbgn.fit(train).curve(train).response


@pytest.mark.timeout(300)
def test_two_processes_learn_what_one_learns_from_the_same_steps(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, str(tmp_path)]
    pair = [
        subprocess.Popen([*command, str(rank)], env=environment, stderr=subprocess.PIPE, text=True) for rank in (0, 1)
    ]
    wanted = dict(curves())
    for process in pair:
        error = process.communicate(timeout=240)[1]
        assert process.returncode == 0, error
    found = np.load(tmp_path / "curves.npz")
    assert set(found.files) == set(wanted)
    for name, expected in wanted.items():
        np.testing.assert_allclose(found[name], expected, atol=2e-3, err_msg=name)
        assert expected.std() > 1e-3, name
    # The other process learns the same weights, and writes no checkpoint.
    other = np.load(tmp_path / "other.npz")
    for name in wanted:
        np.testing.assert_array_equal(other[name], found[name], err_msg=name)


def test_the_mean_gradient_of_unlike_parts_is_that_of_all_rows() -> None:
    """Two processes, one after the other: the sums over both are known beforehand."""
    losses = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], requires_grad=True)
    weight = torch.tensor([1.0, 3.0, 0.5, 2.0, 1.0])
    weighted_mean(losses, weight).backward()
    assert losses.grad is not None
    whole, losses.grad = losses.grad, None
    for rank in (0, 1):
        with together(Processes(rank, 2, lambda total: total.copy_(weight.sum()))):
            mine = this_process().part(torch.arange(5))
            weighted_mean(losses[mine], weight[mine]).backward()
    torch.testing.assert_close(losses.grad / 2, whole)
    assert this_process().count == 1


def run(folder: Path, rank: int) -> None:
    """Train as one of two processes and write the curves."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    kept = folder / f"checkpoints-{rank}"
    with together(Processes(rank, 2, torch.distributed.all_reduce)), checkpointing(kept):
        np.savez(folder / ("other.npz" if rank else "curves.npz"), **dict(curves()))
    assert kept.exists() == (rank == 0)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
