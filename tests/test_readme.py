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
