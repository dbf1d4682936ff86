"""Options of a command are the fields of a dataclass, and what is wrong with them is one line."""

import ast
import itertools
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from operations.prepare import PrepareJob
from operations.train import TrainJob
from pipelines.quickstart import OPTIONS
from shadowprice.command.options import option, options_of, run_program, takes

ROOT = Path(__file__).resolve().parents[2]
STANDS_ALONE = {"images/build.py"}
"""Programs that run without the packages of this project."""


def read(arguments: list[str]) -> dict[str, Any]:
    """Return the values of a program's options."""
    found: dict[str, Any] = {}

    @takes(options_of(TrainJob, "recipe", "epochs", epochs=400), options_of(PrepareJob, "options"))
    def program(**given: Any) -> None:
        found.update(given)

    assert run_program(program, "program", arguments) == 0
    return found


def test_a_command_line_gets_its_options_from_the_fields() -> None:
    usual = {"recipe": "", "epochs": 400, "options": {}}
    assert read([]) == usual
    assert read(["--recipe", "dnn", "--options", '{"rows": 5}']) == usual | {"recipe": "dnn", "options": {"rows": 5}}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--count", "many"], "Invalid value for '--count'"),
        (["--options", "{"], "'{' is not JSON"),
        (["--mode", "perhaps"], "'perhaps' is not one of 'on', 'off'"),
        (["--magic"], "No such option"),
        ([], "Missing option '--name'"),
    ],
)
def test_a_wrong_option_is_one_line_or_json_and_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @takes(
        options_of(PrepareJob, "options"),
        [
            option("name", str, "name"),
            option("count", int, "count", 1),
            option("mode", Literal["on", "off"], "mode", "on"),
            option("as_json", bool, "as JSON", False, "--json"),
        ],
    )
    def program(**given: Any) -> None:
        raise AssertionError(given)

    given = arguments and ["--name", "x", *arguments]
    assert run_program(program, "program", given) == 2
    told = capsys.readouterr()
    assert told.err.startswith("program: ")
    assert len(told.err.splitlines()) == 1
    assert text in told.err
    assert run_program(program, "program", [*given, "--json"]) == 2
    assert text in json.loads(capsys.readouterr().out)["error"]["message"]


def test_an_empty_path_stands_for_none_and_a_failure_has_the_name_it_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: list[Any] = []

    @takes([option("file", Path | None, "file", Path("x"))])
    def program(**given: Any) -> int:
        found.append(given["file"])
        if given["file"] is None:
            raise FileNotFoundError(2, "No such file", "y")
        return 3

    assert run_program(program, "program", []) == 3
    assert run_program(program, "program", ["--file", ""], failure="failed", failed=7) == 7
    assert found == [Path("x"), None]
    assert capsys.readouterr().err.startswith("failed: y: there is no such file")


def test_there_is_one_command_line_and_nobody_rewrites_the_arguments_of_the_process() -> None:
    found = []
    # The environment has thousands of folders, which are not walked.
    rooms = [each for each in ROOT.iterdir() if each.is_dir() and each.name not in (".venv", "build", "tests")]
    for path in sorted(itertools.chain(ROOT.glob("*.py"), *(each.rglob("*.py") for each in rooms))):
        name = str(path.relative_to(ROOT))
        if name in STANDS_ALONE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import) and {"argparse", "click"} & {each.name for each in node.names}:
                found.append(f"{name} imports another parser")
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(ast.unparse(each) == "sys.argv" for each in targets):
                found.append(f"{name} rewrites sys.argv")
    assert found == []


def test_the_quickstart_of_make_names_options_that_the_command_has() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nquickstart:")[2].partition("\n\n")[0]
    named = {name.replace("-", "_") for name in re.findall(r" --([a-z-]+)", recipe)}
    assert named >= {"curve_repair", "weighting"}
    assert named <= {each.name for each in OPTIONS} | {"dataset", "data"}
