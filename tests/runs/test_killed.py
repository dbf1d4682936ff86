"""A step that is killed and run again writes what it writes undisturbed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from feature_repo.online import OnlineReader, read_price
from feature_repo.store import open_store
from operations.common.job import job_class, run_here
from operations.common.workspace import FEATURES, MODEL
from shadowprice.campaign import SIDES
from shadowprice.learning.bundle import EMBEDDINGS, read_meta

STEPS = ("prepare", "featurize", "train", "evaluate", "register", "measure", "solve", "publish", "embed")
MOMENTS = {
    "trained_at",
    "created_at",
    "solved_at",
    "expires_at",
    "computed_at",
    "observed_at",
    "at",
    "event_timestamp",
    "created",
    "seconds",
    "sha256",
}
"""Fields that tell when a step ran, how long it took, or are digests of one of these."""
OWN = (".db", ".db-wal", ".db-shm", ".db-journal", ".html", ".log")
"""Files that are compared by what is read from them, or not at all."""


def fields(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Fields of every step, in order; ``embed`` reads tables with accounts that came after the training."""
    at = {name: str(folder / name) for name in ("tables", "training", "model", "evaluation", "state", "price", "later")}
    space = {"workspace": str(folder / "workspace")}
    options = {"customers": 300, "merchants": 80, "both": 10, "ties": 4, "trials": 3}
    pages = {name: str(folder / f"{name}.md") for name in ("page", "summary")}
    train = {name: at[name] for name in ("training", "model")} | space | {"workers": 0, "epochs": 30}
    return {
        "prepare": {"tables": at["tables"], "dataset": "world", "options": options},
        "featurize": {"tables": at["tables"], "training": at["training"]} | space,
        "train": train | {"figures": str(folder / "figures.json")},
        "evaluate": {name: at[name] for name in ("tables", "training", "model", "evaluation")} | pages,
        "register": {"model": at["model"]} | space,
        "measure": {"state": at["state"]} | space,
        "solve": {"price": at["price"], "state": at["state"]} | space,
        "publish": {"price": at["price"]} | space,
        "embed": {"training": at["later"]} | space,
    }


def run(step: str, folder: Path) -> None:
    run_here(job_class(step)(**fields(folder)[step]))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Path, float]]:
    """The folder before each step and after the last, and the seconds of the step."""
    home = tmp_path_factory.mktemp("undisturbed")
    here, found = home / "run", {}
    here.mkdir()
    for step in STEPS:
        if step == "embed":
            later(here)
        copy(here, home / f"before-{step}")
        started = time.monotonic()
        run(step, here)
        found[step] = time.monotonic() - started
        copy(here, home / f"after-{step}")
    return {step: (home, seconds) for step, seconds in found.items()}


def later(folder: Path) -> None:
    """Add accounts to a copy of the training set: as the next day's featurize would, named anew."""
    shutil.copytree(folder / "training", folder / "later")
    for side in SIDES:
        path = folder / "later" / f"serving-{side}.parquet"
        rows = pd.read_parquet(path)
        known = pd.read_parquet(folder / "workspace" / MODEL / EMBEDDINGS, columns=["account_id", "side"])
        keep = known["account_id"][known["side"] == side].iloc[::3]
        drop_embeddings(folder / "workspace" / MODEL / EMBEDDINGS, side, set(keep))
        assert set(keep) <= set(rows["account_id"])


def drop_embeddings(path: Path, side: str, names: set[str]) -> None:
    """Make accounts new: the model was published without them."""
    table = pd.read_parquet(path)
    table[~((table["side"] == side) & table["account_id"].isin(names))].to_parquet(path, index=False)


def killed(step: str, folder: Path, seconds: float) -> int:
    """Run a step in a process of its own, and kill it some seconds after its first write; return its exit status."""
    before = listing(folder)
    command = [sys.executable, "-W", "ignore", "-m", "operations", step, json.dumps(fields(folder)[step])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        while process.poll() is None and listing(folder) == before:
            time.sleep(0.002)
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), output[-2000:]
    return process.returncode


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Return time and size of every path.

    ``os.walk`` passes over folders that the step removes meanwhile, ``rglob`` does not.
    """
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            found[path] = (status.st_mtime_ns, status.st_size)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_killed_twice_and_run_again_writes_what_it_writes_undisturbed(
    step: str, undisturbed: Mapping[str, tuple[Path, float]], tmp_path: Path
) -> None:
    home, seconds = undisturbed[step]
    folder = tmp_path / "run"
    copy(home / f"before-{step}", folder)
    ended = [killed(step, folder, wait) for wait in (0.0, seconds / 2)]
    assert -signal.SIGKILL in ended
    run(step, folder)
    wanted, found = read(home / f"after-{step}"), read(folder)
    assert set(found) == set(wanted)
    for name, expected in wanted.items():
        assert_alike(found[name], expected, name)


def copy(folder: Path, to: Path) -> None:
    """Copy a folder with its links, which are relative."""
    shutil.copytree(folder, to, symlinks=True)
    assert not any(path.is_symlink() and path.readlink().is_absolute() for path in to.rglob("*"))


def read(folder: Path) -> dict[str, Any]:
    """Return what a step's reader finds in a folder, by name: files, and the vectors and prices of the online store."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_dir() or hidden or path.suffix in OWN or "checkpoint" in name or "__pycache__" in name:
            continue
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
            found[name] = table.drop(columns=[column for column in table if column.endswith(tuple(MOMENTS))])
        elif path.suffix == ".npy":
            found[name] = np.load(path, allow_pickle=False)
        elif path.suffix in (".json", ""):
            found[name] = timeless(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix != ".md":
            found[name] = path.read_bytes()
    if (folder / "workspace" / MODEL).exists():
        version = read_meta(folder / "workspace" / MODEL)["model_version"]
        features = folder / "workspace" / FEATURES
        reader, price = OnlineReader(features, version), read_price(open_store(features), "world")
        for side in SIDES:
            names = pd.read_parquet(folder / "training" / f"serving-{side}.parquet")["account_id"].tolist()
            found[f"online {side}"] = reader.embeddings(side, names)[0]
        found["online price"] = {} if price is None else timeless(json.loads(price.to_json()))
    return found


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in MOMENTS}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def assert_alike(found: Any, expected: Any, name: str) -> None:
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected, obj=name)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected, err_msg=name)
    else:
        assert found == expected, name
