"""Exit status of a Typer application."""

from __future__ import annotations

import click
import typer

from shadowprice.command import MISUSED, Misused


def status_of(app: typer.Typer, name: str) -> int:
    """Run an application on the arguments of this process, and return its exit status in place of ending the process.

    Raises:
        Misused: the arguments are wrong. Other errors of the command go on to the caller too.
    """
    try:
        found = app(prog_name=name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return MISUSED
    except click.ClickException as error:
        raise Misused(f"{error.format_message()} {name} --help describes the options") from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return found if isinstance(found, int) else 0
