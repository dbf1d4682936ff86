"""Command lines of the pages: the shell reads them, and the programs of this repository take their options."""

import contextlib
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from importlib import import_module
from typing import Any

import messages
import pytest
import yaml
from messages import LINE, QUOTED, Text, marked
from snippets import ROOT, blocks, commands, pages, shell_of
from typer.core import TyperCommand

from benchmarks.registry import BENCHMARKS
from cli.commands import COMMANDS as COMMANDS_OF_THE_PROGRAM
from cli.main import main
from operations.common.job import JOBS

SHELLS = [(block, shell) for block in blocks() if (shell := shell_of(block))]
COMMANDS = [(block, words) for block, shell in SHELLS for words in commands(shell)]
INLINE = [
    (page.relative_to(ROOT), words)
    for page in pages()
    for text in re.findall(r"(?<!`)`((?:shadowprice|make|python -m) [^`\n]+)`(?!`)", page.read_text())
    for words in commands(text)
]
INCOMPLETE = re.compile(r"Missing (argument|option|command|parameter)|valid integer|^ended with 2$")


class Parsed(BaseException):
    """The words are a command with its arguments."""


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[list[str]], str]:
    """Return the fault that a program finds in its words, which it reads and does not follow."""

    def stop(*_: Any, **__: Any) -> None:
        raise Parsed

    monkeypatch.setattr(TyperCommand, "invoke", stop)
    # It would look for the shell around the tests and write into its settings.
    monkeypatch.setattr("typer.completion.install", stop)

    def fault(words: list[str]) -> str:
        with monkeypatch.context() as patch:
            try:
                if words[0] == "shadowprice":
                    ended: object = main(words[1:])
                else:
                    module = import_module(words[2])
                    module = import_module(f"{words[2]}.__main__") if hasattr(module, "__path__") else module
                    for effect in ("end_with_parent", "quiet_logs"):
                        patch.setattr(module, effect, lambda: None, raising=False)
                    ended = module.main(words[3:])
            except (Parsed, ModuleNotFoundError) as error:
                return "" if isinstance(error, Parsed) else str(error)
            except SystemExit as error:
                ended = error.code
        said = re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)
        return said or f"ended with {ended}" if ended else ""

    return fault


def own(words: list[str]) -> bool:
    module = words[2].split(".")[0] if words[:2] == ["python", "-m"] else "tests"
    mine = words[0] == "shadowprice" or (ROOT / module / "__init__.py").is_file()
    return mine and not any("…" in word for word in words)


def test_the_shell_reads_every_block() -> None:
    assert len(SHELLS) > 40
    for block, shell in SHELLS:
        found = subprocess.run(["bash", "-n"], input=shell, capture_output=True, text=True)
        assert found.returncode == 0, f"{block}: {found.stderr}"


def test_the_programs_take_the_words_of_every_command(parse: Callable[[list[str]], str]) -> None:
    mine = [(block, words) for block, words in COMMANDS if own(words)]
    assert len(mine) > 30
    assert [f"{block}: {' '.join(words)}: {found}" for block, words in mine if (found := parse(words))] == []


def test_every_command_in_a_sentence_has_a_name_and_options_that_exist(parse: Callable[[list[str]], str]) -> None:
    mine = [(page, words) for page, words in INLINE if own(words)]
    assert len(mine) > 20
    faults = [(page, words, parse(words)) for page, words in mine]
    assert [each for each in faults if each[2] and not INCOMPLETE.search(each[2])] == []
    named = {
        name for _, words in mine if words[2:3] == ["benchmarks"] for name in words[3:] if not name.startswith("-")
    }
    assert named - {"NAME", *BENCHMARKS} == set()


def test_every_command_but_those_that_serve_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    serving, groups = {"predictor", "ledger", "console", "serve"}, {"pipelines", "price", "account"}
    asked = [name.split() for name in COMMANDS_OF_THE_PROGRAM.keys() - serving - groups - {"job"}]
    asked += [["pipelines", verb] for verb in ("compile", "run", "upload", "schedule")]
    asked += [["account", verb] for verb in ("export", "erase", "repeat")]
    asked += [["price", verb] for verb in ("show", "history", "rollback")] + [["job", "prepare"]]
    for words in asked:
        with contextlib.suppress(SystemExit):
            main([*words, "--help"])
        assert "--json" in capsys.readouterr().out, words


def test_every_target_of_make_and_its_variables_exist() -> None:
    text = (ROOT / "Makefile").read_text()
    targets, variables = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE)), set(re.findall(r"\b[A-Z_]{3,}\b", text))
    mine = [(where, words) for where, words in [*COMMANDS, *INLINE] if words[0] == "make"]
    assert len(mine) > 20
    for where, words in mine:
        for word in words[1:]:
            name, is_variable, _ = word.partition("=")
            assert name in (variables if is_variable else targets), f"{where}: {' '.join(words)}"


