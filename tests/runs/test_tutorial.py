"""The tutorial on own files, followed from its fourth step on: the commands print what the page shows.

Figures are masked, because a fit differs in its last digits between machines.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from snippets import masked

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
