"""Commands that call a service name one that does not answer."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

import cli.main as command
from pipelines.__main__ import _parameter


def test_explain_names_a_predictor_that_does_not_answer(
    free_port: Callable[[], int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    (tmp_path / "cart.json").write_text("[{")
    cart = str(tmp_path / "cart.json")
    assert command.main(["explain", "c1", "--campaign", "spring", "--url", url, "--session", cart]) == 1
    assert "cart.json: is not JSON" in capsys.readouterr().err
    assert command.main(["explain", "c1", "--campaign", "spring", "--url", url]) == 1
    told = capsys.readouterr().err
    assert "does not answer" in told
    assert len(told.splitlines()) == 1
    assert command.main(["explain", "c1", "--campaign", "spring", "--context", "basket"]) == 2
    for value in ("abc", "nan"):
        assert command.main(["explain", "c1", "--campaign", "spring", "--context", f"x_basket={value}"]) == 2
        assert "write a number" in capsys.readouterr().err
    assert command.main(["explain", "c1"]) == 2


def test_ledger_reconcile_is_a_command_of_two_words(
    free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert (
        command.main(["ledger", "reconcile", "--campaign", "spring", "--ledger-url", url, "--wait-seconds", "0"]) == 2
    )
    assert capsys.readouterr().err.startswith("cannot reconcile: ")
    assert command.main(["reconcile"]) == 2


def test_pipelines_are_a_command_whose_faults_are_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["pipelines", "run", "train"]) == 1
    assert capsys.readouterr().err.startswith("failed: workspace: name the folder that outlives the run")
    assert _parameter("workspace=5") == ("workspace", "5")
    assert _parameter("epochs=5") == ("epochs", 5)
    for verb in ("compile", "upload", "schedule"):
        assert command.main(["pipelines", verb, "--help"]) == 0


def test_serve_refuses_a_port_on_which_another_program_would_answer(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert command.main(["serve", str(workspace), "--port", str(port)]) == 1
    assert f"port {port} cannot be used" in capsys.readouterr().err
