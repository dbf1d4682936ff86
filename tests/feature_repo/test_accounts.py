"""Accounts are found in each kind of online store, and removed without a trace of them."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from feature_repo.columns import describe
from feature_repo.offline import write_profiles
from feature_repo.online import OnlineReader, publish_embeddings
from feature_repo.online.accounts import held, remove
from feature_repo.online.profiles import publish_profiles

ODD = "a/1 'é\"|*"


@pytest.fixture
def filled(make_store, account, embeddings):
    """A store with the odd account, as customer and merchant, beside one whose name contains its own."""
    new = {"a3": ODD, "a2": ODD + "x", "a41": ODD, "a42": ODD + "x"}
    account["account_id"] = account["account_id"].replace(new)
    embeddings["account_id"] = embeddings["account_id"].replace({"a41": ODD, "a42": ODD + "x"})
    store = make_store(describe(account, None, embedding_width=8, model_versions=["v1"]))
    write_profiles(store, account)
    publish_profiles(store, progress=False)
    publish_embeddings(store, embeddings, progress=False)
    return store


def test_an_account_is_read_and_removed_and_no_other(filled, tmp_path, embeddings):
    folder = tmp_path / "features"
    rows = list(held(folder, ODD))
    assert [row["side"] for row in rows] == ["customer", "merchant"]
    own = embeddings[(embeddings["account_id"] == ODD) & (embeddings["side"] == "customer")]
    np.testing.assert_array_equal(rows[0]["customer_embedding_vector"], own["embedding"].iloc[0])
    assert "c_city" in rows[0]["customer_account_columns"]
    others = [name for name in embeddings.loc[embeddings["side"] == "customer", "account_id"] if name != ODD]
    before = OnlineReader(folder).embeddings("customer", others)[0]
    assert remove(folder, lambda names: {ODD} & set(names)) >= 2
    assert remove(folder, lambda names: {ODD} & set(names)) == 0
    assert list(held(folder, ODD)) == []
    np.testing.assert_array_equal(OnlineReader(folder).embeddings("customer", others)[0], before)
    assert np.isnan(OnlineReader(folder).embeddings("customer", [ODD])[0]).all()
    for file in folder.glob("online.db*"):
        assert ODD.encode() + b'"' not in file.read_bytes()
    if (folder / "online.db").exists():
        with closing(sqlite3.connect(folder / "online.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
