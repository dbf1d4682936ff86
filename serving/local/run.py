"""``python -m serving.local.run RUN``: the services of a finished run, until interrupted."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from serving.local.launch import Deployment, launch
from shadowprice.command import Arguments
from shadowprice.errors import ShadowpriceError


def main() -> int:
    """Command line; returns the exit status."""
    parser = Arguments(prog="python -m serving.local.run", description="Serve a finished run.")
    parser.add_argument("run", type=Path, help="folder of the run, such as runs/latest")
    parser.add_argument("--port", type=int, default=8080, help="of the predictor; ledger and console get the next two")
    given = parser.parse_args()
    folder = given.run.resolve()
    if not (folder / "campaign.json").exists():
        print(f"{given.run}: there is no run in this folder; run make quickstart first", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        deployment = Deployment.of_run(folder, folder / "campaign.json", currency=_currency(folder))
        ports = {"predictor_port": given.port, "ledger_port": given.port + 1, "console_port": given.port + 2}
        with launch(deployment, **ports) as services:
            print(f"campaign {services.campaign}: predictor {services.predictor_url}, ledger {services.ledger_url}")
            print(f"console {services.console_url}")
            print("Ctrl-C stops them.", flush=True)
            stop.wait()
    except ShadowpriceError as error:
        print(f"serve failed: {error}", file=sys.stderr)
        return 1
    return 0


def _currency(run: Path) -> str:
    """Currency of a run; a run of an earlier release does not name it."""
    summary = run / "summary.json"
    return str(json.loads(summary.read_bytes()).get("currency", "USD")) if summary.exists() else "USD"


if __name__ == "__main__":
    sys.exit(main())
