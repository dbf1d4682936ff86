from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from serving.bundle import load_bundle
from shadowprice.campaign import Terms
from shadowprice.errors import InvalidInput


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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model_version": 3}', '{"model_version": ""}'])
def test_a_model_file_without_a_version_is_refused_by_name(kit, tmp_path, text):
    kit.write_model(kit.heads(), tmp_path)
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"model\.json"):
        load_bundle(tmp_path, kit.campaign())
