"""``python -m serving.local.run RUN``: the services of a finished run, until interrupted."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from operations.common.workspace import CAMPAIGN, read_campaign
from serving.local.launch import Deployment, launch
from serving.local.policy import policy_in_words
from serving.local.window import open_window
from shadowprice.command import Arguments
from shadowprice.errors import ShadowpriceError


def main() -> int:
    """Command line; returns the exit status."""
    parser = Arguments(prog="python -m serving.local.run", description="Serve a finished run.")
    parser.add_argument("run", type=Path, help="folder of the run, such as runs/latest")
    parser.add_argument("--port", type=int, default=8080, help="of the predictor; ledger and console get the next two")
    given = parser.parse_args()
    folder = given.run.resolve()
    if not (folder / CAMPAIGN).exists():
        print(f"{given.run}: there is no run in this folder; run make quickstart first", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        told = policy_in_words(folder)
        if open_window(folder):
            told = [
                f"a window of {read_campaign(folder).hours} hours begins: nothing is spent",
                *policy_in_words(folder),
            ]
        deployment = Deployment.of_run(folder, folder / CAMPAIGN, currency=read_campaign(folder).currency)
        ports = {"predictor_port": given.port, "ledger_port": given.port + 1, "console_port": given.port + 2}
        with launch(deployment, **ports) as services:
            print(f"campaign {services.campaign}: predictor {services.predictor_url}, ledger {services.ledger_url}")
            print(f"console {services.console_url}")
            for line in told:
                print(line)
            print("Ctrl-C stops them.", flush=True)
            stop.wait()
    except ShadowpriceError as error:
        print(f"serve failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
