"""``python -m cli.document``: write the reference of the command line from the commands' own help."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from cli.commands import COMMANDS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "command-line.md"
START = "<!-- python -m cli.document writes the rest -->"
COMMON_JSON = "print the result as JSON"
"""Help of ``--json`` where it is the option that the head of the page describes."""


def page(written: str) -> str:
    """Return the page: what is written by hand, and the commands with their options."""
    return written.partition(START)[0] + START + "\n\n" + "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    yield from ("## Commands", "", "A default stands in brackets.", "")
    for name, entry in COMMANDS.items():
        yield f"- `shadowprice {name}`: {entry.about}"
    for name, entry in COMMANDS.items():
        own = getattr(import_module(entry.module), "app", None) if entry.module.startswith("cli.") else None
        if own is None:
            continue
        command: Any = typer.main.get_command(own)
        if len(own.registered_commands) == 1:
            yield from _command(name, command)
        else:
            for verb, inner in command.commands.items():
                yield from _command(f"{name} {verb}", inner)


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    words = " ".join(_label(argument) if argument.required else f"[{_label(argument)}]" for argument in arguments)
    yield from ("", f"## shadowprice {name}", "", f"    shadowprice {name} {words}", "")
    yield from (line.strip().replace("``", "`") for line in command.help.strip().splitlines())
    yield ""
    for param in command.params:
        if param.name == "help" or param.help == COMMON_JSON:
            continue
        label = _label(param) if param in arguments else ", ".join(param.opts)
        default = (
            " (required)" if param.required else "" if param.default in (None, "", False) else f" (`{param.default}`)"
        )
        yield f"- `{label}`{default}: {param.help}"


def _label(argument: Any) -> str:
    return str(argument.name).upper()


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
