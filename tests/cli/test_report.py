"""``shadowprice report`` writes the page of a run again from its figures."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import cli.main as command
from shadowprice.reports.data import ReportData
from shadowprice.reports.stored import store_report


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The report of a run."""
    facts = {"tables": {"exposure rows": 5_200}}
    data = ReportData(
        title="Campaign autumn", dataset="own", created_at=datetime.now(UTC), simulated=False, facts=facts
    )
    store_report(data, tmp_path)
    return tmp_path


def test_the_page_of_a_run_is_written_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = run / "report.html"
    first = page.read_text()
    page.unlink()
    assert command.main(["report", str(run)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert page.read_text() == first
    assert "Campaign autumn" in first


def test_a_file_of_figures_gets_a_page_of_its_own(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = run / "other.html"
    assert command.main(["report", str(run / "report.json"), "--page", str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(other)}
    assert other.read_text() == (run / "report.html").read_text()


def test_a_folder_without_figures_and_damaged_ones_are_sentences(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["report", str(run / "none")]) == 1
    assert "name the folder of a finished run" in capsys.readouterr().err
    (run / "report.json").write_text('{"title": 3}')
    assert command.main(["report", str(run)]) == 1
    assert "fields differ" in capsys.readouterr().err
