"""Settings of a program as a dataclass: a flag of the command line, or else a variable of the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from shadowprice.command import Arguments

PREFIX = "SHADOWPRICE_"


def setting(text: str, default: Any = MISSING, *, variable: str = "", positive: bool = False) -> Any:
    """Return a field with one line of meaning, required unless it has a default.

    The variable is ``SHADOWPRICE_<NAME>``, or ``SHADOWPRICE_<variable>`` where that name is taken: Kubernetes sets
    ``<SERVICE>_PORT`` for every service beside the container.
    """
    return field(default=default, metadata={"text": text, "variable": variable, "positive": positive})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the settings of a program; the first line of the subclass's docstring describes the program.

    Fields are numbers, texts, paths and literals. An empty path stands for None where the field is optional. A field
    of type bool is a flag without a value.
    """

    program: ClassVar[str]

    def __init_subclass__(cls, program: str = "") -> None:
        cls.program = program

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> Self:
        """Read flags, and variables for those that are missing. Exits with the usage when one is missing or wrong."""
        described = (cls.__doc__ or "").split("\n", 1)[0]
        parser = Arguments(prog=f"python -m {cls.program}", description=described)
        hints, settings = get_type_hints(cls), fields(cls)
        for each in settings:
            flag, kind = f"--{each.name.replace('_', '-')}", hints[each.name]
            if kind is bool:
                parser.add_argument(flag, action="store_true", help=each.metadata["text"])
                continue
            variable = PREFIX + (each.metadata["variable"] or each.name.upper())
            default = environment.get(variable, each.default)
            choices = get_args(kind) if get_origin(kind) is Literal else None
            if choices and default not in (*choices, MISSING):
                parser.error(f"{variable} must be one of {', '.join(choices)}")
            parser.add_argument(
                flag,
                help=f"{each.metadata['text']} [{variable}]",
                default=default,
                required=default is MISSING,
                choices=choices,
                type=_path if kind == Path | None else str if choices else kind,
            )
        found = vars(parser.parse_args(arguments))
        for each in settings:
            if each.metadata["positive"] and not found[each.name] > 0:
                parser.error(f"--{each.name.replace('_', '-')} must be positive")
        return cls(**found)


def _path(text: str) -> Path | None:
    return Path(text) if text else None
