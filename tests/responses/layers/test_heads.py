import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from shadowprice.errors import InvalidInput, NotFound
from shadowprice.responses.layers.heads import FILE, HazardHead, LinearHead, load_heads, save_heads

WIDTH = 5


def draw(seed, *shape, scale=1.0):
    return np.random.default_rng(seed).normal(scale=scale, size=shape).astype(np.float32)


def hazard_head(levels, seed=0, scale=1.0, base=False):
    return HazardHead(
        levels=np.array(levels, dtype=np.int64),
        weight=draw(seed, len(levels), WIDTH, scale=scale),
        bias=draw(seed + 1, len(levels), scale=scale),
        default_embedding=draw(seed + 2, WIDTH),
        base_weight=draw(seed + 3, WIDTH) if base else None,
        base_bias=-1.25 if base else None,
    )


def linear_head(levels, seed=0, scale=1.0):
    return LinearHead(
        levels=np.array(levels, dtype=np.int64),
        slope_weight=draw(seed, WIDTH, scale=scale),
        slope_bias=0.3,
        base_weight=draw(seed + 1, WIDTH, scale=scale),
        base_bias=0.7,
        default_embedding=draw(seed + 2, WIDTH),
    )


def hazard_formula(head, h, level):
    """f at one level for one account, term by term (S0), money in units of 100 minor units."""
    total, before = 0.0, 0
    for k, upper in enumerate(head.levels.tolist()):
        score = sum(float(w) * float(x) for w, x in zip(head.weight[k], h, strict=True)) + float(head.bias[k])
        total += (upper - before) / 100 * np.exp(min(max(score, -15.0), 8.0))
        before = upper
        if upper == level:
            break
    if head.base_weight is not None:
        total += np.exp(sum(float(w) * float(x) for w, x in zip(head.base_weight, h, strict=True)) + head.base_bias)
    return 1.0 - np.exp(-total)


@pytest.mark.parametrize(("levels", "base"), [((40, 50, 80, 300), False), ((0, 10, 25, 130), True), ((70,), False)])
def test_a_hazard_curve_is_the_formula_term_by_term_at_unequal_levels(levels, base):
    head = hazard_head(levels, base=base)
    embedding = draw(9, 7, WIDTH)
    response = head.response(embedding)
    expected = [[hazard_formula(head, h, level) for h in embedding] for level in levels]
    np.testing.assert_allclose(response, expected, rtol=2e-6, atol=1e-9)
    assert (response.shape, response.dtype, response.flags.c_contiguous) == ((len(levels), 7), np.float32, True)


def test_at_the_level_of_no_incentive_only_the_base_mass_responds():
    head = hazard_head((0, 50, 90), base=True)
    embedding = draw(4, 6, WIDTH)
    base = np.exp(embedding.astype(float) @ head.base_weight.astype(float) - 1.25)
    np.testing.assert_allclose(head.response(embedding)[0], 1 - np.exp(-base), rtol=1e-6)
    other = HazardHead(**{**vars(head), "bias": head.bias + np.array([9, 0, 0], np.float32)})
    np.testing.assert_array_equal(other.response(embedding), head.response(embedding))


def test_a_linear_curve_is_the_formula_and_never_negative():
    head = linear_head((20, 60, 100, 250), scale=0.8)
    embedding = draw(9, 50, WIDTH)
    h = embedding.astype(float)
    slope = np.log1p(np.exp(h @ head.slope_weight.astype(float) + 0.3))
    line = slope[None] * np.array([20, 60, 100, 250])[:, None] / 100 + (h @ head.base_weight.astype(float) + 0.7)
    assert (line < 0).any()
    np.testing.assert_allclose(head.response(embedding), np.maximum(line, 0), rtol=2e-6, atol=1e-7)


levels_of = st.lists(st.integers(1, 5000), min_size=1, max_size=8, unique=True).map(sorted)


@settings(max_examples=60, deadline=None)
@given(levels=levels_of, seed=st.integers(0, 1000), scale=st.sampled_from([0.1, 1.0, 30.0]), base=st.booleans())
def test_curves_never_fall_with_the_incentive_and_stay_in_range(levels, seed, scale, base):
    embedding = draw(seed + 7, 9, WIDTH, scale=3.0)
    curve = hazard_head(levels, seed, scale, base).response(embedding)
    assert np.all(np.diff(curve, axis=0) >= 0)
    assert np.all((curve >= 0) & (curve <= 1))
    line = linear_head(levels, seed, scale).response(embedding)
    assert np.all(np.diff(line, axis=0) >= 0)
    assert np.all(np.isfinite(line) & (line >= 0))


@pytest.mark.parametrize("head", [hazard_head((0, 50, 80), base=True), linear_head((20, 60))])
def test_an_account_has_the_same_curve_alone_and_in_any_batch(head):
    embedding = draw(3, 300, WIDTH)
    batch = head.response(embedding)
    for row in (0, 1, 17, 299):
        np.testing.assert_array_equal(head.response(embedding[row : row + 1])[:, 0], batch[:, row])
    np.testing.assert_array_equal(head.response(embedding[::-1])[:, ::-1], batch)


@pytest.mark.parametrize("base", [False, True])
def test_saved_heads_come_back_identical(tmp_path, base):
    heads = {"customer": hazard_head((0, 50, 80) if base else (40, 80), base=base), "merchant": linear_head((20, 60))}
    save_heads(heads, tmp_path)
    loaded = load_heads(tmp_path)
    embedding = draw(3, 20, WIDTH)
    assert list(loaded) == list(heads)
    for side, head in heads.items():
        assert type(loaded[side]) is type(head)
        assert loaded[side].levels.dtype == np.int64
        np.testing.assert_array_equal(loaded[side].levels, head.levels)
        np.testing.assert_array_equal(loaded[side].default_embedding, head.default_embedding)
        np.testing.assert_array_equal(loaded[side].response(embedding), head.response(embedding))


def test_files_that_are_not_heads_are_refused_by_name(tmp_path):
    with pytest.raises(NotFound, match="train and save a model"):
        load_heads(tmp_path)
    (tmp_path / FILE).write_bytes(b"\x80\x04 a pickle, perhaps")
    with pytest.raises(InvalidInput, match=FILE):
        load_heads(tmp_path)
    save_file(
        {"customer.levels": np.array([1])}, tmp_path / FILE, metadata={"kinds": json.dumps({"customer": "magic"})}
    )
    with pytest.raises(InvalidInput, match="magic"):
        load_heads(tmp_path)


def test_heads_need_no_torch():
    code = "import sys, shadowprice.responses.layers.heads as h; assert 'torch' not in sys.modules, sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
