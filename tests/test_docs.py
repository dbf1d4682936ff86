"""The documentation: links resolve, every page is listed, and the rules on length hold."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from snippets import markdown_files

import operations
from operations import __main__ as command
from operations.common import job
from research.table import Primary, Table, needs_file
from research.write import MOST_SENTENCES, sentences

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SECTIONS = ("tutorials", "how-to", "reference", "explanation")
CAMPAIGN = {
    "name": "spring",
    "sides": {"customer": {"levels": [0, 100], "cost_basis": "on_response", "weight": 1.0}},
    "budget": {"limit": 1000},
    "starts_at": "2024-05-01T00:00:00+00:00",
    "hours": 24,
}
RECORDS = sorted(DOCS.glob("decisions/*.md"))
RESULTS = sorted(page for page in DOCS.glob("results/*.md") if page.name != "README.md")


def without_code(text: str) -> str:
    """Return a page without its fenced blocks, indented code and inline code."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the target and the anchor of every link inside the repository."""
    found = re.findall(r"\]\(\s*([^()\s]+)\s*\)", without_code(page.read_text()))
    inside = [target.partition("#") for target in found if not re.match(r"[a-z]+:", target)]
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in inside]


def test_every_link_resolves() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in markdown_files()
        for target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_every_path_of_a_page_in_code_and_settings_exists() -> None:
    command = [
        "git",
        "grep",
        "--untracked",
        "-ohE",
        r"(^|[^A-Za-z/.])docs/[A-Za-z0-9_/.-]+\.md",
        "--",
        ":!CHANGELOG.md",
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    named = {line[line.index("docs/") :] for line in found}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_file_of_code_that_a_page_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = {f"/{name}" for name in listed}
    found = {
        (str(page.relative_to(ROOT)), path)
        for page in markdown_files()
        if page.name != "CHANGELOG.md"
        for path in re.findall(r"(?<!New file )`([\w./-]+\.(?:py|lua|sh|yaml|tpl|toml))`", page.read_text())
    }
    assert len(found) > 100
    assert [entry for entry in sorted(found) if not any(file.endswith(f"/{entry[1]}") for file in files)] == []


def test_the_start_page_lists_every_page_once() -> None:
    expected = sorted(page for section in SECTIONS for page in (DOCS / section).rglob("*.md"))
    listed = [target for target, _ in links(DOCS / "README.md") if target.suffix == ".md"]
    assert [page for page in expected if listed.count(page) != 1] == []


def test_every_threat_has_tests_that_exist_and_a_bound_in_money() -> None:
    text = (DOCS / "explanation" / "threat-model.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in re.findall(r"^\| [STRIDE] \| .+", text, flags=re.MULTILINE)]
    threats = [row for row in rows if len(row) == 4]
    assert len(threats) > 50
    code = "".join(path.read_text() for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for _, threat, control, _ in threats:
        assert "`test" in control or "/test_" in control or control == "none", threat
        for name in re.findall(r"\btest_\w+(?:\.py)?", control):
            assert name in files or f"def {name}(" in code, (threat, name)
        for name in re.findall(r'fault "(.+?)"', control):
            assert f'"{name}"' in code, (threat, name)
    # What a row leaves open has an amount of its own, or that of its kind.
    assert {row[0] for row in rows if len(row) == 2 and row[1]} == {row[0] for row in threats}


def test_a_decision_record_has_four_parts_and_one_page() -> None:
    parts = ["Status", "Context", "Decision", "Consequences"]
    for record in RECORDS:
        text = record.read_text()
        assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == parts, record.name
        assert len(text.split()) <= 450, record.name
        assert int(text.removeprefix("# ").split(".")[0]) == int(record.name[:4])


def test_the_house_of_the_architecture_is_the_one_that_the_linter_enforces() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    text = (DOCS / "explanation" / "architecture.md").read_text()
    house = text[text.index("    helm/") : text.index("- **A job is an object.**")].splitlines()[1:]
    names = [line.split("   ")[1 if line[4] != " " else 2] for line in house if line and "the library" not in line]
    drawn = [name.replace("/", "").split() for name in names]
    assert drawn == [[name.strip().removeprefix("shadowprice.") for name in floor.split(":")] for floor in floors]


def test_the_glossary_has_at_most_forty_terms_in_order() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*: ", (DOCS / "reference" / "glossary.md").read_text(), flags=re.MULTILINE)
    assert 0 < len(terms) <= 40
    assert terms == sorted(terms, key=str.lower)


def test_a_page_of_results_opens_with_a_short_verdict() -> None:
    for page in RESULTS:
        blocks = page.read_text().split("\n\n")
        assert blocks[1].startswith("**Verdict.** "), page.name
        readings = [block.removeprefix("**Reading.** ") for block in blocks if block.startswith("**Reading.** ")]
        texts = [blocks[1].removeprefix("**Verdict.** "), *readings]
        assert all(len(sentences(text)) <= MOST_SENTENCES for text in texts), page.name


def test_every_import_of_a_snippet_resolves() -> None:
    """Read the sources: importing Feast and torch takes seconds."""
    own = r"^from ((?:shadowprice|feature_repo|operations|serving|pipelines)[\w.]*) import (.+)$"
    found = {
        (page, module, name.split(" as ")[0].strip())
        for page in markdown_files()
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
        for module, imported in re.findall(own, block, flags=re.MULTILINE)
        for name in imported.split(",")
    }
    assert len(found) > 20
    for page, module, name in sorted(found):
        path = ROOT / module.replace(".", "/")
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if f"New file `{source.relative_to(ROOT)}`" in page.read_text():
            continue
        known = re.search(rf"\b{name}\b", source.read_text()) or list(path.glob(f"{name}*"))
        assert known, f"{page}: {module} has no {name}"


def example(name: str) -> str:
    """Return the block of Python in CONTRIBUTING.md that defines a class."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL)
    [found] = [block for block in blocks if f"class {name}" in block]
    return found


def test_the_table_of_contributing_is_one_that_can_be_measured() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    [code] = [block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "TABLE = " in block]
    names: dict[str, Any] = {"run": lambda seed, quick: {"joint_gnn": {"AUC": 0.9}, "joint_dnn": {"AUC": 0.8}}}
    names |= {"Table": Table, "Primary": Primary, "needs_file": needs_file}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    made: Table = names["TABLE"]
    assert len(made.seed_numbers(quick=True)) == 2
    assert "offers.parquet" in str(made.missing())


def test_the_step_of_contributing_runs_by_the_name_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notify.py").write_text(example("NotifyJob"))
    monkeypatch.setattr(operations, "__path__", [*operations.__path__, str(tmp_path)])
    known = (*job.JOBS, "notify")
    monkeypatch.setattr(job, "JOBS", known)
    monkeypatch.setattr(command, "JOBS", known)
    (tmp_path / "campaign.json").write_text(json.dumps(CAMPAIGN))
    line = tmp_path / "line"
    try:
        assert command.main(["notify", "--json", json.dumps({"workspace": str(tmp_path), "line": str(line)})]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"job": "notify", "result": None, "outputs": {"line": str(line)}}
        assert line.read_text() == "Campaign spring\n"
        assert command.main(["notify", json.dumps({"workspace": str(tmp_path)})]) == 1
    finally:
        sys.modules.pop("operations.notify", None)
