"""Models of vouchers beyond conformance: what they read, and what they find."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit
from small_vouchers import SHORT, fitted, past_of, small
from torch_geometric.nn import GraphConv

from shadowprice.datasets.vouchers import generate
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER
from shadowprice.responses import load, make
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.tabular.minibatch import Objective, fit_module
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.vouchers.dmbgn_network import NODE
from shadowprice.tables import SessionTables


def test_without_behaviour_the_score_is_that_of_the_bias_and_the_voucher() -> None:
    model, (_, log) = fitted(), small()
    network = model.network
    with torch.no_grad():
        found = network.target(np.array([-1, -1]), np.array([0, 3]))
    torch.testing.assert_close(found.behaviour, network.graph.out.bias.detach().expand(2, -1))
    own = network.voucher.weight[torch.from_numpy(network.nodes.vouchers.of_level[[0, 3]])].detach()
    torch.testing.assert_close(found.voucher, own)
    torch.testing.assert_close(found.score, own @ network.graph.out.bias.detach())
    assert len(log.offered) > 3


def test_what_happened_after_the_collection_does_not_reach_the_prediction() -> None:
    """The after-phase rows of the test sessions are replaced; those of the past are theirs and count."""
    (data, log), model = small(), fitted()
    part = data.part()
    test = log.requests(part == "test")
    own = pd.Index(test["session_id"])
    behaviour = data.tables.behaviour
    theirs = behaviour["session_id"].isin(own) & (behaviour["phase"] == "after")
    assert theirs.sum() > 100
    changed = behaviour[~theirs].reset_index(drop=True)
    sessions = data.tables.session
    later = SessionLog.build(SessionTables(sessions, changed))
    before = model.at(test)
    # Histories of the test sessions may hold other test sessions: those are left as they are.
    place, at = log.locate(test)
    history = log.history(test["account_id"], at, model.history)
    alone = ~np.isin(history, place).any(axis=1)
    assert alone.sum() > 20
    model.given = Inputs(sessions=later)
    try:
        state = model.state()
        again = make("dmbgn", levels=log.levels, inputs=Inputs(sessions=later))
        again.restore(state)
        np.testing.assert_allclose(again.at(test)[alone], before[alone], atol=1e-7)
    finally:
        model.given = Inputs(sessions=log)


def test_the_response_at_a_level_is_that_of_the_curve() -> None:
    data, log = small()
    asked = log.requests(data.part() == "test")
    for name in ("dmbgn", "dmbgn_pretrained", "dmbgn_before_only"):
        model = fitted(name)
        curve = model.curve(asked).response
        np.testing.assert_allclose(model.at(asked), curve[asked["level"], np.arange(len(asked))], atol=1e-6)


def test_the_pretrained_variant_leaves_the_graph_network_as_it_was_pretrained() -> None:
    data, log = small()
    train = log.requests(data.part() == "train")
    seen: dict[str, list[torch.Tensor]] = {}
    for name, tuning in (("dmbgn_pretrained", 0.0), ("dmbgn", 1.0)):
        for epochs in (1, 3):
            config = TrainingConfig(epochs=epochs, learning_rate=1e-2, batch_rows=256)
            options = {"training": config, "pretraining": 1, "fine_tuning": tuning}
            model = make(name, levels=log.levels, inputs=Inputs(sessions=log), **options)
            weights = model.fit(train).network.graph.out.weight.detach()
            seen.setdefault(name, []).append(weights)
    torch.testing.assert_close(*seen["dmbgn_pretrained"], rtol=0, atol=0)
    assert not torch.equal(seen["dmbgn"][0], seen["dmbgn_pretrained"][0])


def test_pre_training_sees_targets_and_whole_sessions_in_one_pass() -> None:
    model, (_, log) = fitted(), small()
    session = np.array([4, 300, 17, 4, 450])
    level = np.array([0, 3, 1, 2, 7])
    with torch.no_grad():
        target, whole = model.network.scored(session, level)
        alone = model.network.target(session, level)
        own = log.requests(session)["level"].to_numpy()
        own_whole, past = model.network.scored(session, own)[1], model.network.past(session)
    for found, expected in ((target, alone), (own_whole, past)):
        torch.testing.assert_close(found.both, expected.both)
        torch.testing.assert_close(found.score, expected.score)
    assert not torch.allclose(whole.behaviour, target.behaviour)


def test_rows_of_a_person_stand_together_in_a_step_and_every_row_is_seen_once() -> None:
    _, log = small()
    frame = log.requests()
    model = fitted()
    rows = model._rows(frame, np.ones(len(frame)))
    steps: list[np.ndarray] = []
    weight = torch.nn.Parameter(torch.zeros(1))
    module = torch.nn.Module()
    module.weight = weight

    def loss(some, step: int) -> torch.Tensor:
        steps.append(some.position.numpy())
        return weight.square().sum()

    config = TrainingConfig(epochs=2, batch_rows=100)
    objective = Objective(loss=loss, judge=lambda _: weight.sum(), code=lambda rows: rows.person)
    fit_module(module, objective, rows, rows, config)
    assert len(steps) == 10
    person = frame["account_id"].to_numpy()
    for epoch in (steps[:5], steps[5:]):
        order = np.concatenate(epoch)
        assert sorted(order.tolist()) == list(range(len(frame)))
        changes = (person[order][1:] != person[order][:-1]).sum()
        assert changes == np.unique(person).size - 1
    assert (np.concatenate(steps[:5]) != np.concatenate(steps[5:])).any()


def test_a_campaigns_own_past_can_be_left_out_of_a_model() -> None:
    data, log = small()
    frame = log.requests(data.part() == "test")
    campaign = data.tables.session["campaign"].to_numpy()
    kept = [
        make("din", levels=log.levels, inputs=Inputs(sessions=log), other_campaigns=other, training=SHORT)
        .fit(log.requests(data.part() == "train"))
        ._rows(frame, np.ones(len(frame)))
        for other in (False, True)
    ]
    same = [
        (campaign[rows.past.numpy()] == campaign[rows.session.numpy()][:, None])[rows.past.numpy() >= 0]
        for rows in kept
    ]
    assert same[0].any()
    assert not same[1].any()


def test_avg_pooling_takes_the_mean_of_the_items_and_keeps_the_attention() -> None:
    """S3's variant has no graph network, and its past sessions have weights of their own."""
    data, log = small()
    model = fitted("dmbgn_avg_pooling")
    network, items = model.network, model.items
    assert not any(isinstance(each, GraphConv) for each in network.modules())
    frame = log.requests(data.part() == "test")
    place, at = log.locate(frame)
    past = log.history(frame["account_id"], at, 6)
    row = int(np.flatnonzero(past[:, 1] >= 0)[0])
    own = past[row][past[row] >= 0]
    encoded, graph = network.past(own), log.graphs.past(own)
    expected = torch.zeros(own.size, len(GROUPS), NODE, dtype=torch.float64)  # a fitted network computes in 53 bits
    for slot in graph.slot:
        member, group = divmod(int(slot), len(GROUPS))
        nodes = (graph.member == member) & (graph.group == group) & (graph.row != VOUCHER)
        rows = log.tables.behaviour.iloc[graph.row[nodes]]
        code = torch.tensor([1 + items.tokens["category"].index(each) for each in rows["category"]])
        price = torch.tensor((rows["price_level"].to_numpy(dtype=np.float32) - 4) / 2)[:, None]
        whole = [torch.from_numpy(items.rows(rows)), network.category.weight[code], price]
        expected[member, group] = torch.cat(whole, dim=1).mean(dim=0)
    torch.testing.assert_close(encoded.behaviour, network.graph.out(expected.flatten(1)))
    target = network.target(place[[row]], frame["level"].to_numpy()[[row]])
    weights = network.attention.weights(encoded.both, target.both, past_of(own.tolist()))
    assert weights.std() > 1e-4


