"""The shell completes the names of commands, and the options of the one that is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

import cli.main as command


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("shadowprice pri", ["price"]),
        ("shadowprice price ro", ["rollback"]),
        ("shadowprice ledger rec", ["reconcile", "recover"]),
        ("shadowprice init --cu", ["--customers", "--currency"]),
        ("shadowprice pipelines comp", ["compile"]),
    ],
)
def test_a_line_of_bash_is_completed(
    line: str, found: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_SHADOWPRICE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert command.main([]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(found)


def test_the_script_of_the_shell_calls_the_command_in_a_real_bash(tmp_path: Path) -> None:
    place = tmp_path / "shadowprice"
    place.write_text(f'#!/bin/sh\nexec {sys.executable} -m shadowprice "$@"\n')
    place.chmod(0o755)
    script = subprocess.run(
        [
            sys.executable,
            "-c",
            "from typer.completion import get_completion_script as s; "
            "print(s(prog_name='shadowprice', complete_var='_SHADOWPRICE_COMPLETE', shell='bash'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    typed = (
        'COMP_WORDS=(shadowprice price ro); COMP_CWORD=2; _shadowprice_completion shadowprice; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"PATH={tmp_path}:$PATH\n{script}\n{typed}"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "rollback", done.stderr
