"""The session of a request as a server reads it, against the torch network on a log that has the session."""

from pathlib import Path

import numpy as np
import pytest
from small_vouchers import cart_of, fitted, small, with_carts

from serving.session import LEVELS, checked_sessions
from shadowprice.campaign.session import SESSION, SESSION_ACTIONS
from shadowprice.curves import Curves
from shadowprice.graphs.voucher_graphs import KEPT
from shadowprice.responses import make
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.heads import StoredHead
from shadowprice.responses.layers.request import embed_requests
from shadowprice.responses.layers.tower import load_towers, save_towers, stored_defaults
from shadowprice.responses.repair.effect import Effect
from shadowprice.responses.repair.model import RepairedModel, SideRepair
from shadowprice.responses.repair.repair import IsotonicMap, Repair
from shadowprice.responses.separate import SeparateModels
from shadowprice.tables.schema import PRICE_LEVELS

WITHIN = 1e-6
"""The stored past is rounded to float32."""
MAP = IsotonicMap(np.array([0.05, 0.2, 0.5]), np.array([0.02, 0.3, 0.55]))


def carts():
    """Sessions of the log, an empty one, long ones, and one of things that training never saw."""
    data, _ = small()
    ids = data.tables.behaviour.query("phase == 'before'")["session_id"].drop_duplicates()
    found = [cart_of(data.tables, name) for name in ids.iloc[:60]]
    everything = [each for name in ids for each in cart_of(data.tables, name)]
    strange = {"item_id": "never seen", "action": "cart", "ts": "2026-02-01T00:00:00Z"}
    return [*found, [], [strange], everything[:70], [each | {"action": "order"} for each in everything[70:140]]]


def asked(model, people, sessions):
    """Inputs that the service would have: stored vectors of people, and checked sessions."""
    _, log = small()
    frame = log.requests().drop_duplicates("account_id", keep="last").set_index("account_id").loc[people].reset_index()
    part = model.embed_parts(Inputs(sessions=log), {"customer": frame})["customer"]
    vectors = np.concatenate([part.request, part.own], axis=1)
    return part, vectors, {SESSION: checked_sessions(sessions)}


def served(model, people, sessions):
    part, vectors, columns = asked(model, people, sessions)
    bare = np.zeros(len(people), dtype=bool)
    found = embed_requests(part.tower, vectors, columns, bare, None)[:, : len(small()[1].offered)]
    return found.T, part


def by_torch(model, people, sessions):
    log, frame = with_carts(small()[0].tables, people, sessions)
    return model.curves(Inputs(sessions=log), {"customer": frame})["customer"].response


@pytest.fixture(scope="module")
def case():
    sessions = carts()
    people = np.random.default_rng(1).choice(small()[1].tables.session["user_id"].unique(), len(sessions))
    return people.tolist(), sessions


MODELS = {
    "plain": lambda own: own,
    "corrected": lambda own: SeparateModels(own.models, {"customer": 0.3}),
    "no map": lambda own: RepairedModel(own, {"customer": SideRepair()}),
    "one map": lambda own: RepairedModel(own, {"customer": SideRepair(repair=Repair([MAP]))}),
    "some maps": lambda own: RepairedModel(
        own, {"customer": SideRepair(repair=Repair([MAP, None] * (len(small()[1].offered) // 2)))}
    ),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_cart_gives_the_curve_of_the_torch_model_for_it(case, kind):
    people, sessions = case
    model = MODELS[kind](SeparateModels({"customer": fitted()}))
    found, _ = served(model, people, sessions)
    np.testing.assert_allclose(found, by_torch(model, people, sessions), rtol=0, atol=WITHIN)
    moved = served(model, people[:1] * len(sessions), sessions)[0]
    assert np.unique(np.round(moved, 5), axis=1).shape[1] > len(sessions) / 2, "carts of one person differ"


def test_a_request_without_a_session_has_the_stored_curve_bit_for_bit(case):
    people, sessions = case
    model = SeparateModels({"customer": fitted()})
    part, vectors, columns = asked(model, people, sessions)
    frame = small()[1].requests().drop_duplicates("account_id", keep="last").set_index("account_id")
    before = model.embed(Inputs(sessions=small()[1]), {"customer": frame.loc[people].reset_index()})["customer"]
    np.testing.assert_array_equal(part.request, before)
    some = [session if row % 2 else None for row, session in enumerate(columns[SESSION])]
    bare = np.zeros(len(people), dtype=bool)
    mixed = embed_requests(part.tower, vectors, {SESSION: some}, bare, None)
    np.testing.assert_array_equal(mixed[::2], before[::2])
    whole = embed_requests(part.tower, vectors, columns, bare, None)
    np.testing.assert_array_equal(mixed[1::2], whole[1::2])
    np.testing.assert_array_equal(embed_requests(part.tower, vectors, {"x_a": [1.0] * len(people)}, bare, None), before)


def test_the_network_is_stored_with_the_model_and_knows_strangers(case, tmp_path: Path):
    people, sessions = case
    found, part = served(SeparateModels({"customer": fitted()}), people, sessions)
    save_towers({"customer": part.tower}, tmp_path)
    read = load_towers(tmp_path)["customer"]
    np.testing.assert_array_equal(
        read.join(part.own, {SESSION: checked_sessions(sessions)}, part.own)[:, : len(found)].T, found
    )
    head = StoredHead(levels=np.array(small()[1].levels), default_embedding=part.request.mean(axis=0))
    stranger = stored_defaults({"customer": head}, {"customer": read})["customer"][None]
    one = embed_requests(read, stranger, {SESSION: checked_sessions(sessions[:1])}, np.zeros(1, bool), None)
    assert 0 < one[0, 0] < 1
    assert not np.array_equal(one[0], head.default_embedding)


def test_repairs_that_read_more_than_the_response_and_models_without_graphs_read_no_session():
    log = small()[1]
    inputs, frame = Inputs(sessions=log), log.requests().head(3)
    effect = Effect.none(len(log.offered), probability=True)
    for repair in (SideRepair(repair=Repair(project=True)), SideRepair(effect=effect)):
        model = RepairedModel(SeparateModels({"customer": fitted()}), {"customer": repair})
        assert model.embed_parts(inputs, {"customer": frame})["customer"].tower is None
    assert make("din", levels=log.levels).served_session(frame) is None


def test_knots_are_the_map():
    rng = np.random.default_rng(0)
    p = np.linspace(0, 1, 1001, dtype=np.float32)
    curves = Curves(np.arange(1001), np.tile(p[:, None], (1, 2)))
    for ceiling in (0.5, 1.0):
        for first in (0.0, 0.1):
            x, y = (np.sort(rng.random(6)) * 0.8 + np.array([first, *[0.1] * 5]) for _ in range(2))
            fitted_map = IsotonicMap(x, np.minimum(y, ceiling), ceiling)
            wanted = Repair([fitted_map]).apply(curves).response[:, 0]
            np.testing.assert_allclose(np.interp(p, *fitted_map.knots()), wanted, atol=1e-7)


def test_words_and_bounds_are_those_of_the_tables():
    assert SESSION_ACTIONS == SESSION_ACTIONS
    assert (LEVELS[0], LEVELS[-1]) == PRICE_LEVELS
    model = SeparateModels({"customer": fitted()})
    assert served(model, small()[1].tables.session["user_id"].head(1).tolist(), [[]])[1].tower.kept == KEPT