@pytest.mark.parametrize("name", ["dnn_offer", "din", "dmbgn"])
def test_dropout_leaves_units_out_in_training_alone(name: str) -> None:
    """Without any unit the MLP is its last bias; a fitted model has all of them."""
    data, log = small()
    frame = log.requests(data.part() == "train")
    once, inputs = replace(SHORT, epochs=1), Inputs(sessions=log)
    model = make(name, levels=log.levels, dropout=0.5, inputs=inputs, training=once).fit(frame)
    head = model.network.deep if name == "dnn_offer" else model.network.head
    x = torch.randn(2000, head[0].in_features, generator=torch.Generator().manual_seed(0)).double()
    whole = head[:2](x)
    torch.manual_seed(0)
    train = head.train()[:2](x)
    head.eval()
    alive = whole > 0
    assert float((train[alive] == 0).double().mean()) == pytest.approx(0.5, abs=0.02)
    torch.testing.assert_close(train[train > 0], 2 * whole[train > 0])
    np.testing.assert_array_equal(model.curve(frame).response, model.curve(frame).response)


def test_stochastic_tuning_learns_too() -> None:
    data, log = small()
    train = log.requests(data.part() == "train")
    options = {"training": SHORT, "pretraining": 1, "fine_tuning": 0.4}
    model = make("dmbgn", levels=log.levels, inputs=Inputs(sessions=log), **options).fit(train)
    assert np.isfinite(model.at(train)).all()
    assert model.results[1].history[-1]["train_loss"] < model.results[1].history[0]["train_loss"]


def test_a_voucher_that_training_never_saw_is_read_by_its_terms() -> None:
    (data, log), model = small(), fitted()
    session = data.tables.session
    renamed = session.assign(voucher_id="new-" + session["voucher_id"])
    fresh = SessionLog.build(SessionTables(renamed, data.tables.behaviour))
    again = make("dmbgn", levels=log.levels, inputs=Inputs(sessions=fresh))
    again.restore(model.state())
    curve = again.curve(fresh.requests(np.arange(20))).response
    assert np.isfinite(curve).all()
    terms = np.stack([fresh.levels, fresh.min_spend], axis=1)
    same = [(i, j) for i in range(len(terms)) for j in range(i) if (terms[i] == terms[j]).all()]
    differ = [(i, j) for i in range(len(terms)) for j in range(i) if (terms[i] != terms[j]).all()]
    for i, j in same:
        np.testing.assert_allclose(curve[i], curve[j], atol=1e-7)
    assert all(np.abs(curve[i] - curve[j]).max() > 1e-6 for i, j in differ)


