"""The tutorial on own files, followed from its fourth step on: the commands print what the page shows.

Figures are masked, because a fit differs in its last digits between machines.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from snippets import blocks, masked, printed, shell_of

from serving.local.launch import free_port
from shadowprice.currency import Currency

pytestmark = pytest.mark.timeout(1500)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "your-own-files.md").read_text()
COMMAND = [sys.executable, "-W", "ignore", "-m", "shadowprice"]


def shown(start: str) -> tuple[list[str], str]:
    """Words of the command that starts so on the page, and what the page shows below it."""
    (block,) = re.findall(rf"```console\n\$ shadowprice ({start}.*?)\n(.*?)```", PAGE, flags=re.DOTALL)
    return block[0].split(), block[1]


@dataclass(frozen=True)
class Followed:
    folder: Path
    printed: str
    served: str
    url: str


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A run on the files of the tutorial, which is served."""
    runs = tmp_path_factory.mktemp("runs")
    words, _ = shown("run")
    done = subprocess.run([*COMMAND, *words, "--runs", str(runs)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    port = free_port()
    serve = [*COMMAND, "serve", str(runs / "latest"), "--port", str(port)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, cwd=ROOT) as served:
        try:
            assert served.stdout is not None
            told = "".join(served.stdout.readline() for _ in shown("serve")[1].splitlines())
            yield Followed((runs / "latest").resolve(), done.stdout, told, f"http://127.0.0.1:{port}")
        finally:
            served.terminate()


@pytest.fixture
def ledger_url(followed: Followed) -> str:
    """Address of the ledger that the services have."""
    predictor, _, port = followed.url.rpartition(":")
    return f"{predictor}:{int(port) + 1}"


def test_the_run_prints_the_steps_and_the_end_that_the_page_shows(followed: Followed) -> None:
    lines = [line for line in followed.printed.splitlines() if " so far" not in line and not line.endswith("…")]
    assert [masked(line) for line in shown("run")[1].splitlines()] == [masked(line) for line in lines]
    assert (followed.folder / "report.html").exists()


def test_serving_says_where_the_services_are(followed: Followed) -> None:
    assert masked(followed.served) == masked(shown("serve")[1])


def test_the_answer_and_its_explanation_look_as_the_page_shows(followed: Followed) -> None:
    (body,) = re.findall(r"-d \\\n\s+'(.*?)'", PAGE)
    answer = httpx.post(f"{followed.url}/v1/models/summer:predict", json=json.loads(body)).json()
    page = json.loads(re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[0])
    assert list(page) == list(answer)
    (mine,), (theirs,) = answer["predictions"], page["predictions"]
    assert list(mine) == list(theirs)
    assert {name: type(value) for name, value in mine.items()} == {name: type(v) for name, v in theirs.items()}
    assert mine["offer_id"] == f"customer-{mine['incentive']}"

    words, told = shown("explain")
    asked = [*COMMAND, *words, "--url", followed.url]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert f"incentive {Currency.of('EUR').write(mine['incentive'])} (level {mine['level']})" in done.stdout
    lines, page_lines = (
        [line for line in text.splitlines() if not line.startswith(mine["reason"])] for text in (done.stdout, told)
    )
    assert [set(masked(line)) - {"→", "#"} for line in page_lines] == [set(masked(line)) - {"→", "#"} for line in lines]


def test_a_list_goes_out_and_comes_back_as_the_tutorial_shows(
    followed: Followed, ledger_url: str, tmp_path: Path
) -> None:
    """Every command of the page runs, in a folder with the run, and prints what the page shows."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "runs").symlink_to(followed.folder.parent)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "shadowprice").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (programs / "shadowprice").chmod(0o755)
    known = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "79"}
    mine = [block for block in blocks() if block.page == "docs/tutorials/a-list-and-back.md"]
    shown = 0
    for block in sorted(mine, key=lambda each: each.line):
        commands = shell_of(block).replace("http://127.0.0.1:8081", ledger_url)
        if commands.startswith("export "):
            name, _, value = commands.removeprefix("export ").strip().partition("=")
            known[name] = value
            continue
        done = subprocess.run(
            ["bash", "-e", "-c", commands], cwd=tmp_path, env=os.environ | known, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        assert masked(done.stdout) == masked(printed(block.text)), str(block)
        shown += bool(done.stdout)
    assert shown == 3
    totals = httpx.get(f"{ledger_url}/v1/totals").json()
    assert (totals["net_spent"], totals["outcomes"]["customer"]) == (500, 2)
