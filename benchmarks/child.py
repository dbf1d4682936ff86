"""Modules that run in a process of their own and print JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def answer(module: str, *words: str, seconds: float | None = None, **variables: str) -> Any:
    """Run ``python -m module words`` and return the JSON of its last line.

    Args:
        module: of the project.
        words: of its command line.
        seconds: after which it is ended.
        variables: of its environment, beside those of this process.

    Raises:
        RuntimeError: it failed; with the last line that it wrote.
        subprocess.TimeoutExpired: it took longer than ``seconds``.
    """
    command = [sys.executable, "-W", "ignore", "-m", module, *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, cwd=ROOT, env=os.environ | variables, check=False
    )
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"{module} ended without a word"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
