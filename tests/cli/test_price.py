"""``shadowprice price`` prints what the price store holds, and publishes an earlier price again."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import cli.main as command
from feature_repo.definitions import PRICE_VIEW, entity_key
from feature_repo.store import open_store
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

Publish = Callable[..., PriceRecord]


def test_the_newest_price_and_all_of_them_are_printed(
    workspace: Path, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(prices={"budget": 0.5})
    assert command.main(["price", "show", str(workspace)]) == 0
    assert capsys.readouterr().out.startswith("version 2, slot 1, model m1: budget 50 per $1; optimal")
    assert command.main(["price", "show", str(workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prices"] == {"budget": 0.5}
    assert command.main(["price", "history", str(workspace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["version"] for each in found["prices"]] == [1, 2]
    assert found["faults"] == []


def test_a_missing_or_damaged_price_is_one_line_and_the_status_1(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workspace / "prices" / "spring" / "0000000001.json"
    path.write_text(path.read_text().replace("0.1", "0.75"))
    assert command.main(["price", "show", str(workspace)]) == 1
    assert "checksum" in capsys.readouterr().err
    assert command.main(["price", "history", str(workspace)]) == 1
    assert capsys.readouterr().out.startswith("damaged: ")
    path.unlink()
    assert command.main(["price", "show", str(workspace)]) == 1
    assert "has no price" in capsys.readouterr().err


def test_an_earlier_price_becomes_the_next_version_everywhere(
    workspace: Path, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = publish(
        prices={"budget": 0.9},
        spent=300,
        remaining=700,
        plan=(300.0, 500.0),
        arrivals=(40.0, 60.0),
        at=1.5,
        requests=40,
    )
    assert command.main(["price", "rollback", str(workspace), "1"]) == 0
    assert capsys.readouterr().out.startswith("version 3, slot 1, model m1: budget 10 per $1; optimal")
    store = PriceStore(workspace / "prices")
    found = store.read("spring", 3)
    first = store.read("spring", 1)
    assert (found.prices, found.expires_at, found.solved_at) == (first.prices, first.expires_at, first.solved_at)
    # The window goes on: money and plan are those of the newest price, which the next solve compares with.
    assert (found.spent, found.remaining, found.plan, found.at, found.requests) == (300, 700, bad.plan, 1.5, 40)
    assert publish().version == 4  # the price of the next slot
    online = open_store(workspace / "features").get_online_features(
        [f"{PRICE_VIEW}:price_version"], [{entity_key("campaign"): "spring"}]
    )
    assert online.to_dict()["price_version"] == [3]


@pytest.mark.parametrize(
    ("version", "change", "words"),
    [
        ("2", {}, "active already"),
        ("7", {}, "no price version 7"),
        ("1", {"model_version": "m2"}, "of model m1, and m2 is active"),
        ("1", {"window": datetime(2026, 3, 1, tzinfo=UTC)}, "of the window from"),
    ],
)
def test_a_price_that_cannot_return_is_refused_in_a_sentence(
    version: str,
    change: dict[str, object],
    words: str,
    workspace: Path,
    publish: Publish,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(**change)
    assert command.main(["price", "rollback", str(workspace), version]) == 1
    told = capsys.readouterr().err
    assert words in told
    assert len(told.splitlines()) == 1
    assert PriceStore(workspace / "prices").versions("spring") == [1, 2]


def test_an_expired_price_is_refused(workspace: Path, publish: Publish, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC)
    publish(solved_at=now - timedelta(hours=3), expires_at=now - timedelta(hours=1))
    publish()
    assert command.main(["price", "rollback", str(workspace), "2"]) == 1
    assert "expired at" in capsys.readouterr().err
    assert command.main(["price", "rollback", str(workspace), "first"]) == 2


def test_the_price_of_a_model_that_the_gate_refused_says_who_took_it(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override = {"reason": "first week of a trial", "by": "Ada"}
    folder = workspace / "models" / "m1"
    folder.mkdir(parents=True)
    gate = {"passed": False, "broken": ["customer: AUC"], "override": override}
    (folder / "model.json").write_text(json.dumps({"model_version": "m1", "gate": gate}))
    assert command.main(["price", "show", str(workspace)]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("the gate refused model m1; taken all the same by Ada: first week of a trial\n")
    assert command.main(["price", "show", str(workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["override"] == override
