"""``shadowprice price`` prints what the price store holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import cli.main as command
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace without a price."""
    campaign = Campaign(
        name="spring",
        sides={"customer": Terms(levels=(0, 50))},
        budget=Budget(form="total", limit=1_000),
        starts_at=START,
    )
    (tmp_path / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    return tmp_path


def publish(workspace: Path, version: int, price: float) -> None:
    record = PriceRecord(
        campaign="spring",
        version=version,
        slot=version - 1,
        prices={"budget": price},
        tie_share=0.0,
        status="optimal",
        primal=1.0,
        dual=1.0,
        gap=0.0,
        violation=0.0,
        spent=0,
        remaining=1_000,
        sample_rows=10,
        model_version="m1",
        solved_at=START,
        expires_at=START + timedelta(hours=2),
    )
    PriceStore(workspace / "prices").publish(record.sealed())


def test_the_newest_price_and_all_of_them_are_printed(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(workspace, 1, 0.25)
    publish(workspace, 2, 0.5)
    assert command.main(["price", "show", str(workspace)]) == 0
    assert capsys.readouterr().out.startswith("version 2, slot 1, model m1: budget 0.5; optimal")
    assert command.main(["price", "show", str(workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prices"] == {"budget": 0.5}
    assert command.main(["price", "history", str(workspace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["version"] for each in found["prices"]] == [1, 2]
    assert found["faults"] == []


def test_a_missing_or_damaged_price_is_one_line_and_the_status_1(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["price", "show", str(workspace)]) == 1
    assert "has no price" in capsys.readouterr().err
    publish(workspace, 1, 0.25)
    path = workspace / "prices" / "spring" / "0000000001.json"
    path.write_text(path.read_text().replace("0.25", "0.75"))
    assert command.main(["price", "show", str(workspace)]) == 1
    assert "checksum" in capsys.readouterr().err
    assert command.main(["price", "history", str(workspace)]) == 1
    assert capsys.readouterr().out.startswith("damaged: ")
