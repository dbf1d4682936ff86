"""Exit status of a Typer application."""

from __future__ import annotations

import typer

from shadowprice.command import MISUSED, Misused


def status_of(app: typer.Typer, name: str) -> int:
    """Run an application on the arguments of this process, and return its exit status in place of ending the process.

    Raises:
        Misused: the arguments are wrong. Other errors of the command go on to the caller too.
    """
    try:
        found = app(prog_name=name, standalone_mode=False)
    except SystemExit as ended:
        # A completion of the shell ends so.
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        # Typer may have a Click of its own, whose errors only have this in common with those of the package.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message())
            return MISUSED
        text = " ".join(message().split()).rstrip(".")
        raise Misused(f"{text}; {name} --help describes the options") from error
    return found if isinstance(found, int) else 0
