"""``python images/audit.py``: search an advisory database for the packages of the images' locks.

The exit status is 0 without a new finding, 1 with one, 2 where the search itself fails. Without a network it is 0 too,
and one sentence tells that nothing was searched.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from shadowprice.command.options import main_of

FOLDER = Path(__file__).resolve().parent
LOCKS = (FOLDER / "requirements.lock", FOLDER / "tools.lock")
KNOWN = FOLDER / "known-findings.txt"
# An advisory names a release: the part that tells builds of one release apart is left out.
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*==[^\s;+]+)", re.MULTILINE)
UNREACHABLE = re.compile(r"^(requests\.exceptions\.\w+|\S*ConnectionError|\S*ServiceError)\b", re.MULTILINE)
SECONDS = 15


class CannotAudit(Exception):
    """Said in one line."""


class Unreachable(Exception):
    """The database did not answer; said in one line."""


def search(
    locks: Annotated[list[Path] | None, typer.Argument(help="the images' locks by default")] = None,
    advisories: Annotated[str, typer.Option(help="address of another OSV database, up to /v1/query")] = "",
    file: Annotated[Path, typer.Option("--known", help="file of findings that are accepted")] = KNOWN,
) -> int:
    """Search an advisory database for the packages of the locks."""
    try:
        pins = sorted({pin for lock in locks or LOCKS for pin in PINNED.findall(lock.read_text())})
        known = accepted(file)
        found = findings(pins, known, advisories)
    except Unreachable as error:
        print(f"make audit: the advisory database cannot be reached, so nothing was searched ({error})")
        return 0
    except CannotAudit as error:
        print(f"make audit: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    print(f"make audit: {len(pins)} packages, {len(found)} findings besides {len(known)} that {file.name} accepts")
    return 1 if found else 0


def accepted(path: Path) -> list[str]:
    """Identifiers of the findings of a file.

    Raises:
        CannotAudit: a line gives no reason.
    """
    known = []
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            if not reason.strip():
                raise CannotAudit(f"{path.name}: {name} has no reason; write it after the identifier")
            known.append(name)
    return known


def findings(pins: Iterable[str], known: Iterable[str], advisories: str) -> list[str]:
    """One line for each advisory that is not accepted: package, version, identifiers and the versions that are fixed.

    Raises:
        Unreachable: the database did not answer.
        CannotAudit: the search failed, or left a package out.
    """
    # The other service of pip-audit takes an index that has no advisories for one without findings.
    command = [sys.executable, "-m", "pip_audit", "--vulnerability-service=osv", "--format=json", "--aliases=on"]
    command += ["--no-deps", "--disable-pip", "--progress-spinner=off", f"--timeout={SECONDS}"]
    command += [f"--osv-url={advisories}"] if advisories else []
    command += [f"--ignore-vuln={name}" for name in known]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "requirements.txt")
        path.write_text("".join(f"{pin}\n" for pin in pins))
        # Answers are asked for anew each time: yesterday's have none of today's advisories.
        command += [f"--cache-dir={scratch}/cache", f"--requirement={path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        if reason := UNREACHABLE.search(done.stderr):
            raise Unreachable(reason[1].rpartition(".")[2])
        raise CannotAudit(f"pip-audit failed: {(done.stderr.strip().splitlines() or ['it printed nothing'])[-1]}")
    told: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    if skipped := [each["name"] for each in told if "skip_reason" in each]:
        raise CannotAudit(f"pip-audit did not search for {', '.join(skipped)}")
    return [
        f"{each['name']} {each['version']}: {', '.join([found['id'], *found['aliases']])}; "
        f"fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for each in told
        for found in each["vulns"]
    ]


main = main_of(search, "python images/audit.py")

if __name__ == "__main__":
    sys.exit(main())
