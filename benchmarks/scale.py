"""The whole loop at several sizes, step by step: seconds, peak memory, bytes written, growth.

Every step is the job that the pipeline runs, in a process of its own. With ``--keep`` an interrupted run goes on at the
step that it was in, and one that failed at the step that failed. Tables and plot show what has been measured so far.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from benchmarks.drawing import draw
from benchmarks.markdown import Results, markdown
from operations.common.disk import require_space

SIZES = (100_000, 1_000_000, 10_000_000)
QUICK_SIZES = (1_000, 2_000)
ACCOUNT_BYTES = 3500
"""That all steps together write for an account."""
OFFERS, TIES = 10, 5
"""Offers of the trial and ties, for each account."""
CUSTOMERS, BOTH = 0.8, 0.01
"""Shares of the accounts."""


def run(cells: Cells, *, quick: bool) -> dict[str, Any]:
    sizes = QUICK_SIZES if quick else SIZES
    for accounts in sizes:
        folder = cells.path.parent / f"scale-{accounts}"
        require_space(folder, max(ACCOUNT_BYTES * accounts - written(folder), 0), f"the loop of {accounts:,} accounts")
        for name, fields in steps(accounts, folder).items():
            step = cells.of(f"{name} {accounts}", partial(measure, name, fields, folder), again=itemgetter("failed"))
            if step["failed"]:
                # What the steps before have written stays, and with --keep the run goes on here.
                return {}
        shutil.rmtree(folder, ignore_errors=True)
    return {}


def steps(accounts: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Fields of every job of the loop, in order."""
    at = {name: str(folder / name) for name in ("tables", "training", "model", "evaluation", "state", "price")}
    space = {"workspace": str(folder / "workspace")}
    options = {
        "customers": round(CUSTOMERS * accounts),
        "merchants": round((1 - CUSTOMERS + BOTH) * accounts),
        "both": round(BOTH * accounts),
        "ties": TIES / CUSTOMERS,
        "trials": OFFERS,
    }
    pages = {name: str(folder / f"{name}.html") for name in ("page", "summary")}
    figures = {"figures": str(folder / "figures.json")}
    return {
        "prepare": {"tables": at["tables"], "dataset": "world", "options": options},
        "featurize": {"tables": at["tables"], "training": at["training"], **space},
        "train": {name: at[name] for name in ("tables", "training", "model")} | space | figures | {"workers": 0},
        "evaluate": {name: at[name] for name in ("tables", "training", "model", "evaluation")} | pages,
        "register": {"model": at["model"], **space},
        "measure": {"state": at["state"], **space},
        "solve": {"price": at["price"], "state": at["state"], **space},
        "publish": {"price": at["price"], **space},
    }


def measure(job: str, fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Seconds, peak memory in GiB, bytes left on disk, and the last line of a job that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    before, started = written(folder), time.perf_counter()
    with (folder / f"{job}.log").open("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "operations", job, json.dumps(fields)], stdout=log, stderr=log
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        lines = log.read().strip().splitlines()
    return {
        "seconds": time.perf_counter() - started,
        "processor": used.ru_utime + used.ru_stime,
        "gib": used.ru_maxrss / 2**20,
        "bytes": max(written(folder) - before, 0),
        "failed": "" if process.returncode == 0 else (lines or [f"exit status {process.returncode}"])[-1],
    }


def written(folder: Path) -> int:
    """Bytes in a folder; a file under two names counts once."""
    kept = {(s := path.lstat()).st_ino: s.st_size for path in folder.rglob("*") if not path.is_dir()}
    return sum(kept.values())


def measured(results: Results) -> dict[int, dict[str, dict[str, Any]]]:
    """Return accounts → step → what was measured of it, in the order of the loop."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for name, cell in results["scale"]["cells"].items():
        step, accounts = name.split()
        found.setdefault(int(accounts), {})[step] = cell["found"]
    return found


def table(results: Results) -> str:
    """Table of all sizes; of the largest, each step has the exponent of its CPU time from the size before."""
    lines: list[list[str]] = []
    before: tuple[int, dict[str, dict[str, Any]]] = 0, {}
    found = measured(results)
    for accounts, steps in sorted(found.items()):
        shown = {name: step for name, step in steps.items() if accounts == max(found) or step["failed"]}
        for name, step in shown.items():
            growth = ""
            if name in before[1] and not step["failed"]:
                ratio = step["processor"] / before[1][name]["processor"]
                growth = f"{math.log(ratio) / math.log(accounts / before[0]):.2f}"
            lines.append([f"{accounts:,}", name, *_columns([step]), step["failed"] or growth])
        lines.append([f"{accounts:,}", "**all**", *_columns(list(steps.values())), ""])
        before = accounts, {name: step for name, step in steps.items() if not step["failed"]}
    return markdown(("accounts", "step", "seconds", "CPU", "peak GiB", "MB written", "growth exponent"), lines)


def _columns(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Seconds, CPU seconds, peak memory and megabytes of steps one after the other."""
    total = {name: sum(step[name] for step in steps) for name in ("seconds", "processor", "bytes")}
    peak = max(step["gib"] for step in steps)
    return [f"{total['seconds']:.1f}", f"{total['processor']:.1f}", f"{peak:.2f}", f"{total['bytes'] / 1e6:,.0f}"]


def plot(results: Results, path: Path) -> None:
    """Draw CPU seconds and peak memory of every step by the number of accounts, both on logarithmic axes."""
    found = measured(results)
    names = list(found[min(found)])
    panels = {
        title: {
            name: [(accounts, steps[name][key]) for accounts, steps in sorted(found.items()) if name in steps]
            for name in names
        }
        for key, title in (("processor", "CPU seconds"), ("gib", "peak memory, GiB"))
    }
    draw(panels, path)
