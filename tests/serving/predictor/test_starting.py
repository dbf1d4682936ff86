"""Starting while the newest model or price is damaged."""

import os

import pytest

from serving.predictor.starting import check_models
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.price_store import PriceStore


@pytest.fixture
def run(kit, tmp_path):
    """A run with models ``old`` and ``new``; the link leads to the second."""
    for name in ("old", "new"):
        kit.write_model(kit.heads(), tmp_path / "models" / name, version=name)
    (tmp_path / "model").symlink_to("models/new")
    return tmp_path


def damage(run, name):
    path = run / "models" / name / "heads.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def check(run, kit):
    check_models(run / "model", kit.campaign(), PriceStore(run / "prices"))


def test_a_whole_newest_model_needs_no_price(run, kit, caplog):
    check(run, kit)
    assert caplog.text == ""


def test_a_damaged_newest_model_is_passed_over_where_a_price_names_a_whole_one(run, kit, caplog):
    prices = PriceStore(run / "prices")
    damage(run, "new")
    with pytest.raises(InvalidInput, match=r"model/heads\.safetensors"):
        check(run, kit)
    for version, model in enumerate(("old", "new", "gone"), start=1):
        prices.publish(kit.price(version, model_version=model))
    (run / "prices" / "spring" / "0000000004.json").write_text("not a price")
    check(run, kit)
    assert "model/heads.safetensors" in caplog.text
    assert "price version 1 has model old" in caplog.text
    damage(run, "old")
    with pytest.raises(InvalidInput, match=r"model/heads\.safetensors"):
        check(run, kit)


@pytest.mark.timeout(30)
def test_pipes_devices_and_nests_of_brackets_among_prices_and_models_do_not_stop_the_start(run, kit):
    prices = PriceStore(run / "prices")
    prices.publish(kit.price(1, model_version="old"))
    folder = run / "prices" / "spring"
    os.mkfifo(folder / "0000000002.json")
    (folder / "0000000003.json").symlink_to("/dev/zero")
    (folder / "9999999999.json").write_text("{}")
    (run / "models" / "new" / "model.json").write_text("[" * 100_000)
    check(run, kit)
    (run / "models" / "new" / "model.json").unlink()
    os.mkfifo(run / "models" / "new" / "model.json")
    check(run, kit)


def test_without_any_model_it_says_so(kit, tmp_path):
    with pytest.raises((InvalidInput, NotFound), match="model"):
        check(tmp_path, kit)
