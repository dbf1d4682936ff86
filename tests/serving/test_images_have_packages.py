"""Every service of the chart can be imported with the packages of its image alone."""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SERVICES = {
    module[1]: image[1]
    for path in sorted((ROOT / "helm" / "shadowprice" / "templates").glob("*.yaml"))
    if (module := re.search(r"args: \[python, -m, ([\w.]+)", text := path.read_text()))
    and (image := re.search(r"\.Values\.images\.(\w+)\)", text))
}


def installed(role: str) -> set[str]:
    """Distributions of an image: what the extras of its Dockerfile need, and what these need in turn."""
    extras = re.findall(r"install\.sh dependencies (.+)", (ROOT / "images" / role / "Dockerfile").read_text())
    seen: set[tuple[str, str]] = set()
    waiting = [("shadowprice", extra) for extra in ("", *extras[0].split())]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        try:
            needed = [Requirement(line) for line in requires(each[0]) or ()]
        except PackageNotFoundError:
            continue
        for one in needed:
            if one.marker is None or one.marker.evaluate({"extra": each[1]}):
                waiting += [(canonicalize_name(one.name), extra) for extra in ("", *one.extras)]
    return {name for name, _ in seen}


@pytest.mark.parametrize(("module", "role"), SERVICES.items())
def test_a_service_needs_only_what_its_image_has(module: str, role: str) -> None:
    there = installed(role)
    absent = [
        package
        for package, owners in packages_distributions().items()
        if there.isdisjoint(canonicalize_name(owner) for owner in owners)
    ]
    if role != "pipeline":
        assert {"torch", "ray"} <= set(absent)
    absent = [package for package in absent if package.isidentifier()]
    # Absent, not only unable to be imported: what is tried and caught must find it missing.
    program = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
absent = set({absent!r})
sys.meta_path.insert(0, Absent())
import {module}
if hasattr({module}, "__path__"):
    import {module}.__main__
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_service_of_the_chart_is_here() -> None:
    assert len(SERVICES) >= 6
