"""``python -m cli.document``: print the reference of the command line, from the commands' own help, for the site."""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer

from cli.commands import COMMANDS, Command


def lines() -> Iterator[str]:
    """Yield the list of the commands that other pages describe, and a section for each of the others."""
    apps = {name: _app(entry) for name, entry in COMMANDS.items()}
    yield from ("## Commands", "", "A default stands in brackets.", "")
    yield from (f"- `shadowprice {name}`: {COMMANDS[name].about}" for name, own in apps.items() if own is None)
    for name, own in apps.items():
        if own is None:
            continue
        command: Any = typer.main.get_command(own)
        if len(own.registered_commands) == 1:
            yield from _command(name, command, set())
        else:
            told: set[str] = set()
            for verb, inner in command.commands.items():
                yield from _command(f"{name} {verb}", inner, told)


def _app(entry: Command) -> Any:
    """Return the application of a command of this package; None of one that another page describes."""
    return getattr(import_module(entry.module), "app", None) if entry.module.startswith("cli.") else None


def _command(name: str, command: Any, told: set[str]) -> Iterator[str]:
    """Yield the section of a command; lines in ``told`` are only named, and others are added to it."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    words = "".join(f" {_label(each)}" if each.required else f" [{_label(each)}]" for each in arguments)
    yield from ("", f"## shadowprice {name}{words}", "")
    yield from (line.strip().replace("``", "`") for line in command.help.strip().splitlines())
    yield ""
    again = []
    for param in command.params:
        if param.name in ("help", "as_json"):
            continue
        label = f"`{_label(param) if param in arguments else ', '.join(param.opts)}`"
        required = param.required and param not in arguments
        default = " (required)" if required else "" if param.default in (None, "", False) else f" (`{param.default}`)"
        line = f"- {label}{default}: {param.help}"
        if line in told:
            again.append(label)
        else:
            yield line
            told.add(line)
    if again:
        yield f"- {', '.join(again)}: as above"


def _label(argument: Any) -> str:
    return str(argument.name).upper()


def main() -> int:
    """Print the sections."""
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
