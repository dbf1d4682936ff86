"""Exit status of a Typer application."""

from __future__ import annotations

import typer


def status_of(app: typer.Typer, name: str) -> int:
    """Run an application on the arguments of this process, and return its exit status in place of ending the process.

    Errors that are not of the command line go on to the caller.
    """
    try:
        app(prog_name=name)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0
