"""Pacers by name: every module of this package lists its own in ``PACERS``."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.pacers.base import Pacer

PACKAGE = "shadowprice.pacing.pacers"


@cache
def pacers() -> dict[str, Callable[..., Pacer]]:
    """Return name → factory of every pacer in the package."""
    package = import_module(PACKAGE)
    known: dict[str, Callable[..., Pacer]] = {}
    for module in iter_modules(package.__path__):
        known |= getattr(import_module(f"{PACKAGE}.{module.name}"), "PACERS", {})
    return known


def pacer_names() -> list[str]:
    """Return the registered names."""
    return list(pacers())


def make_pacer(name: str, **options: Any) -> Pacer:
    """Return a pacer by name.

    Raises:
        NotFound: no such pacer.
        InvalidInput: options that it does not have or needs.
    """
    if name not in pacers():
        raise NotFound(f"pacer {name!r} is unknown; choose one of {pacer_names()}")
    try:
        return pacers()[name](**options)
    except TypeError as error:
        raise InvalidInput(f"of pacer {name!r}: {error}", field="options") from error
