"""The command ``shadowprice`` hands its arguments to the modules that do the work."""

from collections.abc import Sequence
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import cli.main as command
from shadowprice import __version__
from shadowprice.errors import InvalidInput


def test_help_lists_every_command_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert command.main(arguments) == 0
        lines = [line[2:] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
        assert [line[:16].strip() for line in lines] == [*command.COMMANDS, "version"]
        assert all(len(line[16:].split()) > 1 for line in lines)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_each_command_is_a_module_of_this_repository(name: str) -> None:
    if name == "job" and find_spec("operations") is None:
        pytest.skip("operations is not in this checkout")
    assert find_spec(command.COMMANDS[name].module) is not None


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["version"]) == command.main(["--version"]) == 0
    assert capsys.readouterr().out == f"shadowprice {__version__}\n" * 2


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["solve"]) == 2
    assert "no command 'solve'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ready", "resolve", "ledger reconcile", "ledger recover", "ledger"])
def test_the_help_of_a_command_is_that_of_its_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = command.main([*name.split(), "--help"])
    except SystemExit as ended:
        status = ended.code
    assert status == 0
    assert f"Usage: python -m {command.COMMANDS[name].module.removesuffix('.__main__')}" in capsys.readouterr().out


def called(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> list[list[str]]:
    """Put a module in place of every command's; return the arguments that it is called with."""
    calls: list[list[str]] = []

    def main(arguments: Sequence[str]) -> int:
        calls.append(list(arguments))
        if error is not None:
            raise error
        return 3

    monkeypatch.setattr(command, "import_module", lambda name: SimpleNamespace(main=main))
    return calls


def test_arguments_and_exit_status_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = called(monkeypatch)
    assert command.main(["job", "train", '{"workers": 2}']) == 3
    assert calls == [["train", '{"workers": 2}']]


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InvalidInput("must be positive", field="workers"), 1, "workers"),
        (ModuleNotFoundError("No module named 'kfp'", name="kfp"), 1, "kfp is not installed; pip install"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_line_without_a_traceback(
    error: BaseException, status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, error)
    assert command.main(["job"]) == status
    told = capsys.readouterr()
    assert text in told.err
    assert len(told.err.splitlines()) == 1
    assert told.out == ""


def test_another_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    called(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        command.main(["job"])
