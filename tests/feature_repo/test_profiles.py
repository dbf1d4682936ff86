"""The newest features of every account are in the online store, and each reader reads what was written."""

import asyncio
import json

import numpy as np
import pandas as pd
import pytest

from feature_repo.columns import describe
from feature_repo.offline import write_interactions, write_profiles
from feature_repo.online import OnlineReader
from feature_repo.online import publish as module
from feature_repo.online.profiles import publish_profiles
from feature_repo.packed import PackedReader
from shadowprice.errors import InvalidInput, Unavailable

WEEK = pd.Timedelta(days=7)


@pytest.fixture
def interactions(account):
    """Counts of most accounts at both snapshots."""
    rows = account.loc[account["account_id"] != "a4", ["account_id", "side", "snapshot_ts"]]
    return rows.assign(h_events=np.arange(len(rows), dtype=float), h_amount=np.where(rows.index % 3, 2.5, np.nan))


@pytest.fixture
def filled(make_store, account, interactions):
    """A store with its sources, whose newest city of a1 is not known."""
    account.loc[(account["account_id"] == "a1"), "c_city"] = None
    account.loc[(account["account_id"] == "a2"), "x_spend"] = np.nan
    store = make_store(describe(account, interactions, embedding_width=8, model_versions=["v1"]))
    write_profiles(store, account)
    write_interactions(store, interactions)
    return store


def newest(account, interactions, side):
    rows = account.merge(interactions, on=["account_id", "side", "snapshot_ts"], how="left")
    return rows[rows["side"] == side].sort_values("snapshot_ts").groupby("account_id").tail(1).set_index("account_id")


def same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one is None or one != one) if pd.isna(other) else one == other


