from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.graphs.build import build_snapshot, numeric_features
from shadowprice.graphs.snapshot import GraphSnapshot

AT = datetime(2026, 3, 1, tzinfo=UTC)


def nodes() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "account_id": ["b", "a", "m", "b"],
            "side": ["customer", "customer", "merchant", "merchant"],
            "x_age": [1.0, 2.0, np.nan, np.nan],
            "x_sales": [np.nan, np.nan, 5.0, 7.0],
            "c_city": ["u", "v", None, None],
        }
    )


def edges() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "src": ["a", "a", "b", "a"],
            "dst": ["m", "m", "m", "b"],
            "weight": [1.0, 3.0, 2.0, 1.0],
            "ts": pd.to_datetime(["2026-02-01", "2026-02-27", "2026-02-20", "2026-03-02"], utc=True),
            "x_amount": [1.0, 3.0, 5.0, 9.0],
        }
    )


def test_an_account_on_both_sides_is_one_node() -> None:
    snapshot = build_snapshot(nodes(), edges(), AT)
    assert snapshot.account_id.tolist() == ["a", "b", "m"]
    assert snapshot.is_side.tolist() == [[True, True, False], [False, True, True]]


def test_repeated_payments_are_one_tie_and_later_ones_are_not_seen() -> None:
    snapshot = build_snapshot(nodes(), edges(), AT)
    assert snapshot.edge_index.T.tolist() == [[0, 2], [1, 2]]
    table = dict(zip(snapshot.edge_names, snapshot.edge_features.T, strict=True))
    np.testing.assert_allclose(table["log_count"], np.log1p([2.0, 1.0]), rtol=1e-6)
    np.testing.assert_allclose(table["log_weight"], np.log1p([4.0, 2.0]), rtol=1e-6)
    np.testing.assert_allclose(table["x_amount"], [2.0, 5.0])
    np.testing.assert_allclose(table["log_days_ago"], np.log1p([2.0, 9.0]), rtol=1e-6)


def test_features_of_the_other_side_are_unknown() -> None:
    snapshot = build_snapshot(nodes(), edges(), AT)
    assert snapshot.names["customer"] == ("x_age", "c_city=u", "c_city=v")
    assert snapshot.names["merchant"] == ("x_sales",)
    assert np.isnan(snapshot.features["customer"][2]).all()
    assert snapshot.features["merchant"][:, 0].tolist()[1:] == [7.0, 5.0]


def test_saved_and_loaded_it_is_the_same(tmp_path) -> None:
    snapshot = build_snapshot(nodes(), edges(), AT)
    snapshot.save(tmp_path / "s")
    again = GraphSnapshot.load(tmp_path / "s")
    assert again.at == snapshot.at
    assert again.names == snapshot.names
    assert again.edge_names == snapshot.edge_names
    for name in ("account_id", "is_side", "edge_index", "edge_features"):
        np.testing.assert_array_equal(getattr(again, name), getattr(snapshot, name))
    for name in ("start", "source", "edge"):
        np.testing.assert_array_equal(getattr(again.adjacency, name), getattr(snapshot.adjacency, name))
    assert isinstance(again.edge_features, np.memmap)


def test_ties_lead_into_both_their_ends() -> None:
    into = build_snapshot(nodes(), edges(), AT).adjacency
    found = [into.source[into.start[u] : into.start[u + 1]].tolist() for u in range(3)]
    assert found == [[2], [2], [0, 1]]
    assert into.edge.tolist() == [0, 1, 0, 1]


def test_a_file_that_was_altered_is_named(tmp_path) -> None:
    build_snapshot(nodes(), edges(), AT).save(tmp_path / "s")
    path = tmp_path / "s" / "edge_features.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="edge_features"):
        GraphSnapshot.load(tmp_path / "s")
    with pytest.raises(NotFound, match="featurize"):
        GraphSnapshot.load(tmp_path / "t")


def test_what_cannot_be_written_whole_leaves_the_snapshot_before(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = build_snapshot(nodes(), edges(), AT)
    snapshot.save(tmp_path / "s")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("shadowprice.graphs.snapshot.os.replace", full)
    with pytest.raises(OSError, match="no space"):
        snapshot.save(tmp_path / "s2")
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_an_unknown_account_is_not_found() -> None:
    assert build_snapshot(nodes(), edges(), AT).find(["m", "zz", "a"]).tolist() == [2, -1, 0]


def test_a_tie_to_an_account_without_profile_is_refused() -> None:
    stray = edges().assign(dst=["m", "m", "nobody", "m"])
    with pytest.raises(InvalidInput, match=r"edge\.dst.*nobody"):
        build_snapshot(nodes(), stray, AT)


def test_an_account_twice_on_one_side_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"once per side.*first rows: 4"):
        build_snapshot(pd.concat([nodes(), nodes().iloc[[0]]], ignore_index=True), edges(), AT)


def test_shuffling_keeps_accounts_and_degrees_of_customers() -> None:
    snapshot = build_snapshot(nodes(), edges().assign(ts=pd.Timestamp("2026-01-01", tz="UTC")), AT)
    shuffled = snapshot.shuffled(1)
    np.testing.assert_array_equal(shuffled.edge_index[0], snapshot.edge_index[0])
    assert sorted(shuffled.edge_index[1]) == sorted(snapshot.edge_index[1])


def test_a_rare_category_has_no_indicator_of_its_own() -> None:
    frame = pd.DataFrame({"c_city": [*"aaaabbbc"]})
    assert list(numeric_features(frame, categories=2).columns) == ["c_city=a", "c_city=b"]
