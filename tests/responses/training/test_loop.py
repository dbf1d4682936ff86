"""The training loop: weight decay of parameters without gradient, order of rows, checkpoints."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shadowprice.errors import InvalidInput
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.batches import shuffled
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.responses.training.loop import BestEpoch, GradientDescent, train_epochs


class Pair(nn.Module):
    """Two numbers, of which a loss may hear one and not the other."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = nn.Parameter(torch.tensor(2.0))
        self.unheard = nn.Parameter(torch.tensor(2.0))


def test_decay_shrinks_what_is_not_heard_by_the_rate_and_no_faster() -> None:
    config = TrainingConfig(learning_rate=0.01, decay=0.9, epochs=30, patience=30, weight_decay=0.02)
    pair, left = Pair(), [1.0]

    def loss(index: Tensor, epoch: int) -> Tensor:
        left.append(left[-1] * (1 - 0.01 * 0.9**epoch * 0.02))
        return (pair.heard - 5.0).square() + 0.0 * pair.unheard

    GradientDescent(pair, shuffled(1, config), loss, lambda: -float(len(left))).run(config)
    assert len(left) == 31
    # A decay that is part of the gradient would have moved it by the learning rate in every step, 0.095 in all.
    assert pair.unheard.item() == pytest.approx(2.0 * left[-1], abs=1e-5)
    assert pair.heard.item() > 2.05


def test_training_without_a_caller_that_shows_its_progress_shows_it_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shadowprice.progress.EVERY", 0.01)
    config, told = TrainingConfig(epochs=5, patience=5), list[float]()

    def run_epoch(epoch: int) -> float:
        time.sleep(0.02)
        return 1.0 / (epoch + 1)

    train_epochs(Pair(), run_epoch, lambda: 0.0, config)
    assert "train Pair: 5 of 5 epochs" in capsys.readouterr().err
    train_epochs(Pair(), run_epoch, lambda: 0.0, config, progress=lambda row: told.append(row["epoch"]))
    assert told == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err == ""


def test_groups_have_decays_of_their_own() -> None:
    config = TrainingConfig(learning_rate=0.01, decay=1.0, epochs=20, patience=20, weight_decay=0.5)
    pair = Pair()
    groups = [{"params": [pair.heard]}, {"params": [pair.unheard], "weight_decay": 0.0}]
    epochs: list[int] = []

    def loss(index: Tensor, epoch: int) -> Tensor:
        epochs.append(epoch)
        return 0.0 * (pair.heard + pair.unheard)

    GradientDescent(pair, shuffled(1, config), loss, lambda: -float(len(epochs)), parameters=groups).run(config)
    assert pair.unheard.item() == 2.0
    assert pair.heard.item() == pytest.approx(2.0 * (1 - 0.01 * 0.5) ** 20, rel=1e-5)


def test_every_row_comes_once_in_an_epoch_in_an_order_of_its_own() -> None:
    steps = shuffled(10, TrainingConfig(batch_rows=4, seed=3))
    first, second = (torch.cat(list(steps(epoch))) for epoch in (0, 1))
    assert first.tolist() != second.tolist()
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert [len(step) for step in shuffled(10, TrainingConfig(batch_rows=4))(0)] == [4, 4, 2]
    assert [step.tolist() for step in shuffled(3, TrainingConfig())(7)] == [[0, 1, 2]]


def test_an_epoch_has_the_same_order_after_a_resume() -> None:
    config = TrainingConfig(batch_rows=4, seed=3)
    whole, resumed = shuffled(10, config), shuffled(10, config)
    for epoch in range(3):
        list(whole(epoch))
    assert [step.tolist() for step in whole(3)] == [step.tolist() for step in resumed(3)]


def fit(folder: Path, stamp: str = "", epochs: int = 5) -> list[float]:
    """Epochs that run."""
    pair, seen = Pair(), []
    with checkpointing(folder, stamp=stamp):
        GradientDescent(
            pair,
            shuffled(1, TrainingConfig()),
            lambda index, epoch: (pair.heard - 5.0).square() + pair.unheard,
            lambda: float(pair.heard.detach() ** 2),
        ).run(TrainingConfig(epochs=epochs, save_seconds=0), progress=lambda row: seen.append(row["epoch"]))
    return seen


def test_a_run_that_has_ended_is_not_repeated(tmp_path: Path) -> None:
    assert fit(tmp_path) == [0, 1, 2, 3, 4]
    assert fit(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["0.safetensors"]


def test_a_checkpoint_of_other_data_or_another_configuration_is_not_resumed(tmp_path: Path) -> None:
    fit(tmp_path, "week 1")
    assert fit(tmp_path, "week 2") == [0, 1, 2, 3, 4]
    assert fit(tmp_path, "week 2", epochs=3) == [0, 1, 2]


def test_random_generators_and_tensors_go_on_where_they_were(tmp_path: Path) -> None:
    config, pair = TrainingConfig(epochs=4, save_seconds=0), Pair()

    def draws(stop: int) -> list[float]:
        own, theirs, total = np.random.default_rng(0), torch.Generator().manual_seed(0), torch.zeros(1)
        torch.manual_seed(0)
        found = []

        def run_epoch(epoch: int) -> float:
            if epoch == stop:
                raise KeyboardInterrupt
            total.add_(1.0)
            drawn = [own.random(), float(torch.rand(1, generator=theirs)), float(torch.rand(1))]
            found.append([*drawn, float(total)])
            return 0.0

        train_epochs(pair, run_epoch, lambda: 1.0, config, carried=[own, theirs, total])
        return found

    whole = draws(9)
    with checkpointing(tmp_path), pytest.raises(KeyboardInterrupt):
        draws(2)
    with checkpointing(tmp_path):
        assert draws(9) == whole[2:]


def test_without_a_better_epoch_training_stops_after_the_patience() -> None:
    pair = Pair()
    config = TrainingConfig(epochs=50, patience=3)
    result = train_epochs(pair, lambda epoch: 0.0, lambda: 1.0, config, best=BestEpoch(keep_start=True))
    assert (result.epochs, result.best_epoch) == (4, -1)


@pytest.mark.parametrize("keep_start", [False, True])
def test_a_loss_that_is_never_finite_is_refused_and_one_that_diverges_ends_at_the_best_epoch(keep_start: bool) -> None:
    config = TrainingConfig(epochs=5)
    with pytest.raises(InvalidInput, match=r"training: .*not a finite number"):
        train_epochs(Pair(), lambda _: 0.0, lambda: float("nan"), config, best=BestEpoch(keep_start=keep_start))
    pair, measures = Pair(), iter([*[float("nan")] * keep_start, 3.0, 2.0, float("inf")])

    def run(epoch: int) -> float:
        with torch.no_grad():
            pair.heard.fill_(float(epoch))
        return 0.0

    found = train_epochs(pair, run, lambda: next(measures), config, best=BestEpoch(keep_start=keep_start))
    assert (found.epochs, found.best_epoch, found.validation_loss, pair.heard.item()) == (2, 1, 2.0, 1.0)


def test_a_configuration_needs_no_torch() -> None:
    code = "import sys, shadowprice.responses.training; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
