import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from feature_repo.columns import Profiles
from serving.predictor import features as module
from serving.predictor.features import Features, open_reader
from serving.predictor.recent import Recent
from shadowprice.errors import NotFound, Unavailable


def test_embeddings_come_from_the_online_store_and_the_default_fills_the_gaps(kit, tmp_path):
    frame = kit.embeddings()
    folder = kit.write_features(frame, tmp_path / "features")
    default = {side: head.default_embedding for side, head in kit.heads().items()}
    features = Features(open_reader(folder, kit.model), default)

    read = features.read("merchant", ["m3", "nobody", "m7", "m3", "c3"])
    stored = frame.set_index(["side", "account_id"])
    np.testing.assert_array_equal(read.matrix[0], stored.loc[("merchant", "m3"), "embedding"])
    np.testing.assert_array_equal(read.matrix[2], stored.loc[("merchant", "m7"), "embedding"])
    np.testing.assert_array_equal(read.matrix[3], read.matrix[0])
    np.testing.assert_array_equal(read.matrix[1], default["merchant"])
    assert read.known.tolist() == [True, False, True, True, False]
    assert read.computed_at[0] == pytest.approx(stored.loc[("merchant", "m3"), "computed_at"].timestamp(), abs=1e-3)
    assert np.isnan(read.computed_at[1])
    assert not read.failed


def test_a_store_that_is_not_there_or_does_not_know_the_model_says_so(kit, tmp_path):
    with pytest.raises(Unavailable, match="`shadowprice job featurize` makes it"):
        open_reader(tmp_path, kit.model)
    folder = kit.write_features(kit.embeddings(), tmp_path / "features")
    with pytest.raises(NotFound, match="another-model"):
        open_reader(folder, "another-model")


class Counted:
    """Every account has its number as embedding, computed at its number; counts who is asked for."""

    def __init__(self):
        self.asked = []
        self.down = False

    def embeddings(self, side, account_ids):
        if self.down:
            raise OSError("no route to the store")
        self.asked += account_ids
        numbers = np.array([float(name) if name.isdigit() else np.nan for name in account_ids])
        return np.repeat(numbers[:, None], 2, axis=1).astype(np.float32), numbers


DEFAULT = {"customer": np.array([-1.0, -2.0], np.float32), "merchant": np.zeros(2, np.float32)}


def test_what_was_read_is_remembered_for_its_time_by_side_and_what_is_unknown_is_not():
    now, reader = [1000.0], Counted()
    features = Features(reader, DEFAULT, cache_seconds=5, clock=lambda: now[0])
    names = ["3", "nobody", "4"]
    first = features.read("customer", names)
    now[0] += 4.9
    reader.down = True
    again = features.read("customer", names)
    np.testing.assert_array_equal(again.matrix, first.matrix)
    np.testing.assert_array_equal(again.computed_at, first.computed_at)
    assert again.failed  # somebody had to be asked for
    assert not features.read("customer", ["4", "3"]).failed
    reader.down = False
    features.read("merchant", ["3"])
    now[0] += 0.2
    features.read("customer", names)
    assert reader.asked == ["3", "nobody", "4", "3", "3", "nobody", "4"]


def test_an_embedding_past_its_age_is_unknown_remembered_or_not():
    now, reader = [100.0], Counted()
    features = Features(reader, DEFAULT, cache_seconds=1000, max_age_seconds=50, clock=lambda: now[0])
    read = features.read("customer", ["49", "50", "99"])
    assert read.known.tolist() == [False, True, True]
    np.testing.assert_array_equal(read.matrix, [[-1, -2], [50, 50], [99, 99]])
    assert np.isnan(read.computed_at[0])
    now[0] = 149.5
    assert features.read("customer", ["50", "99"]).known.tolist() == [False, False]


def test_the_memory_is_bounded():
    memory = Recent(seconds=10, size=100)
    for number in range(1000):
        memory.put(number, number, 0.0)
    assert sum(memory.get(number, 1.0) is not None for number in range(1000)) == 200
    assert [memory.get(number, 1.0) for number in (899, 900, 999)] == [899, 900, 999]
    assert memory.get(999, 10.0) is None


def test_what_was_put_while_the_clock_was_ahead_is_read_again_and_remembered_anew():
    now, reader = [4 * 86_400.0], Counted()
    features = Features(reader, DEFAULT, cache_seconds=5, clock=lambda: now[0])
    features.read("customer", ["50"])
    asked = []
    for now[0] in (100.0, 104.0, 106.0):
        features.read("customer", ["50"])
        asked.append(len(reader.asked))
    assert asked == [2, 2, 3]


