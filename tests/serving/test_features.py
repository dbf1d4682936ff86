from __future__ import annotations

import numpy as np
import pytest

from serving.features import Features, open_reader
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
    with pytest.raises(Unavailable, match="create the store first"):
        open_reader(tmp_path, kit.model)
    folder = kit.write_features(kit.embeddings(), tmp_path / "features")
    with pytest.raises(NotFound, match="another-model"):
        open_reader(folder, "another-model")
