"""What is published is what is read: on sqlite and on a real Redis."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import FeatureColumns
from feature_repo.names import REDIS_VARIABLE, embedding_view, entity_key, model_field, vector_field
from feature_repo.offline import write_profiles
from feature_repo.online import OnlineReader, publish_embeddings, publish_price, read_price
from feature_repo.online.profiles import publish_profiles
from feature_repo.store import create
from shadowprice.campaign import SIDES
from shadowprice.errors import Conflict, InvalidInput, NotFound, PriceRejected, Unavailable
from shadowprice.price import PriceRecord

MakeStore = Callable[[FeatureColumns], Any]


def price(version: int = 1, **changes: Any) -> PriceRecord:
    solved_at = datetime(2026, 3, 2, 12, 0, 0, 123457, tzinfo=UTC) + timedelta(hours=version)
    record = PriceRecord(
        campaign="spring",
        version=version,
        slot=version,
        prices={"day": 0.1 + version, "fixed": 1},
        tie_share=0.25,
        status="optimal",
        primal=3,  # an integer stays one, or the checksum would change
        dual=3.0000000000000004,
        gap=1e-16,
        violation=-0.0,
        spent=10**15 + 1,
        remaining=7,
        sample_rows=100,
        model_version="v1",
        solved_at=solved_at,
        expires_at=solved_at + timedelta(hours=2),
    )
    return replace(record, **changes).sealed()


def seconds(times: pd.Series) -> np.ndarray:
    return np.array([time.timestamp() for time in times])


def test_what_is_read_is_what_was_published(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    assert publish_embeddings(store, embeddings, batch=7, progress=False) == len(embeddings)
    reader = OnlineReader(store.repo_path)
    for side in ("customer", "merchant"):
        own = embeddings[embeddings["side"] == side].sample(frac=1, random_state=0)
        matrix, computed_at = reader.embeddings(side, own["account_id"].tolist())  # type: ignore[arg-type]
        assert matrix.dtype == np.float32
        np.testing.assert_array_equal(matrix, np.stack(own["embedding"].tolist()))
        # A float64 holds this second of the epoch to a quarter of a microsecond.
        np.testing.assert_allclose(computed_at, seconds(own["computed_at"]), rtol=0, atol=3e-7)


def test_unknown_accounts_are_rows_of_nan_between_the_known_ones(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    publish_embeddings(store, embeddings, progress=False)
    matrix, computed_at = OnlineReader(store.repo_path).embeddings("customer", ["a3", "who", "a1", "a3", "a59", ""])
    known = [True, False, True, True, False, False]  # a59 is a merchant only
    assert np.isfinite(matrix).all(axis=1).tolist() == known
    assert np.isnan(matrix).all(axis=1).tolist() == [not row for row in known]
    assert np.isfinite(computed_at).tolist() == known
    np.testing.assert_array_equal(matrix[0], embeddings["embedding"][3])
    np.testing.assert_array_equal(matrix[3], matrix[0])


def test_no_accounts_give_empty_arrays(make_store: MakeStore, columns: FeatureColumns) -> None:
    matrix, computed_at = OnlineReader(make_store(columns).repo_path).embeddings("customer", [])
    assert matrix.shape == (0, columns.embedding_width)
    assert computed_at.shape == (0,)


def test_more_accounts_than_one_read_takes_come_back_in_order(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns)
    publish_embeddings(store, embeddings, progress=False)
    asked = [f"stranger{k}" for k in range(10_005)]
    asked[0], asked[10_001] = "a1", "a2"
    matrix, _ = OnlineReader(tmp_path).embeddings("customer", asked)
    assert np.flatnonzero(np.isfinite(matrix[:, 0])).tolist() == [0, 10_001]
    np.testing.assert_array_equal(matrix[10_001], embeddings["embedding"][2])


def test_publishing_again_writes_nothing_and_a_rest_is_resumed(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    half = embeddings.iloc[::2]
    assert publish_embeddings(store, half, progress=False) == len(half)
    assert publish_embeddings(store, embeddings, progress=False) == len(embeddings) - len(half)
    assert publish_embeddings(store, embeddings, progress=False) == 0


def test_only_accounts_whose_numbers_changed_are_written(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    assert publish_embeddings(store, embeddings, batch=7, progress=False) == len(embeddings)
    again = embeddings.assign(computed_at=embeddings["computed_at"] + pd.Timedelta(days=1))
    assert publish_embeddings(store, again, batch=7, progress=False) == 0
    one = again.copy()
    one.at[3, "embedding"] = np.nextafter(one.at[3, "embedding"], np.float32(9), dtype=np.float32)
    assert publish_embeddings(store, one, batch=7, progress=False) == 1
    assert publish_embeddings(store, one, batch=7, progress=False) == 0
    names = ["a2", "a3"]
    matrix, computed_at = OnlineReader(store.repo_path).embeddings("customer", names)
    np.testing.assert_array_equal(matrix, np.stack(one["embedding"][2:4].tolist()))
    # The account whose numbers stayed keeps the time when they were computed.
    times = [embeddings["computed_at"][2], one["computed_at"][3]]
    np.testing.assert_allclose(computed_at, seconds(pd.Series(times)), rtol=0, atol=3e-7)
    # Feast's own SDK answers the same.
    fields = [vector_field("customer"), model_field("customer")]
    references = [f"{embedding_view('customer')}:{name}" for name in fields]
    asked = [{entity_key("customer"): name} for name in names]
    answer = store.get_online_features(features=references, entity_rows=asked).to_dict()
    np.testing.assert_array_equal(np.array(answer[vector_field("customer")], dtype=np.float32), matrix)
    assert answer[model_field("customer")] == ["v1", "v1"]


def test_an_earlier_embedding_of_the_same_model_does_not_replace_a_later_one(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    publish_embeddings(store, embeddings, progress=False)
    earlier = embeddings.assign(
        computed_at=embeddings["computed_at"] - pd.Timedelta(days=1), embedding=[-v for v in embeddings["embedding"]]
    )
    assert publish_embeddings(store, earlier, progress=False) == 0
    later = earlier.assign(computed_at=embeddings["computed_at"] + pd.Timedelta(microseconds=1))
    assert publish_embeddings(store, later, progress=False) == len(later)
    matrix, _ = OnlineReader(store.repo_path).embeddings("customer", ["a0"])
    np.testing.assert_array_equal(matrix[0], -embeddings["embedding"][0])


def test_embeddings_of_another_model_count_as_unknown_and_a_model_can_be_rolled_back(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns.with_model("v2"))
    publish_embeddings(store, embeddings, "v1", progress=False)
    later = embeddings.assign(
        computed_at=embeddings["computed_at"] + pd.Timedelta(days=1), embedding=[-v for v in embeddings["embedding"]]
    )
    publish_embeddings(store, later.iloc[:10], "v2", progress=False)
    names = [f"a{k}" for k in range(20)]
    readers = {version: OnlineReader(store.repo_path, version) for version in ("v1", "v2")}

    def known(version: str) -> list[bool]:
        return np.isfinite(readers[version].embeddings("customer", names)[0]).all(axis=1).tolist()

    assert known("v1") == [False] * 10 + [True] * 10
    assert known("v2") == [True] * 10 + [False] * 10
    assert OnlineReader(store.repo_path).model_version == "v2"
    assert publish_embeddings(store, embeddings, "v1", progress=False) == 10
    assert known("v1") == [True] * 20
    np.testing.assert_array_equal(readers["v1"].embeddings("customer", ["a0"])[0][0], embeddings["embedding"][0])


def test_threads_that_share_a_reader_each_get_their_own_accounts(
    make_store: MakeStore, columns: FeatureColumns, embeddings: pd.DataFrame
) -> None:
    store = make_store(columns)
    publish_embeddings(store, embeddings, progress=False)
    publish_price(store, price())
    reader = OnlineReader(store.repo_path)
    vectors = embeddings["embedding"].iloc[:50].tolist()
    start = threading.Barrier(8)

    def work(seed: int) -> int:
        random = np.random.default_rng(seed)
        start.wait()
        for _ in range(40):
            rows = random.integers(0, 50, random.integers(1, 6))
            matrix, _ = reader.embeddings("customer", [f"a{k}" for k in rows])
            np.testing.assert_array_equal(matrix, [vectors[k] for k in rows])
        return seed

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone of the process for one test."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_times_are_utc_whatever_the_zones_of_the_writer_and_the_reader(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("Asia/Tokyo")
    publish_embeddings(create(tmp_path, columns), embeddings, progress=False)
    zone("America/New_York")
    _, computed_at = OnlineReader(tmp_path).embeddings("customer", ["a0"])
    assert computed_at[0] == pytest.approx(embeddings["computed_at"][0].timestamp(), abs=3e-7)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"side": "rider"}, "embeddings.side"),
        ({"account_id": "a0"}, "embeddings.account_id"),
        ({"account_id": None}, "embeddings.account_id"),
        ({"computed_at": pd.Timestamp("2026-03-02")}, "embeddings.computed_at"),
        ({"embedding": [np.zeros(7)] * 70}, "embeddings.embedding"),
        ({"embedding": [np.full(8, np.nan)] * 70}, "embeddings.embedding"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_by_column_and_nothing_is_written(
    changes: dict[str, Any], field: str, columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns)
    with pytest.raises(InvalidInput) as caught:
        publish_embeddings(store, embeddings.assign(**changes), progress=False)
    assert caught.value.field == field
    matrix, _ = OnlineReader(tmp_path).embeddings("customer", ["a0"])
    assert np.isnan(matrix).all()


def test_a_table_in_parts_is_published_as_the_whole_one(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    parts = [embeddings.iloc[start : start + 11] for start in range(0, len(embeddings), 11)]
    for folder, frames in (("whole", embeddings), ("parts", iter(parts))):
        store = create(tmp_path / folder, columns)
        assert publish_embeddings(store, frames, batch=7, progress=False) == len(embeddings)
    for side, own in embeddings.groupby("side"):
        name = f"{side}_embedding.parquet"
        whole, parted = (pd.read_parquet(tmp_path / folder / name) for folder in ("whole", "parts"))
        pd.testing.assert_frame_equal(whole, parted)
        matrix, _ = OnlineReader(tmp_path / "parts").embeddings(side, own["account_id"].tolist())
        np.testing.assert_array_equal(matrix, np.stack(own["embedding"]))


def test_an_account_that_two_parts_hold_is_refused_and_nothing_is_written(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns)
    with pytest.raises(InvalidInput, match=r"customer repeats \['a3'\]"):
        publish_embeddings(store, [embeddings, embeddings.iloc[3:4]], progress=False)
    assert not (tmp_path / "customer_embedding.parquet").exists()
    assert np.isnan(OnlineReader(tmp_path).embeddings("customer", ["a0"])[0]).all()


def test_a_model_that_is_not_registered_is_neither_published_nor_read(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns)
    with pytest.raises(NotFound, match="'v9' is not registered"):
        publish_embeddings(store, embeddings, "v9", progress=False)
    with pytest.raises(NotFound, match="'v9' is not registered"):
        OnlineReader(tmp_path, "v9")


def test_the_price_read_is_the_record_that_was_published(make_store: MakeStore, columns: FeatureColumns) -> None:
    store = make_store(columns)
    assert read_price(store, "spring") is None
    publish_price(store, price())
    assert read_price(store, "spring") == price()
    assert read_price(store, "summer") is None


def test_the_price_never_goes_back(make_store: MakeStore, columns: FeatureColumns) -> None:
    store = make_store(columns)
    publish_price(store, price(2))
    publish_price(store, price(2))
    with pytest.raises(Conflict, match="version 2 is already published"):
        publish_price(store, price(1))
    with pytest.raises(Conflict):
        publish_price(store, price(2, tie_share=0.5))
    with pytest.raises(PriceRejected):
        publish_price(store, replace(price(3), tie_share=0.5))
    assert read_price(store, "spring") == price(2)
    publish_price(store, price(3))
    assert read_price(store, "spring") == price(3)
    history = pd.read_parquet(Path(store.repo_path) / "campaign_price.parquet")
    assert history["price_version"].tolist() == [2, 3]


def test_a_price_that_was_tampered_with_is_rejected(columns: FeatureColumns, tmp_path: Path) -> None:
    store = create(tmp_path, columns)
    publish_price(store, price())
    forged = replace(price(), tie_share=1.0).to_json()
    columns_of_row = {"campaign_id": "spring", "event_timestamp": pd.Timestamp.now("UTC"), "price_record": forged}
    row = pd.read_parquet(tmp_path / "campaign_price.parquet").assign(**columns_of_row)
    store.write_to_online_store("campaign_price", row)
    with pytest.raises(PriceRejected, match="checksum"):
        read_price(store, "spring")


def test_feast_can_fill_a_lost_online_store_from_the_offline_files(
    columns: FeatureColumns, account: pd.DataFrame, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns)
    write_profiles(store, account)
    publish_profiles(store, progress=False)
    publish_embeddings(store, embeddings[embeddings["side"] == "customer"], progress=False)
    publish_price(store, price())
    before = OnlineReader(tmp_path).profiles("customer", ["a0", "a3"], ["x_spend", "c_city"])
    with sqlite3.connect(tmp_path / "online.db") as connection:
        for view in (*(f"{side}_{kind}" for side in SIDES for kind in ("account", "embedding")), "campaign_price"):
            connection.execute(f"DELETE FROM shadowprice_{view}")
    reader = OnlineReader(tmp_path)
    assert np.isnan(reader.embeddings("customer", ["a0"])[0]).all()
    assert np.isnan(reader.profiles("customer", ["a0"], ["x_spend"]).snapshot_at).all()
    store.materialize(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC))
    np.testing.assert_array_equal(reader.embeddings("customer", ["a0"])[0][0], embeddings["embedding"][0])
    assert read_price(store, "spring") == price()
    after = reader.profiles("customer", ["a0", "a3"], ["x_spend", "c_city"])
    assert after.columns == before.columns
    np.testing.assert_array_equal(after.snapshot_at, before.snapshot_at)


def test_a_missing_or_damaged_store_is_unavailable(
    columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable):
        OnlineReader(tmp_path / "nowhere")
    store = create(tmp_path, columns)
    reader = OnlineReader(tmp_path)
    with sqlite3.connect(tmp_path / "online.db") as connection:
        connection.execute("DROP TABLE shadowprice_customer_embedding")
    with pytest.raises(Unavailable, match="cannot be read"):
        reader.embeddings("customer", ["a0"])
    (tmp_path / "online.db").unlink()
    for act in (lambda: OnlineReader(tmp_path), lambda: publish_embeddings(store, embeddings, progress=False)):
        with pytest.raises(Unavailable, match=r"online\.db: is missing"):
            act()
    assert not (tmp_path / "online.db").exists()


def test_a_redis_that_stops_answering_is_unavailable_at_once_and_until_it_is_back(
    redis_server: Any, columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    store = create(tmp_path, columns, online="redis")
    publish_embeddings(store, embeddings, progress=False)
    reader = OnlineReader(tmp_path)
    redis_server.stop()
    before = time.monotonic()
    with pytest.raises(Unavailable, match="cannot be read"):
        reader.embeddings("customer", ["a0"])
    assert time.monotonic() - before < 1.0
    with pytest.raises(Unavailable):
        publish_price(store, price())
    with pytest.raises(Unavailable):
        OnlineReader(tmp_path)
    redis_server.start()
    assert publish_embeddings(store, embeddings, progress=False) == len(embeddings)
    np.testing.assert_array_equal(reader.embeddings("customer", ["a0"])[0][0], embeddings["embedding"][0])


def test_projects_that_share_a_redis_do_not_see_each_other(
    redis_server: Any, columns: FeatureColumns, embeddings: pd.DataFrame, tmp_path: Path
) -> None:
    publish_embeddings(create(tmp_path / "a", columns, "redis", "one"), embeddings, progress=False)
    create(tmp_path / "b", columns, "redis", "two")
    matrix, _ = OnlineReader(tmp_path / "b").embeddings("customer", ["a0"])
    assert np.isnan(matrix).all()
    assert os.environ[REDIS_VARIABLE] == redis_server.address