class OnLoop(Counted):
    """Reader for an event loop, which tells the thread it ran on.

    An account p<age> has a profile with that age, taken at its age, and no embedding.
    """

    hangs = False

    def __init__(self):
        super().__init__()
        self.reads, self.lost = [], False

    async def fetch(self, side, account_ids):
        self.thread = threading.current_thread()
        if self.hangs:
            await asyncio.sleep(60)
        return self.embeddings(side, account_ids)

    def profiles(self, side, account_ids, names):
        if self.lost:
            raise OSError("no route to the store")
        self.reads.append((side, list(account_ids), names))
        ages = [float(name[1:]) if name[0] == "p" else None for name in account_ids]
        return Profiles({"x_age": ages}, np.array([np.nan if age is None else age for age in ages]))

    async def fetch_profiles(self, side, account_ids, names):
        return self.profiles(side, account_ids, names)


class OnThread(Counted):
    hangs = False

    def embeddings(self, side, account_ids):
        self.thread = threading.current_thread()
        if self.hangs:
            self.hangs.wait(60)
        return super().embeddings(side, account_ids)


@pytest.mark.parametrize(("kind", "on_loop"), [(OnLoop, True), (OnThread, False)])
def test_on_an_event_loop_only_a_store_that_cannot_be_awaited_is_read_on_a_thread(kind, on_loop):
    reader = kind()
    features = Features(reader, DEFAULT, cache_seconds=5, clock=lambda: 1000.0)
    names = ["3", "nobody", "4", "3"]
    fetched = asyncio.run(features.fetch("customer", names))
    assert (reader.thread is threading.main_thread()) == on_loop
    read = Features(Counted(), DEFAULT, clock=lambda: 1000.0).read("customer", names)
    for name in ("matrix", "known", "computed_at", "failed"):
        np.testing.assert_array_equal(getattr(fetched, name), getattr(read, name))
    reader.down = True
    assert not asyncio.run(features.fetch("customer", ["4", "3"])).failed
    failed = asyncio.run(features.fetch("customer", ["4", "5"]))
    assert failed.failed
    np.testing.assert_array_equal(failed.matrix, [[4, 4], [-1, -2]])


@pytest.mark.parametrize(("kind", "hang"), [(OnLoop, True), (OnThread, threading.Event())])
def test_a_store_that_hangs_is_given_up(kind, hang, monkeypatch):
    monkeypatch.setattr(module, "STORE_SECONDS", 0.05)
    reader = kind()
    reader.hangs = hang

    async def fetch():
        try:
            return await Features(reader, DEFAULT).fetch("customer", ["3"])
        finally:
            if hang is not True:
                hang.set()

    given_up = asyncio.run(asyncio.wait_for(fetch(), 30))
    assert given_up.failed
    assert given_up.matrix.tolist() == [[-1, -2]]


COLD = {
    "customer": SimpleNamespace(
        reads=("x_age",),
        stored=lambda _, columns, n: np.array(
            [[age or 0, 2 * (age or 0)] for age in columns["x_age"]], np.float32
        ).reshape(n, 2),
    )
}


@pytest.mark.parametrize("wait", [True, False])
def test_an_account_without_an_embedding_is_encoded_from_its_own_features_at_the_cost_of_a_second_read(wait):
    reader = OnLoop()
    features = Features(reader, DEFAULT, COLD, max_age_seconds=50, clock=lambda: 100.0)

    def ask(side, names):
        return asyncio.run(features.fetch(side, names)) if wait else features.read(side, names)

    read = ask("customer", ["p70", "99", "nobody", "49", "p70", "p40"])
    np.testing.assert_array_equal(read.matrix, [[70, 140], [99, 99], [-1, -2], [-1, -2], [70, 140], [-1, -2]])
    assert read.known.tolist() == [False, True, False, False, False, False]
    assert read.informed.tolist() == [True, True, False, False, True, False]
    np.testing.assert_array_equal(read.computed_at, [70, 99, np.nan, np.nan, 70, np.nan])
    assert reader.reads == [("customer", ["p70", "nobody", "49", "p40"], ("x_age",))]
    assert ask("customer", ["p999"]).computed_at.tolist() == [100]
    reader.reads.pop()
    assert ask("customer", ["99", "98"]).known.all()
    assert not ask("merchant", ["p70"]).informed.any()
    assert len(reader.reads) == 1
    reader.lost = True
    lost = ask("customer", ["p70", "99"])
    assert (lost.matrix.tolist(), lost.known.tolist(), lost.failed) == ([[-1, -2], [99, 99]], [False, True], True)
    reader.down = True
    assert ask("customer", ["p70"]).failed
