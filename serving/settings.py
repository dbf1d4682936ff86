"""Settings of a program as a dataclass: a flag of the command line, or else a variable of the environment."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from inspect import Parameter
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from shadowprice.command.failures import MISUSED, Misused, tell
from shadowprice.command.options import option, run_program, takes

PREFIX = "SHADOWPRICE_"


def setting(text: str, default: Any = MISSING, *, variable: str = "", positive: bool = False) -> Any:
    """Return a field with one line of meaning, required unless it has a default.

    The variable is ``SHADOWPRICE_<NAME>``, or ``SHADOWPRICE_<variable>`` where that name is taken: Kubernetes sets
    ``<SERVICE>_PORT`` for every service beside the container.
    """
    return field(default=default, metadata={"text": text, "variable": variable, "positive": positive})


def setting_of(job: type[Any], name: str) -> Any:
    """Return a field that means what the option of a job does."""
    (setting_field,) = (candidate for candidate in fields(job) if candidate.name == name)
    return setting(setting_field.metadata["text"], setting_field.default)


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
        """Read options, and variables for those that are missing. Exits where one is missing or wrong."""
        parsed: list[Self] = []
        status = cls.run(parsed.append, arguments, environment)
        if status or not parsed:
            raise SystemExit(status)
        return parsed[0]

    @classmethod
    def main_of(cls, work: Callable[[Self], int], **how: Any) -> Callable[..., int]:
        """Return a function of arguments that does the work with these settings; ``how`` as for :func:`run_program`."""
        return partial(cls.run, work, **how)

    @classmethod
    def run(
        cls,
        work: Callable[[Self], int | None],
        arguments: Sequence[str] | None = None,
        environment: Mapping[str, str] = os.environ,
        **how: Any,
    ) -> int:
        """Do the work with the settings that are read, and return the exit status."""
        program, hints = f"python -m {cls.program}", get_type_hints(cls)
        options: list[Parameter] = []
        for setting_field in fields(cls):
            text, kind, default = setting_field.metadata["text"], hints[setting_field.name], setting_field.default
            flags: tuple[str, ...] = ()
            if kind is bool:
                flags = (f"--{setting_field.name}",)
            else:
                variable = PREFIX + (setting_field.metadata["variable"] or setting_field.name.upper())
                text, default = f"{text} [{variable}]", environment.get(variable, default)
                if get_origin(kind) is Literal and default not in (*get_args(kind), MISSING):
                    tell(program, Misused(f"{variable} must be one of {', '.join(get_args(kind))}"))
                    return MISUSED
            options.append(option(setting_field.name, kind, text, default, *flags))

        @takes(options)
        def read(**given: Any) -> int | None:
            for setting_field in fields(cls):
                if setting_field.metadata["positive"] and not given[setting_field.name] > 0:
                    raise Misused(f"--{setting_field.name.replace('_', '-')} must be positive")
            settings = cls(**given)
            settings.check()
            return work(settings)

        read.__doc__ = (cls.__doc__ or "").split("\n", 1)[0]
        return run_program(read, program, arguments, **how)

    def check(self) -> None:
        """Raise :class:`~shadowprice.command.failures.Misused` where settings do not fit together."""
