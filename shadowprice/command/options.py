"""Command lines, all of Typer: options from the fields of a dataclass, and an exit status in place of a traceback.

Needs the package ``typer``, which every extra with a command has.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from shadowprice.command.failures import AS_JSON, MISUSED, Misused, answer, tell

AsJson = Annotated[bool, typer.Option(AS_JSON, help="print the result as JSON")]
HELP = {"help_option_names": ["-h", "--help"]}
Work = TypeVar("Work", bound=Callable[..., Any])
Program = typer.Typer | Callable[..., Any]


def application(*works: Callable[..., Any], no_args_is_help: bool = False) -> typer.Typer:
    """Return an application with a command for each function; that of one function is the command itself."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        no_args_is_help=no_args_is_help,
        context_settings=HELP,
    )
    for work in works:
        app.command(context_settings=HELP)(work)
    return app


def option(name: str, kind: Any, text: str, default: Any = MISSING, *flags: str) -> inspect.Parameter:
    """Return a parameter of a command's function that is an option.

    Args:
        name: of the parameter; the option is ``--name`` unless ``flags`` are given.
        kind: type of the value. Mappings and tuples are given as JSON; an empty path stands for None where it may.
        text: one line of help.
        default: of an option that may be left out.
    """
    how: dict[str, Any] = {}
    if kind == Path | None:
        kind, how["parser"], how["metavar"] = str, _path, "PATH"
    elif kind in (Mapping[str, Any], tuple[str, ...]):
        kind, how["parser"], how["metavar"] = str, _json, "JSON"
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, typer.Option(*flags, help=text, **how)],
    )


def options_of(record: type[Any], *names: str, **defaults: Any) -> list[inspect.Parameter]:
    """Return an option for each named field of a dataclass, or for all, with its default, type and meaning.

    The metadata of a field hold its ``text``, and may hold a ``flag`` of another name. Paths are handed on as text. A
    field without a default gets None.

    Args:
        record: dataclass, such as a job.
        names: of the fields; all if left out.
        defaults: in place of those of the fields.
    """
    types = get_type_hints(record)
    found = []
    for field in fields(record):
        if names and field.name not in names:
            continue
        default = None if field.default is MISSING else field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        kind = str if types[field.name] in (Path, Path | None) else types[field.name]
        flags = [field.metadata["flag"]] if field.metadata.get("flag") else []
        found.append(option(field.name, kind, field.metadata["text"], defaults.get(field.name, default), *flags))
    return found


def takes(*options: Iterable[inspect.Parameter]) -> Callable[[Work], Work]:
    """Return a decorator that gives a function options in place of its ``**`` parameter."""

    def change(work: Work) -> Work:
        own = inspect.signature(work, eval_str=True)
        kept = [parameter for parameter in own.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        more = [each for group in options for each in group]
        work.__signature__ = own.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
        return work

    return change


def given_in(context: typer.Context) -> set[str]:
    """Return the names of the parameters that the command line gives, whose values are not defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def run_program(
    program: Program, name: str, arguments: Sequence[str] | None = None, *, failure: str = "", failed: int = 1
) -> int:
    """Run a program and return its exit status; failures are told as :func:`~shadowprice.command.failures.answer` does.

    Args:
        program: application, or the function of its only command.
        name: of the program, in its help and before what is wrong with its arguments.
        arguments: those of the process if left out.
        failure: begins the line of any other failure; the name if left out.
        failed: status of a failure.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = AS_JSON in given

    def work() -> int:
        try:
            return status_of(program, name, given)
        except Misused as error:
            tell(name, error, as_json)
            return MISUSED

    return answer(failure or name, work, failed=failed, as_json=as_json)


def main_of(program: Program, name: str, *, failure: str = "", failed: int = 1) -> Callable[..., int]:
    """Return a function of arguments that runs a program; see :func:`run_program`."""
    return partial(run_program, program, name, failure=failure, failed=failed)


def status_of(program: Program, name: str, arguments: Sequence[str]) -> int:
    """Run a program on arguments, and return its exit status in place of ending the process.

    Raises:
        Misused: the arguments are wrong. Other errors of the command go on to the caller too.
    """
    app = program if isinstance(program, typer.Typer) else application(program)
    try:
        with typer.main.get_command(app).make_context(name, list(arguments)) as context:
            found = context.command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except Exception as error:
        # Typer may have a Click of its own, whose errors only have this in common with those of the package.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message())
            return MISUSED
        text = " ".join(message().split()).rstrip(".")
        raise Misused(f"{text}; {name} --help describes the options") from error
    return found if isinstance(found, int) else 0


def _path(value: str | Path | None) -> Path | None:
    return Path(value) if value else None


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise typer.BadParameter(f"{value!r} is not JSON: {error}") from error
