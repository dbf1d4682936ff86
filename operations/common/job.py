"""A job as an object: fields that are documented and checked once, written as JSON and read back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Self, get_type_hints

from shadowprice.command.failures import deliberate
from shadowprice.documents import parse_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import write_whole

COMMON = {"__main__"}
"""Modules of this package that are not jobs."""
JOBS = tuple(
    module.name
    for module in iter_modules([str(Path(__file__).parents[1])])
    if not module.ispkg and module.name not in COMMON
)
"""Names of the jobs. Job ``name`` is class ``<Name>Job`` in the module ``name``, imported when it is needed."""


def required(text: str) -> Any:
    """Return a field without a default."""
    return dataclasses.field(metadata={"text": text})


def option(default: Any, text: str) -> Any:
    """Return a field with a default and one line of meaning, which is also the help of its flag."""
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata={"text": text})
    return dataclasses.field(default=default, metadata={"text": text})


def option_of(job: type[Job], name: str) -> Any:
    """Return a field that means what an option of another job does."""
    (wanted,) = (field for field in dataclasses.fields(job) if field.name == name)
    return option(wanted.default, wanted.metadata["text"])


def reads(text: str, *, optional: bool = False) -> Any:
    """Return a field that holds the path of a file or folder that the job reads."""
    return _path("reads", text, optional)


def writes(text: str, *, optional: bool = False) -> Any:
    """Return a field that holds the path of a file or folder that the job writes."""
    return _path("writes", text, optional)


def _path(direction: str, text: str, optional: bool) -> Any:
    metadata = {"text": text, "direction": direction}
    return dataclasses.field(default=None, metadata=metadata) if optional else dataclasses.field(metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """Base of all jobs.

    Each subclass is a frozen dataclass in the module ``operations.<name>``, which also has ``run(job)``. Paths may be
    given as text; an empty one stands for None where the field is optional.

    Raises:
        InvalidInput: a field has the wrong type; the message names it.
    """

    def __post_init__(self) -> None:
        for name, kind in self._types().items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), kind))

    @classmethod
    def _types(cls) -> dict[str, Any]:
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Names of the fields that may be left out and hold no path."""
        return tuple(cls.defaults())

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Name → default, as plain JSON, of the fields that may be left out and hold no path."""
        types = cls._types()
        optional = (field for field in dataclasses.fields(cls) if not _is_required(field))
        return {field.name: _default(field) for field in optional if types[field.name] != Path | None}

    @classmethod
    def check_options(cls, given: Mapping[str, Any]) -> None:
        """Raise :class:`~shadowprice.errors.InvalidInput` for an option that the job lacks, or of a wrong type."""
        types, names = cls._types(), cls.option_names()
        for name, value in given.items():
            if name not in names:
                known = ", ".join(names) or "none"
                raise InvalidInput(f"is no option of {cls.__name__}; there are: {known}", field=name)
            _checked(name, value, types[name])

    @property
    def name(self) -> str:
        """Name of the job: that of its module."""
        return type(self).__module__.rpartition(".")[2]

    @property
    def inputs(self) -> dict[str, Path]:
        """Field → path, of everything that the job reads besides the workspace."""
        return self._paths("reads")

    @property
    def outputs(self) -> dict[str, Path]:
        """Field → path, of everything that the job writes besides the workspace."""
        return self._paths("writes")

    def meaning(self, field: str) -> str:
        """Return the line of meaning of a field."""
        [wanted] = [entry for entry in dataclasses.fields(self) if entry.name == field]
        return str(wanted.metadata["text"])

    def _paths(self, direction: str) -> dict[str, Path]:
        named = [field.name for field in dataclasses.fields(self) if field.metadata.get("direction") == direction]
        return {name: path for name in named if (path := getattr(self, name)) is not None}

    def values(self) -> dict[str, Any]:
        """Fields with plain JSON values."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def to_json(self) -> str:
        """JSON text; :meth:`from_json` is the inverse."""
        return json.dumps(self.values())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the fields of a job.

        Raises:
            InvalidInput: not a JSON object, an unknown field, or one that is missing or has the wrong type.
        """
        try:
            options = parse_json(text)
            return cls(**options)
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"not a {cls.__name__}: {error}", field="job") from error


def job_class(name: str) -> type[Job]:
    """Return the class of the job called ``name``, or raise :class:`NotFound`."""
    if name not in JOBS:
        raise NotFound(f"there is no job {name!r}; choose one of {', '.join(JOBS)}")
    job: type[Job] = getattr(import_module(f"operations.{name}"), f"{name.title().replace('_', '')}Job")
    return job


def run_here(job: Job) -> Any:
    """Run a job in this process and return what its ``run`` returns.

    Raises:
        NotFound: a file or folder that the job reads is not there.
        StorageFailed: a disk is full, or a file cannot be read or written.
    """
    for field, path in job.inputs.items():
        if not path.exists():
            raise NotFound(f"{field}: there is no {path}; it is the {job.meaning(field)}")
    try:
        return import_module(type(job).__module__).run(job)
    except Exception as error:
        cause = deliberate(error)
        if cause is None or cause is error:
            raise
        raise cause from error


def write_figures(path: Path | None, figures: Mapping[str, float]) -> None:
    """Write finite numbers by name as JSON, which knows no others; nothing is written without a path."""
    if path is not None:
        write_whole(path, json.dumps({name: value for name, value in figures.items() if math.isfinite(value)}))


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return _plain(made)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _checked(name: str, value: Any, kind: Any) -> Any:
    """The value as its field declares it. JSON, and Kubeflow with it, knows one kind of number and no paths."""
    match value:
        case None | "" if kind == Path | None:
            return None
        case str() | Path() if kind in (Path, Path | None) and str(value):
            return Path(value)
        case bool() if kind is bool:
            return value
        case int() | float() if kind is int and not isinstance(value, bool) and float(value).is_integer():
            return int(value)
        case int() | float() if kind is float and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        case str() if kind is str:
            return value
        case list() | tuple() if kind == tuple[str, ...] and all(isinstance(item, str) for item in value):
            return tuple(value)
        case Mapping() if kind == Mapping[str, Any]:
            return value
    raise InvalidInput(f"must be {getattr(kind, '__name__', kind)}, got {value!r}", field=name)
