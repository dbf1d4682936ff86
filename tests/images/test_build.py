"""How an image's build is told where packages are, and how it says that it cannot build."""

import os
import subprocess
import sys
from pathlib import Path

import build
import machine
import pytest
import yaml
from containers import ROOT


def told(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "images" / "build.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def test_the_environment_wins_over_pips_files_and_both_tools_are_told() -> None:
    settings = build.index_settings(
        {"index-url": "https://files.invalid/simple", "find-links": "/a /b", "cert": "/c.pem"},
        {"PIP_INDEX_URL": "https://environment.invalid/simple"},
    )
    assert settings["PIP_INDEX_URL"] == "https://environment.invalid/simple"
    assert settings["UV_INDEX_URL"] == "https://files.invalid/simple"
    # uv has folders in one word, pip in several.
    assert (settings["PIP_FIND_LINKS"], settings["UV_FIND_LINKS"]) == ("/a /b", "/a,/b")
    assert settings["PIP_CERT"] == "/c.pem"
    assert "UV_INDEX_STRATEGY" not in settings


def test_uv_takes_the_newest_of_several_indexes_as_pip_does() -> None:
    settings = build.index_settings({"extra-index-url": "https://one.invalid\nhttps://two.invalid"}, {})
    assert settings["UV_EXTRA_INDEX_URL"] == "https://one.invalid https://two.invalid"
    assert settings["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_folders_of_this_machine_are_found_among_the_places(tmp_path: Path) -> None:
    wheels, index = tmp_path / "wheels", tmp_path / "index"
    wheels.mkdir()
    (index / "simple").mkdir(parents=True)
    settings = {
        "PIP_FIND_LINKS": f"{wheels} https://elsewhere.invalid/links {tmp_path}/missing",
        "UV_EXTRA_INDEX_URL": f"file://{index}/simple https://elsewhere.invalid/simple",
        "PIP_CERT": str(wheels),
    }
    assert build.local_folders(settings) == [str(index), str(wheels)]


def test_every_role_has_its_image_and_its_command() -> None:
    assert build.ROLES == ("ledger", "pipeline", "serving")
    for role in build.ROLES:
        lines = (ROOT / "images" / role / "Dockerfile").read_text().splitlines()
        assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
        bases = [line.partition("=")[2] for line in lines if line.startswith("ARG B")]
        assert len(bases) == 2
        for base in bases:
            name, _, tag = base.rpartition(":")
            assert name
            assert tag.count(".") == 2, "a base is pinned to a patch release"


def test_the_values_name_the_images_that_are_built() -> None:
    values = yaml.safe_load((ROOT / "helm" / "shadowprice" / "values.yaml").read_text())
    chart = yaml.safe_load((ROOT / "helm" / "shadowprice" / "Chart.yaml").read_text())
    assert {name: entry["repository"] for name, entry in values["images"].items()} == {
        role: f"shadowprice/{role}" for role in build.ROLES
    }
    assert chart["appVersion"] == build.version()


@pytest.mark.parametrize(
    ("arguments", "path", "reason"),
    [
        (["nothing", "--tool=buildah"], os.environ["PATH"], "no image nothing; there are ledger, pipeline, serving"),
        (["ledger"], "/nowhere", "neither buildah nor docker is installed"),
    ],
)
def test_it_says_in_one_line_why_it_cannot_build(arguments: list[str], path: str, reason: str) -> None:
    done = told(*arguments, PATH=path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"make images: {reason}")
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_build_keeps_everything_in_the_cache_it_is_given(tmp_path: Path) -> None:
    given = {machine.CACHE: str(tmp_path / "cache"), "CONTAINERS_CONF": "/mine.conf"}
    (tmp_path / "cache").mkdir()
    found = machine.settings(given, tmp_path / "elsewhere")
    assert "CONTAINERS_CONF" not in found
    text = Path(found["CONTAINERS_STORAGE_CONF"]).read_text()
    assert f'graphroot = "{tmp_path}/cache/storage"' in text
    assert Path(found["TMPDIR"]).is_relative_to(tmp_path / "cache")
    assert not (tmp_path / "elsewhere").exists()