def test_feast_and_the_readers_read_the_newest_rows_identically(filled, account, interactions, tmp_path, request):
    assert publish_profiles(filled, batch=2, progress=False) == 8
    for side, names in (
        ("customer", ["x_spend", "x_share_y", "c_city", "h_events", "h_amount", "x_gone"]),
        ("merchant", ["x_share_y", "c_city", "h_events", "h_amount"]),
    ):
        rows = newest(account, interactions, side)
        who = [*rows.index, "nobody", rows.index[0]]
        expected = rows.reindex(who)
        feast = filled.get_online_features(
            features=[f"{side}_account:{side}_account_columns"], entity_rows={f"{side}_id": who}
        ).to_dict()
        held = [json.loads(text or "{}") for text in feast[f"{side}_account_columns"]]
        readers = [OnlineReader(tmp_path / "features", "v1")]
        if filled.config.online_store.type == "redis":
            readers.append(PackedReader(tmp_path / "features", "v1"))
        for reader in readers:
            found = [reader.profiles(side, who, names)]
            if isinstance(reader, PackedReader):
                found.append(asyncio.run(fetched(reader, side, who, names)))
            for each in found:
                np.testing.assert_array_equal(
                    each.snapshot_at, [at.timestamp() // 1 if at == at else np.nan for at in expected["snapshot_ts"]]
                )
                assert list(each.columns) == names
                for name in names:
                    same(each.columns[name], expected[name] if name in expected else [None] * len(who))
                    same(each.columns[name], [columns.get(name) for columns in held])
            with pytest.raises(InvalidInput, match="dealer"):
                reader.profiles("dealer", who, names)


async def fetched(reader, *asked):
    try:
        return await reader.fetch_profiles(*asked)
    finally:
        await reader.close()


def test_only_what_changed_is_written_and_nothing_later_is_replaced(filled, account, interactions, tmp_path):
    publish_profiles(filled, progress=False)
    assert publish_profiles(filled, progress=False) == 0
    changed = account.copy()
    changed.loc[(changed["account_id"] == "a0"), "x_spend"] = 40.0
    write_profiles(filled, changed)
    counted = interactions.copy()
    counted.loc[counted["account_id"] == "m1", "h_events"] = 50.0
    write_interactions(filled, counted)
    assert publish_profiles(filled, progress=False) == 2
    write_profiles(filled, account.assign(snapshot_ts=account["snapshot_ts"] - WEEK, c_city="Bern"))
    assert publish_profiles(filled, progress=False) == 0
    reader = OnlineReader(tmp_path / "features", "v1")
    found = reader.profiles("customer", ["a0"], ["x_spend", "c_city"]).columns
    assert found["x_spend"] == [40.0]
    assert found["c_city"] != ["Bern"]
    assert reader.profiles("merchant", ["m1"], ["h_events"]).columns["h_events"] == [50.0]
    write_profiles(filled, account.assign(snapshot_ts=account["snapshot_ts"] + WEEK, c_city="Bern"))
    assert publish_profiles(filled, progress=False) == 8


def test_a_publication_that_is_interrupted_is_resumed(filled, monkeypatch):
    written = []

    def fails(store, view, rows):
        if len(written) == 3:
            raise Unavailable("the store went away")
        written.append(len(rows))
        write(store, view, rows)

    write = module.write_rows
    monkeypatch.setattr(module, "write_rows", fails)
    with pytest.raises(Unavailable, match="went away"):
        publish_profiles(filled, batch=2, progress=False)
    monkeypatch.setattr(module, "write_rows", write)
    assert 0 < publish_profiles(filled, batch=2, progress=False) < 8
    assert publish_profiles(filled, batch=2, progress=False) == 0


def test_a_store_without_sources_has_nothing_to_publish(make_store, columns):
    store = make_store(columns)
    assert publish_profiles(store, progress=False) == 0
    with pytest.raises(InvalidInput, match="batch"):
        publish_profiles(store, batch=0)


@pytest.mark.parametrize(
    ("text", "x_spend", "at"),
    [
        ("x_spend: 3", None, np.nan),
        ("[1]", None, np.nan),
        ('{"snapshot_at": "2026-01-01", "x_spend": 3}', 3, np.nan),
        ('{"snapshot_at": 1767225600, "x_spend": "n/a", "c_city": 3}', None, 1767225600),
        ('{"snapshot_at": true, "x_spend": 1' + 400 * "0" + "}", None, np.nan),
        ('{"snapshot_at": 1767225600000, "x_spend": 3}', 3, 1767225600000),
    ],
)
def test_what_a_platform_wrote_wrongly_is_unknown_and_is_replaced_by_the_next_publication(
    filled, account, interactions, tmp_path, text, x_spend, at
):
    publish_profiles(filled, progress=False)
    reader = OnlineReader(tmp_path / "features", "v1")
    before = reader.profiles("customer", ["a0", "a1"], ["x_spend", "c_city"])
    rows = pd.read_parquet(tmp_path / "features" / "customer_account.parquet")
    row = rows[rows["customer_id"] == "a0"]
    module.write_rows(filled, "customer_account", row.assign(customer_account_columns=text))
    found = reader.profiles("customer", ["a0", "a1"], ["x_spend", "c_city"])
    assert found.columns == {
        "x_spend": [x_spend, before.columns["x_spend"][1]],
        "c_city": [None, before.columns["c_city"][1]],
    }
    np.testing.assert_array_equal(found.snapshot_at, [at, before.snapshot_at[1]])
    assert publish_profiles(filled, progress=False) == 1
    assert reader.profiles("customer", ["a0", "a1"], ["x_spend", "c_city"]).columns == before.columns


def test_a_platform_may_write_the_columns_of_an_account_without_their_time(filled, tmp_path):
    row = {
        "customer_id": "new",
        "event_timestamp": pd.Timestamp.now("UTC"),
        "customer_account_columns": '{"x_spend": 3}',
    }
    module.write_rows(filled, "customer_account", pd.DataFrame([row]))
    found = OnlineReader(tmp_path / "features", "v1").profiles("customer", ["new"], ["x_spend", "c_city"])
    assert found.columns == {"x_spend": [3], "c_city": [None]}
    assert np.isnan(found.snapshot_at).all()
