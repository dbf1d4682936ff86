"""The embeddings of a bundle are written by row groups, and read whole or by parts alike."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shadowprice.campaign import Side
from shadowprice.errors import InvalidInput
from shadowprice.learning.bundle import EMBEDDINGS, ROWS, Served, write_served
from shadowprice.learning.fit import fit_bundle
from shadowprice.learning.recipes import Training
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.model import JointModel
from shadowprice.responses.layers.heads import FILE, HazardHead, load_heads
from shadowprice.responses.layers.own import FILE as ENCODERS
from shadowprice.responses.layers.own import load_encoders, save_encoders
from shadowprice.responses.layers.tower import context_values, load_towers
from shadowprice.responses.training import TrainingConfig

WIDTH = 3


def _served(side: Side, count: int, seed: int) -> Served:
    rng = np.random.default_rng(seed)
    head = HazardHead(
        levels=np.array([1000, 2000]),
        weight=rng.normal(size=(2, WIDTH)).astype(np.float32),
        bias=np.zeros(2, dtype=np.float32),
        default_embedding=np.zeros(WIDTH, dtype=np.float32),
        base_weight=np.zeros(WIDTH, dtype=np.float32),
        base_bias=-2.0,
    )
    names = np.array([f"{side[0]}{row}" for row in range(count)])
    return Served(names, rng.normal(size=(count, WIDTH)).astype(np.float32), head)


def test_embeddings_of_several_row_groups_equal_what_was_given_and_keep_the_digest(tmp_path: Path) -> None:
    served: dict[Side, Served] = {"customer": _served("customer", ROWS + 5, 1), "merchant": _served("merchant", 7, 2)}
    version = write_served(served, tmp_path, recipe="r", describe={}, corrections={}, metrics={})
    whole = b"".join(each.embedding.tobytes() for each in served.values())
    assert version == f"r-{hashlib.sha256((tmp_path / FILE).read_bytes() + whole).hexdigest()[:12]}"

    table = pq.ParquetFile(tmp_path / EMBEDDINGS)
    groups = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
    assert groups == [ROWS, 5, 7]
    assert table.schema_arrow.field("embedding").type == pa.list_(pa.float32(), WIDTH)
    assert "RLE_DICTIONARY" in table.metadata.row_group(0).column(1).encodings

    parts = [part.to_pandas() for part in table.iter_batches(1000)]
    for stored in (pd.read_parquet(tmp_path / EMBEDDINGS), pd.concat(parts)):
        for side, each in served.items():
            own = stored[stored["side"] == side]
            assert own["account_id"].tolist() == each.account_id.tolist()
            np.testing.assert_array_equal(np.stack(own["embedding"].to_numpy()), each.embedding)
        assert stored["computed_at"].nunique() == 1
        assert str(stored["computed_at"].dt.tz) == "UTC"


def test_a_model_that_reads_requests_is_served_with_its_towers_and_the_accounts_own_embeddings(make_set, tmp_path):
    _, data = make_set("world", 0, context=1.0, customers=300, merchants=80, both=10)
    last = data.rows["customer"].drop_duplicates("account_id", keep="last").set_index("account_id")
    serving = data.serving["customer"].join(last[["partner_id", *data.context["customer"]]], on="account_id")
    data = replace(data, serving={**data.serving, "customer": serving})
    data.save(tmp_path / "data")
    fit_bundle(tmp_path / "data", tmp_path, Training("joint_gnn"), TrainingConfig(epochs=3), workers=0)
    towers, heads = load_towers(tmp_path), load_heads(tmp_path)
    assert list(towers) == ["customer"]
    stored = pd.read_parquet(tmp_path / EMBEDDINGS)
    of = {side: own.set_index("account_id") for side, own in stored.groupby("side")}
    assert of["merchant"]["own"].isna().all()
    rows = serving[serving["partner_id"].notna()].head(20)
    live = towers["customer"].embed(
        np.stack(of["customer"].loc[rows["account_id"], "own"]),
        context_values(rows, len(rows), towers["customer"].context.names),
        np.stack(of["merchant"].loc[rows["partner_id"], "embedding"]),
    )
    np.testing.assert_array_equal(live, np.stack(of["customer"].loc[rows["account_id"], "embedding"]))
    model = JointModel.load(tmp_path)
    curves = model.curves(data.inputs, {"customer": rows})["customer"].response
    np.testing.assert_array_equal(heads["customer"].response(live), curves)
    network = model._embedded(data.snapshots, {"customer": rows})["customer"][0].detach().numpy()
    np.testing.assert_allclose(live, network, atol=1e-4)


def test_an_account_without_ties_has_the_embedding_of_the_graph_encoder(make_set, tmp_path):
    _, data = make_set("world", 0, context=1.0, customers=300, merchants=80, both=0)
    data.save(tmp_path / "data")
    fit_bundle(tmp_path / "data", tmp_path, Training("joint_gnn"), TrainingConfig(epochs=3), workers=0)
    model, (snapshot,) = JointModel.load(tmp_path), data.snapshots
    encoders, towers = load_encoders(tmp_path), load_towers(tmp_path)
    assert set(encoders) == {"customer", "merchant"}
    bare = replace(snapshot, edge_index=snapshot.edge_index[:, :0], edge_features=snapshot.edge_features[:0])
    for side, encoder in encoders.items():
        names = np.array([name for name in snapshot.names[side] if not name.startswith("h_")])
        has = snapshot.is_side[("customer", "merchant").index(side)]
        place = [snapshot.names[side].index(name) for name in names]
        values = dict(zip(names, snapshot.features[side][has][:, place].T, strict=True))
        raw = {
            name: values[name]
            if name in values
            else [
                next(
                    (each.split("=", 1)[1] for each in names if each.startswith(f"{name}=") and values[each][row]), None
                )
                for row in range(has.sum())
            ]
            for name in encoder.reads
        }
        asked = pd.DataFrame({"account_id": snapshot.account_id[has]})
        expected = model.embed_parts(Inputs(snapshots=[bare]), {side: asked})[side]
        np.testing.assert_allclose(
            encoder.stored(towers.get(side), raw, len(asked)),
            expected.request if expected.own is None else np.concatenate([expected.request, expected.own], axis=1),
            rtol=1e-4,
            atol=2e-5,
        )
    save_encoders({}, tmp_path)
    assert load_encoders(tmp_path) == {}
    (tmp_path / ENCODERS).write_bytes(b"other")
    with pytest.raises(InvalidInput, match="encoders"):
        load_encoders(tmp_path)
