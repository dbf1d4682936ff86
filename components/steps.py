"""What a step of a pipeline does, as plain functions of paths and values, wherever it runs.

``python -m components.steps train '{"training": "…", …}'`` runs one by name, as the entrypoint of a Ray job does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from shadowprice.errors import ShadowpriceError


def train(training: str, model: str, recipe: str, epochs: int, seed: int, workers: int, curve_repair: str) -> None:
    """Fit a recipe to the training set in a folder and write its bundle to another."""
    from shadowprice.learning.fit import fit_bundle
    from shadowprice.responses.training import TrainingConfig

    config = TrainingConfig(epochs=epochs, seed=seed)
    fit_bundle(Path(training), Path(model), recipe, config, workers=workers, curve_repair=curve_repair)


def solve(state: str, price: str, workspace: str, solver: str) -> None:
    """Solve the price of a state and write the sealed record, not yet published, to a file."""
    from feature_repo.resolve import solve_state

    solve_state(Path(state), Path(workspace), Path(price), solver=solver)


STEPS: dict[str, Callable[..., None]] = {"train": train, "solve": solve}


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
