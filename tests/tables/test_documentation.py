import re
from pathlib import Path

import pytest

from shadowprice.tables import SESSION_TABLES, TABLES
from shadowprice.tables.schema import named_columns


@pytest.mark.parametrize("table", [*TABLES, *SESSION_TABLES])
def test_every_column_of_a_table_is_described_under_its_name(table: str, examples: Path) -> None:
    text = (examples.parents[1] / "reference" / "tables.md").read_text()
    section = re.search(rf"^## `{table}` .*?(?=^## )", text, re.DOTALL | re.MULTILINE)
    assert section is not None
    rows = "".join(line.split("|")[1] for line in section.group().splitlines() if line.startswith("| `"))
    described = [name for name in re.findall(r"`(\w+)`", rows) if not name.startswith(("x_", "c_"))]
    assert described == list(named_columns(table))


def test_the_snippets_of_the_page_run(
    examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = examples.parents[1] / "reference" / "tables.md"
    monkeypatch.chdir(examples.parents[2])
    text = page.read_text()
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(snippet, names)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] in text
    assert printed[1] in text
    assert printed[-1] in text
