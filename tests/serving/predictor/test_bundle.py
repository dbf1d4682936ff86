import json
from dataclasses import replace

import numpy as np
import pytest

from serving.predictor.bundle import load_bundle
from serving.predictor.features import Features
from serving.predictor.models import Models
from shadowprice.campaign import Terms
from shadowprice.errors import InvalidInput, NotFound


def test_a_bundle_that_fits_is_read_with_its_version(kit, tmp_path):
    bundle = load_bundle(kit.write_model(kit.heads(), tmp_path), kit.campaign())
    assert bundle.model_version == kit.model
    assert sorted(bundle.heads) == ["customer", "merchant"]


def test_a_model_of_other_levels_or_without_a_side_is_refused(kit, tmp_path):
    heads = kit.heads()
    kit.write_model(heads, tmp_path)
    campaign = kit.campaign(sides={"customer": Terms(levels=(0, 50, 80, 131))})
    with pytest.raises(InvalidInput, match=r"\[0, 50, 80, 130\].*131"):
        load_bundle(tmp_path, campaign)
    kit.write_model({"customer": heads["customer"]}, tmp_path)
    with pytest.raises(InvalidInput, match="no head for side 'merchant'"):
        load_bundle(tmp_path, kit.campaign())


def test_weights_that_are_not_finite_are_refused(kit, tmp_path):
    heads = kit.heads()
    heads["customer"] = replace(heads["customer"], bias=np.array([0, np.nan, 0, 0], dtype=np.float32))
    with pytest.raises(InvalidInput, match="not finite"):
        load_bundle(kit.write_model(heads, tmp_path), kit.campaign())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model_version": 3}', '{"model_version": ""}', "[" * 100_000])
def test_a_model_file_without_a_version_is_refused_by_name(kit, tmp_path, text):
    kit.write_model(kit.heads(), tmp_path)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"model\.json"):
        load_bundle(tmp_path, kit.campaign())


def test_heads_that_are_not_those_of_the_model_file_are_refused(kit, tmp_path):
    kit.write_model(kit.heads(), tmp_path / "one")
    kit.write_model(kit.heads(seed=1), tmp_path / "other")
    (tmp_path / "one" / "heads.safetensors").write_bytes((tmp_path / "other" / "heads.safetensors").read_bytes())
    with pytest.raises(InvalidInput, match=r"heads\.safetensors: is not the file that model\.json was written with"):
        load_bundle(tmp_path / "one", kit.campaign())
    (tmp_path / "other" / "model.json").write_text(json.dumps({"model_version": "m"}))
    with pytest.raises(InvalidInput, match="no digests"):
        load_bundle(tmp_path / "other", kit.campaign())
    (tmp_path / "one" / "heads.safetensors").unlink()
    with pytest.raises(NotFound, match=r"heads\.safetensors"):
        load_bundle(tmp_path / "one", kit.campaign())


def test_models_are_found_by_version_behind_the_link_and_beside_it(kit, tmp_path):
    heads = kit.heads()
    for version in ("a", "b"):
        kit.write_model(heads, tmp_path / "models" / version, version)
    link = tmp_path / "model"
    link.symlink_to("models/b")
    opened = []

    def open_features(bundle):
        opened.append(bundle.model_version)
        return Features(NoStore(), {side: head.default_embedding for side, head in heads.items()})

    models = Models(link, kit.campaign(), open_features)
    assert models.newest().version == "b"
    assert models.load("b") is models.load("b")
    assert models.load("a").version == "a"
    assert opened == ["b", "a"]
    with pytest.raises(NotFound, match="'c'"):
        models.load("c")
    kit.write_model(heads, tmp_path / "alone", "only")
    assert Models(tmp_path / "alone", kit.campaign(), open_features).newest().version == "only"
    (tmp_path / "models" / "a" / "heads.safetensors").write_bytes(b"tampered")
    with pytest.raises(InvalidInput, match="heads"):
        Models(link, kit.campaign(), open_features).load("a")


class NoStore:
    """A store that knows nobody."""

    def embeddings(self, side, account_ids):
        return np.full((len(account_ids), 6), np.nan, np.float32), np.full(len(account_ids), np.nan)
