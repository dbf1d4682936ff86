"""A wheel adds one name to an environment, and installs with and without a C compiler."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from cli.doctor.machine import PYTHON

ROOT = Path(__file__).resolve().parents[1]
NO_COMPILER = os.environ | {"CC": "/bin/false"}
OUTSIDE = {".git", ".venv", ".venv-tools", "build", "docs", "helm", "k8s", "images", "runs", "tests"}


def wheel(folder: Path, environment: Mapping[str, str]) -> Path:
    """Build a wheel from a copy of the tree, in which nothing is compiled yet."""

    def ignored(place: str, names: list[str]) -> set[str]:
        top = OUTSIDE if Path(place) == ROOT else set()
        return {name for name in names if name in top or name.endswith((".so", ".egg-info", "__pycache__", "_cache"))}

    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=ignored)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps"),
            *("--no-build-isolation", "--wheel-dir", str(folder), str(source)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.whl")
    return built


def run(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in another folder, with what is installed in ``site`` and the libraries, but without this checkout."""
    libraries = [place for place in sys.path if place.endswith("site-packages")]
    code = (
        "import runpy, sys; here = sys.argv.pop(1); "
        f"sys.path[:] = [here] + [p for p in sys.path if p and p != {str(ROOT)!r}] + {libraries!r}; "
        "sys.argv.pop(0)\n"
    )
    call = words[1] if words[0] == "-c" else f"runpy.run_module({words[1]!r}, run_name='__main__', alter_sys=True)"
    return subprocess.run(
        [sys.executable, "-S", "-I", "-c", code + call, str(site), *words[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built where every compiler fails."""
    return wheel(tmp_path_factory.mktemp("plain"), NO_COMPILER)


@pytest.fixture(scope="module")
def site(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that this wheel is installed to."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(plain)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def test_one_name_is_installed(site: Path) -> None:
    names = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"shadowprice", "bin"}
    assert (site / "bin" / "shadowprice").exists()


def test_the_command_runs_from_any_folder(site: Path, tmp_path: Path) -> None:
    done = run(site, tmp_path, "-m", "shadowprice", "--help")
    assert done.returncode == 0, done.stderr
    assert "  predictor " in done.stdout
    # A subcommand finds the folders inside of the package.
    done = run(site, tmp_path, "-m", "shadowprice", "ready", "--help")
    assert done.returncode == 0, done.stderr
    assert "--ledger-url" in done.stdout


def test_what_the_command_starts_finds_the_folders_too(site: Path, tmp_path: Path) -> None:
    code = """
import os, types
import shadowprice.__main__ as command
command.import_module = lambda name: types.SimpleNamespace(main=lambda: print(os.environ["PYTHONPATH"]))
command.main()
"""
    done = run(site, tmp_path, "-c", code)
    assert done.stdout.strip() == str(site / "shadowprice" / "_platform"), done.stderr


def test_an_editable_install_adds_the_repository_to_the_path(plain: Path, tmp_path: Path) -> None:
    code = f"from setuptools.build_meta import build_editable; build_editable({str(tmp_path)!r})"
    source = plain.parent / "source"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=source, env=NO_COMPILER)
    [built] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as file:
        [path] = [name for name in file.namelist() if ".dist-info/" not in name]
        assert path.endswith(".pth")
        assert file.read(path).decode().split() == [str(source)]


def test_nothing_else_can_be_imported(site: Path, tmp_path: Path) -> None:
    names = ["serving", "pipelines", "components", "feature_repo", "benchmarks", "research", "cli", "tests"]
    code = f"from importlib.util import find_spec; print([name for name in {names} if find_spec(name)])"
    assert run(site, tmp_path, "-c", code).stdout.strip() == "[]"


def test_the_clients_of_the_services_are_public(site: Path, tmp_path: Path) -> None:
    code = """
import sys
import shadowprice
before = list(sys.path)
from shadowprice.client import LedgerClient
assert sys.path[:-1] == before
print(LedgerClient.__module__, sys.modules["serving"].__file__)
"""
    done = run(site, tmp_path, "-c", code)
    assert done.stdout.split() == ["serving.client.client", str(site / "shadowprice/_platform/serving/__init__.py")]


def test_the_files_that_are_not_python_are_there(site: Path) -> None:
    platform = site / "shadowprice" / "_platform"
    assert {path.name for path in platform.rglob("*.lua")} == {path.name for path in ROOT.glob("serving/**/*.lua")}
    assert list(platform.glob("serving/console/templates/*.jinja"))
    assert (site / "shadowprice" / "py.typed").exists()
    assert list(site.glob("shadowprice/reports/*.jinja"))


def test_without_a_compiler_it_installs_and_allocates(plain: Path, site: Path, tmp_path: Path) -> None:
    assert not [name for name in zipfile.ZipFile(plain).namelist() if name.endswith(".so")]
    code = "from shadowprice.allocation.kernel.compiled import LIBRARY; import shadowprice.allocation; print(LIBRARY)"
    assert run(site, tmp_path, "-c", code).stdout.strip() == "None"


def test_with_a_compiler_the_kernel_is_in_the_wheel(tmp_path: Path, missing: Callable[[str], NoReturn]) -> None:
    if shutil.which("cc") is None:
        missing("no C compiler; apt-get install gcc")
    # Unoptimized: it is the packing that is tested here, and -O3 takes a minute.
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    compiler.chmod(0o755)
    names = zipfile.ZipFile(wheel(tmp_path, os.environ | {"CC": str(compiler)})).namelist()
    assert [name for name in names if name.startswith("shadowprice/allocation/kernel/_fused.")]
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"shadowprice"}


def test_the_version_that_is_claimed_is_the_one_that_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    major, minor = PYTHON
    assert sys.version_info[:2] == PYTHON
    assert project["tool"]["cibuildwheel"]["build"] == [f"cp{major}{minor}-*"]
    assert SpecifierSet(project["project"]["requires-python"]) == SpecifierSet(
        f">={major}.{minor},<{major}.{minor + 1}"
    )
    for file in (ROOT / "images").glob("*/Dockerfile"):
        assert f"python:{major}.{minor}." in file.read_text()


def pinned() -> dict[str, str]:
    """Versions that were tested together."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {name: version for name, _, version in (line.partition("==") for line in lines) if version}


def asked() -> list[Requirement]:
    """Requirements of the project and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [each for needs in project["optional-dependencies"].values() for each in needs]
    found = [*map(Requirement, [*project["dependencies"], *texts])]
    return [each for each in found if each.name not in ("shadowprice", "atheris")]


def test_what_was_tested_together_is_what_the_project_admits() -> None:
    tested = pinned()
    assert [str(each) for each in asked() if not each.specifier.contains(tested[each.name])] == []
    # A package has one range, whichever extra asks for it.
    ranges = {(each.name, each.specifier) for each in asked()}
    assert len(ranges) == len({name for name, _ in ranges})
    [numpy] = [each for each in asked() if each.name == "numpy"]
    minor = Version(tested["numpy"])
    assert not numpy.specifier.contains(f"{minor.major}.{minor.minor + 1}.0")


def test_the_packages_of_kubeflow_pipelines_have_one_version() -> None:
    family = ("kfp", "kfp-kubernetes", "kfp-pipeline-spec", "kfp-server-api")
    [version] = {pinned()[name] for name in family}
    assert {str(each.specifier) for each in asked() if each.name in family} == {f"=={version}"}


def test_an_image_is_built_from_every_folder_of_the_wheel(site: Path) -> None:
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    folders = {path.name for path in (site / "shadowprice" / "_platform").iterdir()}
    assert folders | {"shadowprice", "setup.py", "pyproject.toml"} <= taken
    for role in ("serving", "ledger", "pipeline"):
        text = (ROOT / "images" / role / "Dockerfile").read_text()
        assert "\nENV PYTHONPATH=/opt/shadowprice/lib/python3.11/site-packages/shadowprice/_platform\n" in text
