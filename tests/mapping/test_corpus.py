"""Files as people have them, each in a folder with the right tables or with what the refusal must say.

A new report of a user is one more folder: ``mapping.yaml`` and its files, and either ``right/<table>.csv`` with some
columns of a table, or ``refused.txt`` with texts of the message, one a line.
"""

import csv
from pathlib import Path

import pandas as pd
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.mapping import map_tables, read_mapping

FOLDERS = sorted(path for path in (Path(__file__).parent / "corpus").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_reported_file_gives_the_right_tables_or_its_refusal(folder: Path) -> None:
    refused = folder / "refused.txt"
    if refused.exists():
        with pytest.raises(InvalidInput) as caught:
            map_tables(read_mapping(folder / "mapping.yaml"))
        for text in refused.read_text(encoding="utf-8").splitlines():
            assert text in str(caught.value)
        return
    tables = map_tables(read_mapping(folder / "mapping.yaml"))
    for file in sorted((folder / "right").iterdir()):
        with file.open(encoding="utf-8", newline="") as opened:
            names, *rows = csv.reader(opened)
        found = tables.as_dict()[file.stem][names]
        assert [[_text(cell) for cell in row] for row in found.itertuples(index=False)] == rows


def _text(cell: object) -> str:
    if isinstance(cell, pd.Timestamp):
        return cell.strftime("%Y-%m-%dT%H:%M:%SZ")
    return "" if cell is None or cell is pd.NA else str(cell)
