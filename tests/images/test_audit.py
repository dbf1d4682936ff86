"""``make audit``: a finding fails it, a database that cannot be reached does not."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import audit
import pytest
from containers import ROOT

ADVISORY = {
    "id": "PYSEC-0000-1",
    "aliases": ["CVE-0000-1"],
    "summary": "It leaks.",
    "affected": [
        {
            "package": {"name": "leaky", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.3"}]}],
        }
    ],
}


class Database(ThreadingHTTPServer):
    """An advisory database with one advisory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[dict[str, Any]] = []
        self.status = 200
        self.address = f"http://127.0.0.1:{self.server_port}/v1/query"


class Answer(BaseHTTPRequestHandler):
    """Finds the advisory for the package ``leaky``."""

    server: Database

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(query)
        body = json.dumps({"vulns": [ADVISORY]} if query["package"]["name"] == "leaky" else {}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as found:
        thread = Thread(target=found.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "some.lock"
    path.write_text("leaky==1.2+cpu \\\n    --hash=sha256:00\nsound==3.4 \\\n    --hash=sha256:00\n")
    return path


def run(address: str, *arguments: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "images" / "audit.py"), f"--advisories={address}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_finding_fails_and_names_the_version_that_is_fixed(database: Database, lock: Path) -> None:
    done = run(database.address, lock)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0] == "leaky 1.2: PYSEC-0000-1, CVE-0000-1; fixed in 1.3"
    assert {(query["package"]["name"], query["version"]) for query in database.asked} == {
        ("leaky", "1.2"),
        ("sound", "3.4"),
    }


@pytest.mark.parametrize("name", ["PYSEC-0000-1", "CVE-0000-1"])
def test_a_finding_is_accepted_by_any_of_its_names_and_only_with_a_reason(
    name: str, database: Database, lock: Path, tmp_path: Path
) -> None:
    known = tmp_path / "known.txt"
    known.write_text(f"# accepted\n{name} The function is not called.\n")
    done = run(database.address, f"--known={known}", lock)
    assert done.returncode == 0, done.stdout + done.stderr
    known.write_text(f"{name}\n")
    done = run(database.address, f"--known={known}", lock)
    assert done.returncode == 2
    assert f"{name} has no reason" in done.stderr


def test_every_package_of_the_images_is_searched_for(database: Database) -> None:
    done = run(database.address)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {query["package"]["name"] for query in database.asked}
    entries = [line for path in audit.LOCKS for line in path.read_text().splitlines() if "==" in line]
    assert len(entries) > 150
    assert names == {line.partition("==")[0].replace("_", "-").replace(".", "-") for line in entries}


def test_a_database_that_cannot_be_reached_is_told_in_one_sentence(lock: Path, free_port) -> None:
    done = run(f"http://127.0.0.1:{free_port()}/v1/query", lock)
    assert done.returncode == 0
    assert done.stderr == ""
    [sentence] = done.stdout.splitlines()
    assert "cannot be reached, so nothing was searched" in sentence


@pytest.mark.parametrize("status", [403, 503])
def test_a_database_that_refuses_is_not_taken_for_one_without_findings(
    status: int, database: Database, lock: Path
) -> None:
    database.status = status
    done = run(database.address, lock)
    assert done.returncode == 0
    assert "cannot be reached, so nothing was searched" in done.stdout
