"""A command's arguments and failures: one line on standard error, or JSON on standard output, and an exit status."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import NoReturn

from shadowprice.errors import InvalidInput, InvalidTable, ShadowpriceError
from shadowprice.system_errors import deliberate

AS_JSON = "--json"
MISUSED, INTERRUPTED = 2, 130


class Misused(InvalidInput):
    """The arguments of a command are wrong."""


class Arguments(argparse.ArgumentParser):
    """Parser of arguments that tells what is wrong with them as :func:`answer` does, and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Tell the fault and end the process."""
        tell(self.prog, Misused(f"{message}; {self.prog} --help describes the options"))
        self.exit(MISUSED)


def answer(name: str, work: Callable[[], int], *, failed: int = 1) -> int:
    """Run a command and return its exit status; a failure is told in one line, or as JSON under ``--json``.

    Args:
        name: of the command, which begins the line.
        work: does it and returns the status.
        failed: status of a failure; that of wrong arguments is 2.

    Faults of tables have a line each. An error that is neither deliberate nor one of the system is raised.
    """
    try:
        return work()
    except BrokenPipeError:
        # Who read the output has seen enough; the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        found = deliberate(error)
        if found is None:
            raise
        tell(name, found)
        return MISUSED if isinstance(found, Misused) else failed


def tell(name: str, error: ShadowpriceError) -> None:
    """Write an error as :func:`answer` does."""
    if AS_JSON in sys.argv:
        print(json.dumps({"error": as_dict(error)}))
    else:
        print(f"{name}: {error}", file=sys.stderr)


def as_dict(error: ShadowpriceError) -> dict[str, object]:
    """Return the class and the message of an error, and where it has them its field, rows and faults.

    >>> as_dict(InvalidInput("must be at least 1", field="days"))
    {'type': 'InvalidInput', 'message': 'days: must be at least 1', 'field': 'days'}
    """
    told: dict[str, object] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, InvalidInput):
        more = {"field": error.field, "rows": list(error.rows)}
        told |= {name: value for name, value in more.items() if value}
    if isinstance(error, InvalidTable) and error.problems:
        told["problems"] = [asdict(each) for each in error.problems]
    return told