def test_every_value_that_helm_is_told_to_set_is_one_of_the_chart() -> None:
    values = yaml.safe_load((ROOT / "helm/shadowprice/values.yaml").read_text())
    mine = [(block, words) for block, words in COMMANDS if words[0] == "helm"]
    given = [(block, words[place + 1]) for block, words in mine for place, word in enumerate(words) if word == "--set"]
    assert len(given) >= 3
    for block, text in given:
        at = values
        for name in text.partition("=")[0].split("."):
            assert name in at, f"{block}: the chart has no value {text}"
            at = at[name]


def test_every_body_that_curl_sends_is_taken_by_the_service() -> None:
    from serving.protocol import decode_v1

    sent = [words[words.index("-d") + 1] for _, words in COMMANDS if words[0] == "curl" and "-d" in words]
    # What comes from a file is written by the shell; tests/runs/test_guides.py sends it.
    bodies = [body for body in sent if not body.startswith("@")]
    assert len(bodies) > 3
    for body in bodies:
        assert decode_v1(json.loads(body), max_items=10).request_id


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![\w=-])")
PROGRAM_OF = {
    "cli/doctor": "doctor",
    "cli/init.py": "init",
    "cli/run.py": "run",
    "operations/lift.py": "job lift",
    "operations/questions/together.py": "portfolio lift",
    "pipelines/__main__.py": "pipelines run train",
    "pipelines/client.py": "pipelines run train",
    "pipelines/days/week.py": "quickstart",
    "pipelines/local/listing.py": "pipelines run train",
    "pipelines/quickstart.py": "quickstart",
    "pipelines/run_folder.py": "quickstart",
    "serving/console": "console",
    "serving/ledger": "ledger",
    "serving/ledger/moves.py": "portfolio move",
    "serving/portfolio": "portfolio move",
    "serving/predictor": "predictor",
    "serving/stream": "python -m serving.stream",
    "shadowprice/evidence/sides.py": "plan",
}
"""Program that has the flags of a room's texts; the longest place counts."""


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    return messages.texts()


def test_every_command_in_a_message_is_marked_and_is_one(texts: list[Text], parse: Callable[[list[str]], str]) -> None:
    """A command is in backticks, or is the end of a line."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = "|".join({name.split()[0] for name in COMMANDS_OF_THE_PROGRAM})
    program = re.compile(rf"\b(?:shadowprice (?:{names})\b(?!:)|python -m [a-z]|make (?:{'|'.join(targets)})\b)")
    bare, wrong, commanded = [], [], 0
    for path, text in texts:
        rest = QUOTED.sub("", text)
        ended = [each for each in LINE.findall(rest) if program.match(each)]
        bare += [(path, text)] if program.search(LINE.sub("", rest)) else []
        for words in (words for each in [*marked(text), *ended] for words in commands(each)):
            commanded += 1
            # A message fills in the name of a pipeline, and leaves that of a job to its reader.
            given = [{"1": "train", "JOB": "train"}.get(word, word) for word in words]
            fault = parse(given) if own(given) else f"{words[0]} is not on every machine"
            wrong += [(path, words, fault)] if fault and not INCOMPLETE.search(fault) else []
    assert bare == []
    assert wrong == []
    assert commanded > 40


def test_every_flag_in_a_message_is_one_of_its_program(texts: list[Text], parse: Callable[[list[str]], str]) -> None:
    named = {
        (path, flag)
        for path, text in texts
        for flag in FLAG.findall(QUOTED.sub("", text))
        if not LINE.search(text) and flag not in ("--help", "--inplace", "--install-completion")
    }
    assert len(named) > 25
    unknown = []
    for path, flag in sorted(named):
        place = max((each for each in PROGRAM_OF if str(path).startswith(each)), key=len, default="")
        program = PROGRAM_OF.get(place, "nothing").split()
        found = parse([*program, flag] if program[0] == "python" else ["shadowprice", *program, flag])
        unknown += [(path, flag, found)] if re.search("No such option|no command", found) else []
    assert unknown == []


def test_every_job_and_extra_in_a_message_exists(texts: list[Text]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    jobs, named = set(), set()
    for _, text in texts:
        jobs |= set(re.findall(r"\bthe job (?!that|with|of|is)(\w+)", text))
        jobs |= set(re.findall(r"\brun the (\w+) step\b", text))
        named |= set(re.findall(r"shadowprice\[([a-z]+)\]", text))
    assert jobs <= set(JOBS)
    assert len(named) > 4
    assert named <= set(extras)
