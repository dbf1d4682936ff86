"""Completion of the shell: names of commands, and the options of the one that is typed."""

import os
from collections.abc import Sequence
from importlib import import_module

import typer

from cli.commands import COMMANDS

TYPED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables in which Typer's scripts pass the line that is typed."""


def application(name: str) -> typer.Typer:
    """Return an application that has every command by name, and the options of the command ``name``.

    Only the module of that command is imported.
    """
    top = typer.Typer(add_completion=True)
    groups = {words[0]: typer.Typer() for words in map(str.split, COMMANDS) if len(words) > 1}
    for group, inner in groups.items():
        top.add_typer(inner, name=group, help=COMMANDS[group].about)
    for command, entry in COMMANDS.items():
        first, _, second = command.partition(" ")
        if second:
            groups[first].command(second, help=entry.about)(_nothing)
        elif command not in groups:
            own = getattr(import_module(entry.module), "app", None) if command == name else None
            if own is None:
                top.command(command, help=entry.about)(_nothing)
            elif len(own.registered_commands) > 1:
                top.add_typer(own, name=command, help=entry.about)
            else:
                top.command(command, help=entry.about)(own.registered_commands[0].callback)
    return top


def _nothing() -> None:
    """Stand for a command whose options are not completed."""


def main(arguments: Sequence[str]) -> int:
    """Complete the line in the environment, or install or show the script of the shell."""
    typed = next((os.environ[name] for name in TYPED if name in os.environ), "").split()
    app = application(typed[1] if len(typed) > 1 else "")
    try:
        app(list(arguments), prog_name="shadowprice", standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0
