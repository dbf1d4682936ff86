"""The request tower that is served is the one that was trained."""

import numpy as np
import pytest
import torch

from shadowprice.errors import InvalidInput
from shadowprice.graphs.scaling import fit_scaling
from shadowprice.responses.joint.network import RequestTower
from shadowprice.responses.layers.tower import FILE, context_values, load_towers, save_towers

N = 300


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    names = ("x_basket", "c_channel=app")
    columns = {
        "x_basket": [
            None if miss else value for miss, value in zip(rng.random(N) < 0.2, rng.normal(size=N), strict=True)
        ],
        "c_channel": [("app", "web", None)[k] for k in rng.integers(0, 3, N)],
    }
    context = context_values(columns, N, names)
    torch.manual_seed(0)
    scaling = fit_scaling(names, context)
    trained = RequestTower(scaling.width, partner=True)
    own, partner = (rng.normal(size=(N, 64)).astype(np.float32) for _ in range(2))
    return trained, trained.served(scaling, own.mean(axis=0)), own, context, partner


def test_it_gives_what_torch_gives(drawn) -> None:
    trained, served, own, context, partner = drawn
    with torch.no_grad():
        expected = trained(*map(torch.from_numpy, (own, served.context.apply(context), partner))).numpy()
    np.testing.assert_allclose(served.embed(own, context, partner), expected, atol=1e-5)
    assert served.accepts == ("x_basket", "c_channel")


def test_a_feature_is_read_from_its_own_column_whatever_its_name_holds() -> None:
    columns = {"x_c_city=a": [1.0, 0.0], "c_city": ["a", "b=c"]}
    found = context_values(columns, 2, ("x_c_city=a", "c_city=b=c", "x_absent"))
    np.testing.assert_array_equal(found, [[1, 0, np.nan], [0, 1, np.nan]])


def test_a_request_means_the_same_whether_others_name_a_category_or_none_does() -> None:
    names = ("c_channel=app", "c_channel=web", "x_basket")
    alone = context_values({}, 1, names)
    in_company = context_values({"c_channel": [None, "app"], "x_basket": [None, 1.0]}, 2, names)
    np.testing.assert_array_equal(alone[0], in_company[0])
    np.testing.assert_array_equal(alone, [[0.0, 0.0, np.nan]])


def test_a_request_means_the_same_to_the_last_bit_alone_and_in_company(drawn) -> None:
    _, served, own, context, partner = drawn
    together = served.embed(own, context, partner)
    for row in range(0, N, 37):
        one = slice(row, row + 1)
        np.testing.assert_array_equal(served.embed(own[one], context[one], partner[one]), together[one])


def test_what_was_saved_is_read_back_and_anything_else_refused(drawn, tmp_path) -> None:
    _, served, own, context, partner = drawn
    assert load_towers(tmp_path) == {}
    save_towers({"customer": served}, tmp_path)
    again = load_towers(tmp_path)["customer"]
    np.testing.assert_array_equal(again.embed(own, context, partner), served.embed(own, context, partner))
    (tmp_path / FILE).write_bytes(b"something else")
    with pytest.raises(InvalidInput, match="request towers"):
        load_towers(tmp_path)
    save_towers({}, tmp_path)
    assert not (tmp_path / FILE).exists()