@pytest.mark.parametrize("name", ["dmbgn", "din"])
def test_without_sessions_it_says_what_is_missing(name: str) -> None:
    data, log = small()
    with pytest.raises(InvalidInput, match=r"sessions: is missing.*Inputs\(sessions"):
        make(name, levels=log.levels).fit(log.requests(data.part() == "train"))
    with pytest.raises(InvalidInput, match=r"sessions: .*discounts"):
        make(name, levels=[1, 2], inputs=Inputs(sessions=log)).fit(log.requests(data.part() == "train").assign(level=0))


@pytest.mark.parametrize(
    ("option", "value"), [("alpha", -1.0), ("pretraining", -1), ("fine_tuning", 1.5), ("history", 0), ("dropout", 1.0)]
)
def test_options_that_cannot_be_are_refused(option: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=option):
        make("dmbgn", levels=[1, 2], **{option: value})


def test_logistic_regression_is_the_maximum_of_its_penalized_likelihood() -> None:
    random = np.random.default_rng(0)
    x, level = random.normal(size=400), random.integers(0, 3, 400)
    y = (random.random(400) < expit(0.8 * x + np.array([-1.0, 0.5, -0.3])[level])).astype(float)
    frame = pd.DataFrame({"account_id": [f"a{i}" for i in range(400)], "level": level, "response": y, "x_1": x})
    model = make("lr", levels=[5, 5, 9], l2=0.01).fit(frame)  # two offers of one amount
    scaled = (x - x.mean()) / x.std()

    def loss(value: np.ndarray) -> float:
        score = value[level] + value[3] * scaled
        return float(np.mean(np.logaddexp(0, score) - y * score) + 0.005 * value[3] ** 2)

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-10}).x
    expected = expit(best[:3, None] + best[3] * scaled)
    np.testing.assert_allclose(model.curve(frame).response, expected, atol=2e-5)


def test_the_truth_is_what_labels_are_drawn_from() -> None:
    data, log = generate(seed=0, sessions=4000), None
    log = SessionLog.build(data.tables)
    frame = log.requests()
    p = data.truth[np.arange(len(frame)), frame["level"]]
    assert abs(p.mean() - frame["response"].mean()) < 4 * np.sqrt(p.mean() / len(p))
    assert metrics.auc(frame["response"], p) > 0.75
    assert set(data.part()) == {"train", "purged", "test"}
    same = generate(seed=0, sessions=4000)
    pd.testing.assert_frame_equal(same.tables.behaviour, data.tables.behaviour)
    destroyed = generate(seed=0, sessions=4000, history="destroyed")
    np.testing.assert_array_equal(destroyed.truth, data.truth)
    assert (destroyed.tables.session["user_id"] != data.tables.session["user_id"]).mean() > 0.99


def test_dmbgn_finds_the_match_that_din_and_dnn_do_not_see_and_not_more_than_there_is() -> None:
    """One seed that no option was chosen on; five, with intervals, and destroyed histories are in the tables."""
    data = generate(seed=77, sessions=4000)
    log, part = SessionLog.build(data.tables), data.part()
    train, test = log.requests(part == "train"), log.requests(part == "test")
    own = test["level"].to_numpy(), np.arange(len(test))
    auc = {"truth": metrics.auc(test["response"], data.truth[part == "test"][own[1], own[0]])}
    for name in ("dnn_offer", "din", "dmbgn"):
        model = make(name, levels=log.levels, seed=77, inputs=Inputs(sessions=log)).fit(train)
        p = model.curve(test).response[own] if name == "dnn_offer" else model.at(test)
        auc[name] = metrics.auc(test["response"], p)
    assert auc["truth"] > auc["dmbgn"] > max(auc["din"], auc["dnn_offer"]) + 0.1


def test_a_model_answers_for_the_sessions_it_is_given_and_for_later_ones(tmp_path: Path) -> None:
    """Read back without sessions, given the log of its training, then one whose sessions have other places."""
    (data, log), model = small(), fitted()
    model.save(tmp_path)
    again, asked = load(tmp_path), log.requests(np.arange(30))
    with pytest.raises(InvalidInput, match="sessions: is missing"):
        again.curve(asked)
    again.given = Inputs(sessions=log)
    np.testing.assert_array_equal(again.curve(asked).response, model.curve(asked).response)
    session = data.tables.session.iloc[::-1].reset_index(drop=True)
    turned = SessionLog.build(SessionTables(session, data.tables.behaviour))
    again.given = Inputs(sessions=turned)
    np.testing.assert_allclose(again.curve(asked).response, model.curve(asked).response, atol=1e-6)
