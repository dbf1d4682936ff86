"""Notebooks of the documentation, run from their first cell to their last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "notebooks"


@pytest.mark.parametrize("name", ["scientist", "budget-owner", "platform-engineer"])
def test_every_cell_of_a_notebook_runs_and_its_assertions_hold(name: str, tmp_path: Path) -> None:
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    NotebookClient(book, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
