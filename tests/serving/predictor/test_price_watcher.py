import shutil
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from serving.predictor.active import ServedModel
from serving.predictor.price_watcher import PriceWatcher
from shadowprice.errors import InvalidInput, NotFound, Unavailable
from shadowprice.pacing.price_store import PriceStore


class Shelf:
    """Models by version; a value that is an error is raised."""

    def __init__(self, *versions):
        self.models = {version: ServedModel(version, {}, None) for version in versions}
        self.asked = []

    def load(self, version):
        self.asked.append(version)
        found = self.models.get(version, NotFound(f"no model {version!r}"))
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def shelf(kit):
    return Shelf(kit.model)


@pytest.fixture
def shown():
    """What was shown as passed over at the last look."""
    return {}


@pytest.fixture
def watched(tmp_path, shelf, shown, kit):
    store = PriceStore(tmp_path)
    swapped, rejected = [], []

    def show(now):
        shown.clear()
        shown.update({kind: count for kind, count in now.items() if count})

    watcher = PriceWatcher(
        store,
        kit.campaign(),
        load_model=shelf.load,
        metrics=SimpleNamespace(
            active_price=lambda record: swapped.append(record.version),
            price_rejected=rejected.append,
            prices_passed_over=show,
        ),
        poll_seconds=0.01,
    )
    return store, watcher, swapped, rejected


def test_the_newest_price_comes_into_force_and_is_announced_once(watched, kit):
    store, watcher, swapped, rejected = watched
    watcher.poll()
    assert watcher.current is None
    for version in (1, 2, 3):
        store.publish(kit.price(version))
    watcher.poll()
    watcher.poll()
    assert watcher.current.price == store.read("spring", 3)
    assert (swapped, rejected) == ([3], [])


def test_a_poisoned_newer_file_is_ignored_and_counted_once(watched, shown, kit, tmp_path):
    store, watcher, _, rejected = watched
    store.publish(kit.price(1))
    watcher.poll()
    text = kit.price(2).to_json().replace('"tie_share": 0.4', '"tie_share": 0.9')
    (tmp_path / "spring" / "0000000002.json").write_text(text)
    (tmp_path / "spring" / "0000000003.json").write_text("not a price")
    watcher.poll()
    watcher.poll()
    assert watcher.current.price.version == 1
    assert (len(rejected), shown) == (2, {"unsound": 2})
    store.publish(kit.price(4))
    watcher.poll()
    assert (watcher.current.price.version, len(rejected), shown) == (4, 2, {})


@pytest.mark.parametrize("forged", [{"price": -0.01}, {"status": "infeasible"}, {"gap": 0.5}])
def test_a_sealed_record_that_breaks_the_campaigns_rules_does_not_decide(watched, shown, kit, tmp_path, forged):
    """Only the watcher stands between it and the decisions: whoever can write a file can seal it."""
    store, watcher, _, rejected = watched
    store.publish(kit.price(1))
    store.publish(kit.price(2, **forged))
    watcher.poll()
    assert (watcher.current.price.version, rejected, shown) == (1, ["unsound"], {"unsound": 1})


def test_prices_of_earlier_windows_do_not_decide_and_are_no_alarm(watched, shown, kit, caplog):
    store, watcher, _, rejected = watched
    starts = kit.campaign().starts_at
    for version in (1, 2):
        store.publish(kit.price(version, window=starts - timedelta(days=1)))
    watcher.poll()
    watcher.poll()
    assert watcher.current is None
    assert (rejected, shown) == ([], {})
    assert [each.message for each in caplog.records] == [
        f"price store: version 2 is of an earlier window than that from {starts.isoformat()}, "
        "which has no price yet; solve one"
    ]
    store.publish(kit.price(3, window=starts))
    watcher.poll()
    assert watcher.current.price.version == 3


def test_who_starts_on_a_damaged_store_takes_the_newest_whole_pair_and_shows_what_is_wrong(
    watched, shelf, shown, kit, tmp_path
):
    store, watcher, swapped, rejected = watched
    shelf.models["whole"] = ServedModel("whole", {}, None)
    store.publish(kit.price(1))
    store.publish(kit.price(2, model_version="whole"))
    store.publish(kit.price(3, model_version="gone"))
    (tmp_path / "spring" / "0000000004.json").write_text("")
    (tmp_path / "spring" / "4.json").write_text("")
    watcher.poll()
    assert (watcher.current.price.version, watcher.current.model.version) == (2, "whole")
    assert (swapped, rejected, shown) == ([2], ["unsound", "model"], {"unsound": 2, "model": 1})


