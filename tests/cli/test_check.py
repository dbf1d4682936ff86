"""``shadowprice check`` reads a user's files and lists every fault in their words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import cli.main as command

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.mark.parametrize("place", ["mapping/mapping.yaml", "tables"])
def test_good_files_are_counted(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", str(EXAMPLES / place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"]
    lines = {"mapping/mapping.yaml": ("gutscheine.csv", "summer"), "tables": ("exposure.csv", None)}[place]
    file, campaign = lines
    assert found["rows"]["exposure"] == len((EXAMPLES / place.split("/")[0] / file).read_text().splitlines()) - 1
    assert campaign in (found["campaign"], None)


def test_the_table_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    place = str(EXAMPLES / "mapping" / "mapping.yaml")
    assert command.main(["check", place]) == 0
    shown = capsys.readouterr().out
    assert "5,200" in shown
    assert "levels of customers in minor units: 0, 250, 500, 1000" in shown
    assert f"shadowprice run {place}" in shown.replace("\n", "")


def test_faults_are_printed_without_a_traceback_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(EXAMPLES / "mapping", tmp_path / "files")
    coupons = folder / "gutscheine.csv"
    coupons.write_text(coupons.read_text().replace(";ja\n", ";JA\n", 1))
    assert command.main(["check", str(folder / "mapping.yaml")]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("shadowprice check: the files cannot be used")
    assert "gutscheine.csv, column 'eingelöst': is not a whole number; got 'JA'" in shown.err
    assert "Traceback" not in shown.err
    assert command.main(["check", str(folder / "mapping.yaml"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["valid"]
    assert {problem["table"] for problem in found["problems"]} == {"gutscheine.csv"}


def test_a_wrong_option_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", "--jsn"]) == 2
    assert "No such option" in capsys.readouterr().err
