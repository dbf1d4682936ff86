"""Subcommands of ``shadowprice``: each is the ``main`` of a module, which is imported when it is asked for.

A name of two words, such as ``ledger reconcile``, stands for a module of its own."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

import shadowprice
from cli.commands import COMMANDS, Command
from shadowprice.command.failures import AS_JSON, Misused, answer
from shadowprice.errors import MissingExtra

COMPLETION = Command("cli.completion", "Complete the line of a shell", "cli")
COMPLETE = "_SHADOWPRICE_COMPLETE"
"""Variable that the script of a shell sets when the user asks for a completion."""
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit status, 1 where it fails and 2 where there is no such command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = words[0] if words else "", words[1:]
    if COMPLETE in os.environ or name in COMPLETION_OPTIONS:
        return run("completion", COMPLETION, words)
    if name in ("", "-h", "--help", "help"):
        print(usage())
        return 0
    if name in ("version", "--version"):
        print(f"shadowprice {shadowprice.__version__}")
        return 0
    if " ".join(words[:2]) in COMMANDS:
        name, rest = " ".join(words[:2]), words[2:]
    if name not in COMMANDS:
        return answer("shadowprice", partial(refuse, name), as_json=AS_JSON in words)
    return run(name, COMMANDS[name], rest)


def refuse(name: str) -> int:
    """Raise the error of an unknown command."""
    raise Misused(f"there is no command {name!r}; `shadowprice --help` lists them")


def run(name: str, command: Command, arguments: Sequence[str]) -> int:
    """Run the module of a command with ``arguments``; return the exit status."""

    def work() -> int:
        try:
            status: int = import_module(command.module).main(arguments)
        except ModuleNotFoundError as error:
            install = f"pip install 'shadowprice[{command.extra}]'"
            raise MissingExtra(f"{error.name} is not installed; {install}") from error
        return status

    return answer(f"shadowprice {name}", work, as_json=AS_JSON in arguments)


def usage() -> str:
    """Return the help: each command in one line."""
    about = {name: command.about for name, command in COMMANDS.items()} | {"version": "Print the version"}
    lines = [f"  {name:<16} {text}" for name, text in about.items()]
    return "\n".join(
        [
            "usage: shadowprice COMMAND [OPTION …]",
            "",
            "Spend an incentive budget well, at the price of money that makes the budget bind.",
            "",
            *lines,
            "",
            "shadowprice COMMAND --help describes the options of a command.",
            "shadowprice --install-completion lets the shell complete names and options.",
        ]
    )
