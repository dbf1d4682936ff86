"""What a step of a pipeline does, as plain functions of paths and values, wherever it runs.

``python -m components.steps train '{"training": "…", …}'`` runs one by name, as the entrypoint of a Ray job does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from shadowprice.errors import ShadowpriceError
from shadowprice.files import write_whole


def train(
    training: str,
    model: str,
    recipe: str,
    epochs: int,
    seed: int,
    workers: int,
    curve_repair: str,
    calibration: str,
) -> None:
    """Fit a recipe to the training set in a folder and write its bundle to another."""
    from shadowprice.learning.fit import fit_bundle
    from shadowprice.responses.training import TrainingConfig

    config = TrainingConfig(epochs=epochs, seed=seed)
    fit_bundle(
        Path(training),
        Path(model),
        recipe,
        config,
        workers=workers,
        curve_repair=curve_repair,
        calibration=calibration,
    )


def solve(state: str, price: str, workspace: str, solver: str) -> None:
    """Solve the price of a state and write the sealed record to a file, not yet published unless there was one."""
    from feature_repo.resolve import solve_or_keep

    solve_or_keep(Path(state), Path(workspace), Path(price), solver=solver)


def train_vouchers(sessions: str, graphs: str, model: str, figures: str, recipe: str, epochs: int, seed: int) -> None:
    """Fit a model of voucher sessions and write it and the figures of its training."""
    from shadowprice.learning.vouchers import train

    _tell(figures, train(Path(sessions), Path(graphs), Path(model), recipe, epochs, seed))


def solve_vouchers(bundle: str, price: str, workspace: str, campaign: str, budget: int, requests: int) -> None:
    """Solve the price of a budget over stored curves and write campaign and record, not yet published, to a folder."""
    from feature_repo.vouchers import solve_vouchers as solve_curves

    solve_curves(Path(bundle), Path(workspace), Path(price), name=campaign, budget=budget, requests=requests)


def learn_delivery(
    training: str,
    tables: str,
    model: str,
    figures: str,
    workspace: str,
    recipe: str,
    loss: str,
    epochs: int,
    seed: int,
) -> None:
    """Fit a model of funds and write its bundle and its figures on the test split."""
    from feature_repo.delivery import learn

    folders = Path(training), Path(tables), Path(workspace), Path(model)
    _tell(figures, learn(*folders, model=recipe, loss=loss, epochs=epochs, seed=seed)[1])


def deliver(model: str, tables: str, plan: str, figures: str, summary: str, workspace: str) -> None:
    """Solve segments of exact sizes and write the plan, its figures and its report, not yet published."""
    from feature_repo.delivery import deliver as plan_delivery

    text, found = plan_delivery(Path(model), Path(tables), Path(workspace), Path(plan))
    write_whole(Path(summary), text)
    _tell(figures, found)


def _tell(path: str, figures: Mapping[str, float]) -> None:
    write_whole(Path(path), json.dumps(dict(figures)))


STEPS: dict[str, Callable[..., None]] = {
    "train": train,
    "solve": solve,
    "train-vouchers": train_vouchers,
    "solve-vouchers": solve_vouchers,
    "learn-delivery": learn_delivery,
    "deliver": deliver,
}


def main() -> int:
    """Command line: 1 with the reason when the step fails."""
    parser = argparse.ArgumentParser(prog="python -m components.steps", description="Run one step of a pipeline.")
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("arguments", type=json.loads, help="JSON object")
    given = parser.parse_args()
    try:
        STEPS[given.step](**given.arguments)
    except ShadowpriceError as error:
        print(f"{given.step} failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
