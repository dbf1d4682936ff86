"""The whole loop at several sizes, step by step: seconds, peak memory, bytes written, growth.

Every step is the job that the pipeline runs, in a process of its own. With ``--keep`` an interrupted run goes on at the
step that it was in.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from benchmarks.markdown import Results, markdown

SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 2_000)
OFFERS, TIES = 10, 5
"""Offers of the trial and ties, for each account."""
CUSTOMERS, BOTH = 0.8, 0.01
"""Shares of the accounts."""


def run(cells: Cells, *, quick: bool) -> dict[str, Any]:
    """Measure every step at every size."""
    sizes = QUICK_SIZES if quick else SIZES
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for accounts in sizes:
        folder = cells.path.parent / f"scale-{accounts}"
        found[accounts] = {}
        for name, fields in steps(accounts, folder).items():
            step = cells.of(f"{name} {accounts}", partial(measure, name, fields, folder))
            found[accounts][name] = step
            print(f"{accounts:,} {name}: {step}", flush=True)
            if step["failed"]:
                break
        shutil.rmtree(folder, ignore_errors=True)
    return {"sizes": [{"accounts": accounts, "steps": each} for accounts, each in found.items()]}


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


def table(results: Results) -> str:
    """Seconds, memory and growth of every step; growth is the exponent from the size before."""
    lines: list[list[str]] = []
    before: dict[str, dict[str, Any]] = {}
    for row, size in enumerate(sizes := results["scale"]["sizes"]):
        accounts = size["accounts"]
        for name, step in size["steps"].items():
            growth = ""
            if name in before and not step["failed"]:
                factor = accounts / sizes[row - 1]["accounts"]
                growth = f"{math.log(step['seconds'] / before[name]['seconds']) / math.log(factor):.2f}"
            place = [
                f"{accounts:,}",
                name,
                f"{step['seconds']:.1f}",
                f"{step['gib']:.2f}",
                f"{step['bytes'] / 1e6:,.0f}",
            ]
            lines.append([*place, step["failed"] or growth])
        total = [sum(step[each] for step in size["steps"].values()) for each in ("seconds", "bytes")]
        peak = max(step["gib"] for step in size["steps"].values())
        lines.append([f"{accounts:,}", "**all**", f"{total[0]:.1f}", f"{peak:.2f}", f"{total[1] / 1e6:,.0f}", ""])
        before = {name: step for name, step in size["steps"].items() if not step["failed"]}
    return markdown(("accounts", "step", "seconds", "peak GiB", "MB written", "growth exponent"), lines)
