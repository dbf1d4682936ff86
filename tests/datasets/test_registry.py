import subprocess
import sys
from pathlib import Path

import pytest

from shadowprice.datasets import load, names
from shadowprice.errors import InvalidInput, NotFound


def test_every_data_set_of_the_contract_is_listed() -> None:
    assert names() == ["world", "tables", "mapping", "o2o", "thornton", "promotion", "funds", "vouchers"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match="'moon'; there are world, tables, mapping, o2o, thornton, promotion, funds"):
        load("moon")


def test_an_option_the_data_set_does_not_have_is_refused_by_name(examples: Path) -> None:
    with pytest.raises(InvalidInput, match="color"):
        load("tables", data=str(examples), color="blue")


@pytest.mark.parametrize("name", ["tables", "o2o"])
def test_a_data_set_that_reads_files_asks_for_its_folder(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"data: must be .*folder"):
        load(name)


@pytest.mark.parametrize("name", ["tables", "o2o"])
def test_a_folder_that_is_not_there_is_said_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such"):
        load(name, data=str(tmp_path / "nowhere"))


def test_a_data_set_is_imported_only_when_it_is_loaded() -> None:
    code = "import sys, shadowprice.datasets; print(*(name for name in sys.modules if '.datasets.' in name))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(out.split()) == {"shadowprice.datasets.registry", "shadowprice.datasets.split"}
