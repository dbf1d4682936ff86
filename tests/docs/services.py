"""Services of a run, started as the guides start them, at free ports."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snippets import ROOT

SERVICES = ("8080", "8081", "8082")
"""Ports of predictor, ledger and console in the guides."""


@contextmanager
def served(run: Path, port: int) -> Iterator[str]:
    """Serve a run as the guides do, and give what is printed; ledger and console have the ports after the given one."""
    command = [sys.executable, "-W", "ignore", "-m", "shadowprice", "serve", str(run), "--port", str(port)]
    known = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=known, stdout=subprocess.PIPE, text=True) as services:
        assert services.stdout is not None
        try:
            told = []
            while not told or "Ctrl-C" not in told[-1]:
                told.append(services.stdout.readline())
                assert told[-1], told
            yield "".join(told)
        finally:
            services.send_signal(signal.SIGINT)
            services.wait(60)
