"""Pacers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.pacers.base import Pacer
from shadowprice.pacing.pacers.hindsight import Hindsight
from shadowprice.pacing.pacers.mirror_descent import MirrorDescent
from shadowprice.pacing.pacers.pi import ProportionalIntegral
from shadowprice.pacing.pacers.resolving import Resolving
from shadowprice.pacing.pacers.static import Static

PACERS: dict[str, Callable[..., Pacer]] = {
    "static": Static,
    "hourly": Resolving,
    "closing": lambda last_steps=12: Resolving(last_steps=last_steps),
    "rolling": lambda steps=12: Resolving(steps, steps),
    "mirror_descent": MirrorDescent,
    "pi": ProportionalIntegral,
    "hindsight": Hindsight,
}


def pacer_names() -> list[str]:
    """Registered names."""
    return list(PACERS)


def make_pacer(name: str, **options: Any) -> Pacer:
    """A pacer by name.

    Raises:
        NotFound: no such pacer.
        InvalidInput: options that it does not have or needs.
    """
    if name not in PACERS:
        raise NotFound(f"pacer {name!r} is unknown; choose one of {pacer_names()}")
    try:
        return PACERS[name](**options)
    except TypeError as error:
        raise InvalidInput(f"of pacer {name!r}: {error}", field="options") from error