def test_an_older_price_under_a_newer_name_is_a_rollback_and_ignored(watched, kit, tmp_path):
    store, watcher, _, rejected = watched
    for version in (1, 2):
        store.publish(kit.price(version))
    watcher.poll()
    shutil.copy(tmp_path / "spring" / "0000000001.json", tmp_path / "spring" / "0000000003.json")
    watcher.poll()
    assert (watcher.current.price.version, len(rejected)) == (2, 1)


def test_a_store_that_loses_its_newest_price_changes_nothing(watched, kit, tmp_path):
    store, watcher, swapped, rejected = watched
    for version in (1, 2):
        store.publish(kit.price(version))
    watcher.poll()
    (tmp_path / "spring" / "0000000002.json").unlink()
    watcher.poll()
    watcher.poll()
    assert (watcher.current.price.version, swapped, len(rejected)) == (2, [2], 1)


def test_a_price_without_the_campaigns_budget_or_of_another_campaign_is_rejected(watched, kit, tmp_path):
    _, watcher, swapped, rejected = watched
    folder = tmp_path / "spring"
    folder.mkdir()
    (folder / "0000000001.json").write_text(kit.price(1, campaign="autumn").to_json())
    (folder / "0000000002.json").write_text(kit.price(2, prices={"other": 0.1}).to_json())
    watcher.poll()
    assert (watcher.current, swapped, len(rejected)) == (None, [], 2)


def test_a_stray_file_does_not_stop_the_watcher(watched, kit, tmp_path):
    store, watcher, _, _ = watched
    store.publish(kit.price(1))
    watcher.poll()
    (tmp_path / "spring" / "notes.json").write_text("{}")
    watcher.poll()
    assert watcher.current.price.version == 1
    (tmp_path / "spring" / "notes.json").unlink()
    store.publish(kit.price(2))
    watcher.poll()
    assert watcher.current.price.version == 2


def test_the_watching_thread_finds_prices_and_stops(watched, kit):
    store, watcher, swapped, _ = watched
    watcher.start()
    store.publish(kit.price(1))
    for _ in range(500):
        if swapped:
            break
        time.sleep(0.01)
    watcher.stop()
    store.publish(kit.price(2))
    time.sleep(0.05)
    assert swapped == [1]


def test_a_new_model_comes_into_force_with_its_first_price_and_both_at_once(watched, shelf, kit):
    store, watcher, swapped, _ = watched
    store.publish(kit.price(1))
    watcher.poll()
    before = watcher.current
    shelf.models["new"] = ServedModel("new", {}, None)
    watcher.poll()
    assert watcher.current is before  # registered, and no price of it yet
    store.publish(kit.price(2, model_version="new"))
    watcher.poll()
    assert (watcher.current.price.version, watcher.current.model.version) == (2, "new")
    assert (before.price.version, before.model.version) == (1, kit.model)
    store.publish(kit.price(3, model_version="new"))
    watcher.poll()
    assert (watcher.current.price.version, swapped) == (3, [1, 2, 3])
    assert shelf.asked == [kit.model, "new"]


@pytest.mark.parametrize("error", [NotFound("none"), InvalidInput("was changed", field="heads.safetensors")])
def test_a_price_whose_model_may_not_be_used_is_refused_once_until_it_may(watched, shelf, kit, error):
    store, watcher, _, rejected = watched
    store.publish(kit.price(1))
    watcher.poll()
    before = watcher.current
    shelf.models["other"] = error
    store.publish(kit.price(2, model_version="other"))
    watcher.poll()
    watcher.poll()
    assert watcher.current is before
    assert rejected == ["model"]
    store.publish(kit.price(3))  # of the model in force, and later than the one refused
    watcher.poll()
    assert (watcher.current.price.version, watcher.current.model) == (3, before.model)
    shelf.models["other"] = ServedModel("other", {}, None)
    store.publish(kit.price(4, model_version="other"))
    watcher.poll()
    assert watcher.current.model.version == "other"


def test_a_model_that_cannot_be_read_now_is_asked_for_again(watched, shelf, kit):
    store, watcher, _, rejected = watched
    shelf.models["slow"] = Unavailable("the feature store does not answer")
    store.publish(kit.price(1, model_version="slow"))
    watcher.poll()
    assert (watcher.current, rejected) == (None, [])
    shelf.models["slow"] = ServedModel("slow", {}, None)
    watcher.poll()
    assert watcher.current.model.version == "slow"


def test_kinds_of_rejection_are_told_apart(watched, kit, tmp_path):
    store, watcher, _, rejected = watched
    for version in (1, 2):
        store.publish(kit.price(version))
    (tmp_path / "spring" / "0000000003.json").write_text("{}")
    watcher.poll()
    for name in ("0000000002.json", "0000000003.json"):
        (tmp_path / "spring" / name).unlink()
    watcher.poll()
    assert rejected == ["unsound", "older"]
