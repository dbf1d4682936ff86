"""The site of the documentation builds without a warning, and reaches every page."""

import subprocess
import sys
from html import unescape
from pathlib import Path

import shadowprice

ROOT = Path(__file__).resolve().parents[1]


def test_the_site_builds_without_a_warning_and_documents_the_names_of_the_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    built = {page.parent.name for page in site.rglob("index.html")}
    for page in (ROOT / "docs").rglob("*.md"):
        assert page.stem in built or page.name == "README.md", page
    commands = (site / "docs" / "reference" / "command-line" / "index.html").read_text()
    assert "shadowprice price rollback WORKSPACE VERSION" in commands
    values = (site / "helm" / "shadowprice" / "index.html").read_text()
    assert "predictor.maxInstances" in values
    library = unescape((site / "docs" / "reference" / "library" / "index.html").read_text())
    for name in shadowprice.__all__:
        assert f".{name}" in library
        assert getattr(shadowprice, name).__doc__.splitlines()[0].strip().split("`")[0] in library
