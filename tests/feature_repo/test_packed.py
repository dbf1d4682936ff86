"""The contract between Feast's layout in Redis and the reader that does without Feast."""

import asyncio
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import FeatureColumns
from feature_repo.online import OnlineReader, publish_embeddings
from feature_repo.packed import PackedReader
from feature_repo.store import create
from serving.predictor.features import open_reader
from shadowprice.errors import InvalidInput, NotFound, Unavailable

NAMES = ["a0", "a1", "ü" * 100, "with space", "", "nobody", "a" * 256, "45", "\r\n$3"]


async def fetched(reader, *calls):
    """The answers to several calls at once; who was kept is closed."""
    try:
        return await asyncio.gather(*(reader.fetch(*call) for call in calls))
    finally:
        await reader.close()


def frame_of(names, width, model_seed, sides=("customer", "merchant")):
    random = np.random.default_rng(model_seed)
    return pd.DataFrame(
        {
            "account_id": [name for name in names for _ in sides],
            "side": [side for _ in names for side in sides],
            "computed_at": pd.Timestamp("2026-03-02T12:00:00.123457Z")
            + pd.to_timedelta(np.arange(len(names) * len(sides)), unit="us"),
            "embedding": list(random.normal(size=(len(names) * len(sides), width)).astype(np.float32)),
        }
    )


@pytest.mark.parametrize("width", [8, 64, 5000])
def test_it_reads_what_the_sdk_reads_of_what_the_sdk_wrote(redis_server, tmp_path, width):
    """Widths where a length needs one, two and three bytes."""
    columns = FeatureColumns(
        profile={"customer": ("x_age",), "merchant": ("x_age",)},
        embedding_width=width,
        model_versions=("old", "new"),
    )
    store = create(tmp_path / "features", columns, online="redis", project="some_project")
    known = [name for name in NAMES if name != "nobody"]
    publish_embeddings(store, frame_of(known, width, 0), "new", progress=False)
    publish_embeddings(store, frame_of(["a1"], width, 1), "old", progress=False)
    for model in ("new", "old"):
        sdk, packed = OnlineReader(tmp_path / "features", model), PackedReader(tmp_path / "features", model)
        for side in ("customer", "merchant"):
            asked = [*NAMES, "a1", "a0", "a0"]
            expected, found = sdk.embeddings(side, asked), packed.embeddings(side, asked)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
            assert found[0].dtype == expected[0].dtype
            both = asyncio.run(fetched(packed, (side, asked), (side, asked[::-1])))
            for again, order in zip(both, (1, -1), strict=True):
                np.testing.assert_array_equal(again[0], expected[0][::order])
                np.testing.assert_array_equal(again[1], expected[1][::order])
            assert np.isfinite(found[1]).sum() == (len(asked) - 3 if model == "new" else 2)


def test_special_numbers_come_through(redis_server, tmp_path):
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    store = create(tmp_path / "features", columns, online="redis")
    frame = frame_of(["zero", "tiny"], 4, 0, ("customer",))
    frame["embedding"] = [np.zeros(4, np.float32), np.array([1e-45, -0.0, 3.4e38, -1e-38], np.float32)]
    frame["computed_at"] = pd.Timestamp(0, tz="UTC")
    publish_embeddings(store, frame, progress=False)
    matrix, times = PackedReader(tmp_path / "features", "m").embeddings("customer", ["zero", "tiny"])
    np.testing.assert_array_equal(matrix, np.stack(frame["embedding"]))
    assert times.tolist() == [0.0, 0.0]


def test_it_reconnects_and_says_when_it_cannot(redis_server, tmp_path):
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    store = create(tmp_path / "features", columns, online="redis")
    publish_embeddings(store, frame_of(["a"], 4, 0, ("customer",)), progress=False)
    reader = PackedReader(tmp_path / "features", "m")
    assert np.isfinite(reader.embeddings("customer", ["a"])[0]).all()
    redis_server.stop()
    with pytest.raises(Unavailable, match="Redis"):
        reader.embeddings("customer", ["a"])
    redis_server.start()
    assert np.isnan(reader.embeddings("customer", ["a"])[0]).all()


def test_what_is_kept_for_an_event_loop_is_made_again_when_redis_is(redis_server, tmp_path):
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    store = create(tmp_path / "features", columns, online="redis")
    publish_embeddings(store, frame_of(["a"], 4, 0, ("customer",)), progress=False)
    reader = PackedReader(tmp_path / "features", "m")

    async def over_a_restart():
        for _ in range(3):
            assert np.isfinite((await reader.fetch("customer", ["a"]))[0]).all()
        assert len(reader._idle) == 1
        redis_server.stop()
        with pytest.raises(Unavailable, match="Redis"):
            await reader.fetch("customer", ["a"])
        assert reader._idle == []
        redis_server.start()
        assert np.isnan((await reader.fetch("customer", ["a"]))[0]).all()
        redis_server.stop()
        redis_server.start()
        assert np.isnan((await reader.fetch("customer", ["a"]))[0]).all()
        with pytest.raises(InvalidInput, match="merchant"):
            await reader.fetch("merchant", ["a"])
        await reader.close()

    asyncio.run(over_a_restart())


def test_what_it_does_not_understand_is_an_error(redis_server, tmp_path):
    import redis

    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    store = create(tmp_path / "features", columns, online="redis")
    publish_embeddings(store, frame_of(["a"], 4, 0, ("customer",)), progress=False)
    reader = PackedReader(tmp_path / "features", "m")
    with pytest.raises(InvalidInput, match="merchant"):
        reader.embeddings("merchant", ["a"])
    with pytest.raises(NotFound, match="other"):
        PackedReader(tmp_path / "features", "other")
    client = redis.Redis(port=redis_server.port)
    (key,) = client.keys()
    for field, value in client.hgetall(key).items():
        if len(value) > 20:  # the vector
            client.hset(key, field, value[:-4])
    with pytest.raises(Unavailable, match="SDK"):
        reader.embeddings("customer", ["a"])
    client.delete(key)
    client.set(key, "text")
    with pytest.raises(Unavailable, match="WRONGTYPE"):
        reader.embeddings("customer", ["a"])


def test_another_online_store_is_refused(tmp_path):
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    create(tmp_path / "features", columns, online="sqlite")
    with pytest.raises(InvalidInput, match="one Redis"):
        PackedReader(tmp_path / "features", "m")


@pytest.mark.parametrize(("online", "reader"), [("redis", PackedReader), ("sqlite", OnlineReader)])
def test_the_service_reads_by_the_fastest_reader_of_its_store(redis_server, tmp_path, online, reader):
    columns = FeatureColumns(profile={"customer": ("x_age",)}, embedding_width=4, model_versions=("m",))
    create(tmp_path / "features", columns, online=online)
    assert isinstance(open_reader(tmp_path / "features", "m"), reader)
    assert isinstance(open_reader(tmp_path / "features", "m", "sdk"), OnlineReader)


def test_a_predictor_on_redis_starts_without_feast_or_torch():
    # Both take seconds to import, and a predictor that restarts under load shares its processor.
    code = (
        "import serving.predictor.__main__, feature_repo.packed, sys;"
        "sys.exit(' '.join({'feast', 'torch', 'sqlalchemy', 'ray', 'sklearn', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_does_not_import_feast():
    code = "import feature_repo.packed, sys; sys.exit('feast' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0
