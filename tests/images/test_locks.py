"""What a build fetches is pinned by hash, at the versions that were tested together."""

import re
import tomllib
from pathlib import Path

import build
import pytest
from containers import ROOT

IMAGES = ROOT / "images"
LOCKS = ("requirements.lock", "tools.lock")
PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;]+)", re.MULTILINE)


def pins(path: Path) -> dict[str, str]:
    """Version of each package, without the part that tells builds of one version apart."""
    return {name: version.partition("+")[0] for name, version in PINNED.findall(path.read_text())}


def name_of(requirement: str) -> str:
    return re.split(r"[\s<>=!~;\[]", requirement)[0].lower()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_a_hash(lock: str) -> None:
    entries = re.split(r"\n(?=\S)", (IMAGES / lock).read_text().strip())
    for entry in entries:
        assert PINNED.match(entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_the_versions_that_were_tested_together(lock: str) -> None:
    tested = pins(ROOT / "constraints.txt")
    found = pins(IMAGES / lock)
    assert {name: version for name, version in found.items() if tested.get(name, version) != version} == {}


def test_the_lock_has_every_package_that_an_image_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    not_served = ("dev", "fuzz")
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in not_served}
    asked = {name_of(each) for needs in (project["dependencies"], *extras.values()) for each in needs}
    assert asked - {"shadowprice"} <= set(pins(IMAGES / "requirements.lock"))
    tools = [line for line in (IMAGES / "tools.in").read_text().splitlines() if not line.startswith("#")]
    assert {name_of(each) for each in tools} <= set(pins(IMAGES / "tools.lock"))


def test_every_installation_of_a_build_checks_hashes() -> None:
    text = (IMAGES / "install.sh").read_text().replace("\\\n", " ")
    installs = [line for line in text.splitlines() if re.search(r"pip\"? install", line)]
    assert len(installs) == 4
    for line in installs:
        # The project's own folder has no hash; what builds it does.
        assert "--require-hashes" in line or ("--no-deps" in line and "--build-constraint" in line), line


@pytest.mark.parametrize("role", build.ROLES)
def test_a_build_lists_what_it_has_installed(role: str) -> None:
    text = (IMAGES / role / "Dockerfile").read_text()
    assert "images/requirements.lock images/tools.lock" in text
    assert text.index("/opt/package /opt") < text.index("install.sh inventory") < text.index("USER ")
