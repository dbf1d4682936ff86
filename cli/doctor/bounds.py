"""Bounds of the services as a table: name, number and meaning of each."""

import ast
import inspect
from typing import NamedTuple

from serving.http import limits


class Bound(NamedTuple):
    """One bound; ``meaning`` is the text below it in :mod:`serving.http.limits`."""

    name: str
    value: float
    meaning: str


def bounds() -> list[Bound]:
    """Return every bound, in the order of the module.

    >>> next(each for each in bounds() if each.name == "MAX_GROUP")
    Bound(name='MAX_GROUP', value=64, meaning='Calls of the ledger that share a commit.')
    """
    constants: list[Bound] = []
    for line in ast.parse(inspect.getsource(limits)).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id.isupper():
            value = getattr(limits, line.targets[0].id)
            if not isinstance(value, str):
                constants.append(Bound(line.targets[0].id, value, ""))
        elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and constants:
            text = str(line.value.value).replace(":data:", "").replace("`", "")
            constants[-1] = constants[-1]._replace(meaning=" ".join(text.split()))
    return constants


def table() -> str:
    """Return the bounds as text, one a line."""
    numbers = {bound: f"{bound.value:,}" if isinstance(bound.value, int) else f"{bound.value:g}" for bound in bounds()}
    return "\n".join(f"{constant.name:<20} {number:>21}  {constant.meaning}" for constant, number in numbers.items())
