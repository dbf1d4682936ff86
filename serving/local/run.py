"""``python -m serving.local.run RUN``: the services of a finished run, until interrupted."""

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from operations.common.workspace import CAMPAIGN, read_campaign, read_columns
from serving.local.launch import Deployment, launch
from serving.local.policy import policy_in_words
from serving.local.window import open_window
from shadowprice.command.options import main_of
from shadowprice.errors import NotFound


def serve(
    run: Annotated[Path, typer.Argument(help="folder of the run, such as runs/latest")],
    port: Annotated[int, typer.Option(help="of the predictor; ledger and console get the next two")] = 8080,
) -> None:
    """Serve a finished run."""
    folder = run.resolve()
    if not (folder / CAMPAIGN).exists():
        mend = "`shadowprice run` makes one, and `shadowprice run --resume` finishes one"
        raise NotFound(f"{run}: there is no finished run; {mend}")
    read_columns(read_campaign(folder), folder)  # refuses here where the predictor would, before a window opens
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    lines = policy_in_words(folder)
    if open_window(folder):
        lines = [f"a window of {read_campaign(folder).hours} hours begins: nothing is spent", *policy_in_words(folder)]
    deployment = Deployment.of_run(folder, folder / CAMPAIGN)
    with launch(deployment, predictor_port=port, ledger_port=port + 1, console_port=port + 2) as services:
        print(f"campaign {services.campaign}: predictor {services.predictor_url}, ledger {services.ledger_url}")
        print(f"console {services.console_url}")
        for line in lines:
            print(line)
        print("Ctrl-C stops them.", flush=True)
        stop.wait()


main = main_of(serve, "python -m serving.local.run", failure="serve failed")

if __name__ == "__main__":
    sys.exit(main())
