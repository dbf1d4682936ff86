"""The snippets of the README run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_snippet_of_the_readme_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert "optimal" in capsys.readouterr().out
    decisions, cost = names["decisions"], names["cost"]
    spent = cost[decisions.level, range(10_000)].sum()  # type: ignore[index,attr-defined]
    assert spent == pytest.approx(200_000, rel=1e-3)


def test_there_is_a_snippet() -> None:
    assert SNIPPETS


def test_no_sentence_says_that_the_pipeline_solves_the_dual_on_several_ray_workers() -> None:
    """The library can, the pipeline does not: a sentence that names Ray and the dual must say which it means."""
    docs = ROOT / "docs"
    parts = [docs / part for part in ("tutorials", "how-to", "reference", "explanation", "decisions")]
    pages = [ROOT / "README.md", docs / "README.md", *(page for part in parts for page in part.rglob("*.md"))]
    found = [
        f"{page.name}: {sentence.strip()}"
        for page in pages
        for sentence in re.split(r"(?<=[.!?])\s|\n\n|\n\|", re.sub(r"(?m)^    .*$", "", page.read_text()))
        if re.search(r"\bRay\b", sentence)
        and re.search(r"\b(dual|(?<!re-)solves?)\b", sentence)
        and not re.search(r"library|one\s+process|RayExecutor|Ray job|RayJob", sentence)
    ]
    assert found == []
