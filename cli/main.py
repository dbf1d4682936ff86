"""Subcommands of ``shadowprice``: each is the ``main`` of a module, which is imported when it is asked for.

A name of two words, such as ``ledger reconcile``, stands for a module of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import shadowprice
from shadowprice.errors import ShadowpriceError


@dataclass(frozen=True)
class Command:
    """A module with a ``main`` that reads ``sys.argv``.

    module  name of the module
    about   one line of the help
    extra   optional dependencies of the package that the module imports
    """

    module: str
    about: str
    extra: str


COMMANDS: Mapping[str, Command] = {
    "init": Command("cli.init", "Write a first mapping of your own files", "cli"),
    "check": Command("cli.check", "Check your own files, without training", "cli"),
    "doctor": Command("cli.doctor.command", "Name each fault of an installation or workspace, and its mend", "cli"),
    "run": Command("cli.run", "Run the whole loop on your own files", "all"),
    "quickstart": Command("pipelines.quickstart", "Run the whole main job on one machine", "all"),
    "report": Command("cli.report", "Write the report of a run again", "cli,report,pacing"),
    "explain": Command("cli.explain", "Explain the decision of a running predictor", "cli,serve"),
    "whatif": Command("cli.whatif", "Ask what another budget or other terms bring", "all"),
    "plan": Command("cli.plan", "Plan a trial: arms, accounts, money and power", "cli,experiments"),
    "price": Command("cli.price", "Show prices of a workspace, or go back to an earlier one", "all"),
    "pipelines": Command("pipelines.__main__", "Compile, run, upload or schedule a pipeline", "all"),
    "job": Command("operations.__main__", "Run one job: its name and its fields as JSON", "all"),
    "rolling": Command("pipelines.rolling", "Evaluate a recipe by rolling origin", "all"),
    "predictor": Command("serving.predictor.__main__", "Serve decisions of a campaign", "serve"),
    "ledger": Command("serving.ledger.__main__", "Serve the ledger of a campaign", "ledger"),
    "ledger reconcile": Command("serving.reconcile", "Compare ledger, outcomes and decision log", "ledger"),
    "ledger recover": Command("serving.recover", "Recover a ledger database", "ledger"),
    "console": Command("serving.console.__main__", "Serve pages about the money of a campaign", "console"),
    "serve": Command("serving.local.run", "Start predictor, ledger and console of a finished run", "all"),
    "ready": Command("serving.client.check", "Check a deployed campaign", "serve"),
    "resolve": Command("serving.resolve", "Solve and publish the price of the remaining budget", "serve"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit status, 1 where it fails and 2 where there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name, rest = given[0] if given else "", given[1:]
    if name in ("", "-h", "--help", "help"):
        print(usage())
        return 0
    if name in ("version", "--version"):
        print(f"shadowprice {shadowprice.__version__}")
        return 0
    if " ".join(given[:2]) in COMMANDS:
        name, rest = " ".join(given[:2]), given[2:]
    if name not in COMMANDS:
        print(f"shadowprice: there is no command {name!r}; shadowprice --help lists them", file=sys.stderr)
        return 2
    return run(name, COMMANDS[name], rest)


def run(name: str, command: Command, arguments: Sequence[str]) -> int:
    """Run the module of a command with ``arguments``; return the exit status."""
    sys.argv = [f"shadowprice {name}", *arguments]
    try:
        status: int = import_module(command.module).main()
    except ModuleNotFoundError as error:
        install = f"pip install 'shadowprice[{command.extra}]'"
        print(f"shadowprice {name}: {error.name} is not installed; {install}", file=sys.stderr)
        return 1
    except ShadowpriceError as error:
        print(f"shadowprice {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return status


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
        ]
    )
