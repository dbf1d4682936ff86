"""S2's models on deliveries whose truth is known: what they read, what they give, what they refuse."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.datasets.funds import FundOptions, Funds, draw
from shadowprice.encoders.behaviour import BehaviourEncoder, Behaviours
from shadowprice.errors import InvalidInput
from shadowprice.learning.recipes import Training
from shadowprice.responses import make
from shadowprice.responses.amounts.losses import LOSSES
from shadowprice.responses.funds import model as model_module
from shadowprice.responses.funds import network as network_module
from shadowprice.responses.funds import training as module
from shadowprice.responses.funds.delivered import DeliveryModel
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.funds.network import BODIES, EXPERT_WIDTH, EXPERTS, Mmoe
from shadowprice.responses.funds.rows import MOST_EVENTS, EventHistory, unix_seconds
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig

QUICK = TrainingConfig(learning_rate=5e-3, epochs=3, batch_rows=512)
FUNDS = range(4)


@pytest.fixture(scope="module")
def drawn() -> Funds:
    return draw(FundOptions(users=300, merchants=40, funds=4, deliveries=6), seed=3)


def build(name: str, drawn: Funds, **options: object) -> FundModel:
    given = {"behaviours": drawn.behaviours(), "snapshots": [drawn.graph()] if name == "esdpm" else []}
    given |= {key: options.pop(key) for key in list(options) if key in given}
    model = make(name, levels=FUNDS, inputs=Inputs(**given), **{"training": QUICK, **options})
    assert isinstance(model, FundModel)
    return model


@pytest.fixture(scope="module")
def esdpm(drawn: Funds) -> FundModel:
    return build("esdpm", drawn).fit(drawn.frame())


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("esdpm", "snapshots", "snapshots: is missing: model 'esdpm' reads it; give inputs=Inputs"),
        ("esdpm", "behaviours", "behaviours: is missing: model 'esdpm' reads it"),
        ("esdpm_ncg", "behaviours", "behaviours: is missing"),
    ],
)
def test_what_is_not_given_is_named(name: str, missing: str, message: str, drawn: Funds) -> None:
    with pytest.raises(InvalidInput, match=message):
        build(name, drawn, **{missing: () if missing == "snapshots" else None}).fit(drawn.frame())


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("amount", None, "amount: is missing: 'esdpm_ncg' learns the amount of a conversion"),
        ("amount", 0.0, r"amount: must be above 0 exactly where the row converted.*rows"),
        ("amount", np.nan, r"amount: must be known and finite.*rows: 0"),
        ("clicked", 0.0, r"clicked: must be 1 where the row converted"),
        ("clicked", 0.5, r"clicked: must be 0 or 1"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(column: str, value: float | None, message: str, drawn: Funds) -> None:
    frame = drawn.frame()
    frame = frame.drop(columns=column) if value is None else frame.assign(**{column: value})
    with pytest.raises(InvalidInput, match=message):
        build("esdpm_ncg", drawn).fit(frame)


def test_the_value_is_the_probability_times_the_clipped_amount(esdpm: FundModel, drawn: Funds) -> None:
    asked = drawn.requests().head(50)
    found = esdpm.expect(asked)
    mu, sigma = (torch.from_numpy(each) for each in (found.mu, found.sigma))
    np.testing.assert_allclose(found.amount, LOSSES["esj"].amount(mu, sigma).numpy(), rtol=1e-12)
    expected = 100 * found.probability * np.minimum(found.amount, esdpm.outputs.cap)
    np.testing.assert_allclose(esdpm.value(asked), expected, rtol=1e-6)
    np.testing.assert_allclose(esdpm.curve(asked).response, found.probability, rtol=1e-6)
    amounts = drawn.deliveries["amount"]
    assert esdpm.outputs.cap <= amounts.max() / 100
    assert found.sigma.min() >= LOSSES["esj"].floor


def test_the_expected_log_is_below_the_log_of_the_expectation_and_is_the_chance_times_the_mean_log(
    esdpm: FundModel, drawn: Funds
) -> None:
    asked = drawn.requests().head(50)
    found, log = esdpm.expect(asked), esdpm.log_value(asked)
    np.testing.assert_allclose(log, found.probability * found.mu, rtol=1e-6)
    assert (log < np.log1p(found.probability * found.amount)).all()
    plain = build("esmm", drawn).fit(drawn.frame())
    seen = drawn.deliveries["amount"]
    mean = plain.log_value(asked) / plain.curve(asked).response
    assert mean.std() < 1e-6
    assert mean.mean() == pytest.approx(np.log1p(seen[seen > 0] / 100).mean(), rel=0.05)


@pytest.mark.parametrize("body", sorted(BODIES))
@pytest.mark.parametrize("together", [3, 64])
def test_all_pairs_of_accounts_and_offers_are_those_side_by_side(
    body: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "TOGETHER", together)
    torch.manual_seed(0)
    made = BODIES[body](3, 20)
    account, offer = torch.randn(7, 15), torch.randn(4, 5)
    side_by_side = torch.stack([torch.cat([account, each.expand(7, -1)], dim=1) for each in offer], dim=1)
    expected = made(side_by_side.flatten(0, 1)).view(7, 4, 3)
    torch.testing.assert_close(made.pairs(account, offer), expected, rtol=1e-5, atol=1e-6)


def test_a_task_has_its_own_mean_of_the_experts_and_its_own_tower() -> None:
    torch.manual_seed(0)
    tasks, given = 3, torch.randn(8, 11, dtype=torch.float64, requires_grad=True)
    made = Mmoe(tasks, 11).double()
    found = made(given)
    first = given @ made.first.weight.T + made.first.bias
    expert = first[:, : EXPERTS * EXPERT_WIDTH].clamp(min=0).reshape(8, EXPERTS, EXPERT_WIDTH)
    for task in range(tasks):
        own = slice(EXPERTS * (EXPERT_WIDTH + task), EXPERTS * (EXPERT_WIDTH + task + 1))
        share = first[:, own].exp() / first[:, own].exp().sum(dim=1, keepdim=True)
        x = (share[:, :, None] * expert).sum(dim=1)
        for layer in made.towers.layers:
            x = (x @ layer.weight[task] + layer.bias[task]).clamp(min=0)
        expected = (x @ made.towers.last.weight[task] + made.towers.last.bias[task]).squeeze(1)
        torch.testing.assert_close(found[:, task], expected, rtol=1e-10, atol=1e-12)
        asked = (given, made.first.weight)
        ours, theirs = (
            torch.autograd.grad(each.sum(), asked, retain_graph=True) for each in (found[:, task], expected)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_on_threads_the_values_are_those_of_one_account_after_another(
    esdpm: FundModel, drawn: Funds, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = drawn.requests().head(60)
    whole = esdpm.value(asked)
    monkeypatch.setattr(model_module, "CHUNK", 7)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        np.testing.assert_allclose(esdpm.value(asked), whole, rtol=1e-5)
    finally:
        torch.set_num_threads(before)


def test_a_delivery_has_no_cost_in_money(esdpm: FundModel, drawn: Funds) -> None:
    with pytest.raises(InvalidInput, match="cost: a delivered fund costs no money"):
        esdpm.cost(drawn.users)


def test_the_graph_is_read_and_only_by_the_model_that_has_one(esdpm: FundModel, drawn: Funds) -> None:
    asked = drawn.requests().head(20)
    before = esdpm.value(asked)
    try:
        esdpm.given = replace(esdpm.given, snapshots=[drawn.graph().shuffled(1)])
        assert np.abs(esdpm.value(asked) / before - 1).max() > 1e-3
    finally:
        esdpm.given = replace(esdpm.given, snapshots=[drawn.graph()])
    np.testing.assert_array_equal(esdpm.value(asked), before)


def test_a_row_sees_only_what_was_before_it(drawn: Funds) -> None:
    """A planted event after the request changes nothing; the same event before it does."""
    rows = drawn.frame().drop_duplicates("account_id").head(40).reset_index(drop=True)
    known = drawn.behaviours()
    at = pd.to_datetime(rows["snapshot_at"] + 60, unit="s", utc=True)
    planted = pd.DataFrame({"account_id": rows["account_id"], "level": 3, "action": "purchase", "ts": at})
    plain, after = (EventHistory(each, 4) for each in (known, pd.concat([known, planted], ignore_index=True)))
    seconds = rows["snapshot_at"].to_numpy()
    for name in ("offer", "action", "ago", "there"):
        before, now = (getattr(each.before(rows["account_id"], seconds), name) for each in (plain, after))
        assert torch.equal(before, now)
    more = after.before(rows["account_id"], seconds + 120).there.sum()
    assert more > plain.before(rows["account_id"], seconds + 120).there.sum()


@pytest.mark.parametrize("name", ["esdpm", "esdpm_ncg"])
def test_rows_without_an_instant_are_refused_in_training_and_in_scoring(name: str, drawn: Funds) -> None:
    """The purchase of every converted delivery is planted in the behaviour: without an instant it would be read."""
    frame, asked = drawn.frame(), drawn.requests().head(20)
    bought = frame[frame["response"] == 1]
    leak = bought[["account_id", "level"]].assign(
        action="purchase", ts=pd.to_datetime(bought["snapshot_at"] + 60, unit="s", utc=True)
    )
    planted = pd.concat([drawn.behaviours(), leak], ignore_index=True)
    model = build(name, drawn, behaviours=planted)
    with pytest.raises(InvalidInput, match=r"snapshot_at: is missing.*give the unix seconds"):
        model.fit(frame.drop(columns="snapshot_at"))
    with pytest.raises(InvalidInput, match=r"snapshot_at: must be known and finite.*rows: 0"):
        model.fit(frame.assign(snapshot_at=[np.nan, *frame["snapshot_at"][1:]]))
    model.fit(frame)
    with pytest.raises(InvalidInput, match="snapshot_at: is missing"):
        model.value(asked.drop(columns="snapshot_at"))


def test_the_latest_events_are_those_of_a_loop(drawn: Funds) -> None:
    random = np.random.default_rng(0)
    events = drawn.behaviours()
    events["seconds"] = unix_seconds(events["ts"])
    rows = drawn.users[["account_id"]].sample(60, random_state=2).reset_index(drop=True)
    rows.loc[0, "account_id"] = "nobody"
    at = random.uniform(events["seconds"].min(), events["seconds"].max(), len(rows))
    found = EventHistory(events, 4).before(rows["account_id"], at)
    for row, (account, instant) in enumerate(zip(rows["account_id"], at, strict=True)):
        own = events[(events["account_id"] == account) & (events["seconds"] < instant)]
        own = own.sort_values("seconds", ascending=False).head(MOST_EVENTS)
        assert int(found.there[row].sum()) == len(own)
        assert sorted(found.offer[row][found.there[row]].tolist()) == sorted(own["level"])
        days = (instant - own["seconds"]) / 86_400
        np.testing.assert_allclose(found.ago[row][found.there[row]], np.log1p(days), atol=1e-4)


def events(there: torch.Tensor, seed: int = 0) -> Behaviours:
    random = torch.Generator().manual_seed(seed)
    shape = there.shape
    return Behaviours(
        torch.randint(0, 4, shape, generator=random),
        torch.randint(0, 4, shape, generator=random),
        torch.rand(shape, generator=random),
        there,
    )


def test_neither_padding_nor_the_order_of_events_changes_a_behaviour_vector() -> None:
    torch.manual_seed(0)
    encoder = BehaviourEncoder(4, 4).eval()
    there = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5])
    given = events(there)
    whole = encoder(given)
    assert whole.shape == (3, 128)
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = Behaviours(*(getattr(given, name)[:, order] for name in ("offer", "action", "ago", "there")))
    torch.testing.assert_close(encoder(moved), whole)
    other = events(there, seed=7)
    mixed = Behaviours(
        *(torch.where(there, getattr(given, n), getattr(other, n)) for n in ("offer", "action", "ago")), there
    )
    torch.testing.assert_close(encoder(mixed), whole)
    short = given.take(torch.tensor([1]))
    cut = Behaviours(*(getattr(short, name)[:, :2] for name in ("offer", "action", "ago", "there")))
    torch.testing.assert_close(encoder(cut), whole[[1]])


def test_on_a_large_graph_a_step_sees_a_sampled_neighborhood(drawn: Funds, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fanouts above every degree the sample is the neighborhood, and its embedding that of the whole graph."""
    model = build("esdpm", drawn, training=TrainingConfig(epochs=1)).fit(drawn.frame())
    graph, rows = model._graph(), model._rows(drawn.frame().head(30))
    monkeypatch.setattr(module, "WHOLE_GRAPH", 10)
    monkeypatch.setattr(module, "FANOUTS", (1000, 1000))
    part, node = module.Neighborhoods(graph, 0).of(rows.node, 0)
    assert part is not graph
    with torch.no_grad():
        whole, sampled = model.network.embed_graph(graph)[rows.node], model.network.embed_graph(part)[node]
    torch.testing.assert_close(sampled, whole, atol=1e-5, rtol=1e-4)


def test_without_clicks_the_conversion_has_one_output_and_without_amounts_only_conversions_are_learnt(
    drawn: Funds,
) -> None:
    frame = drawn.frame()
    assert build("esmm", drawn).fit(frame).outputs.steps == 2
    alone = build("esmm", drawn).fit(frame.drop(columns=["clicked", "amount"]))
    assert alone.outputs.steps == 1
    asked = drawn.requests().head(5)
    np.testing.assert_allclose(alone.value(asked), 100 * alone.curve(asked).response, rtol=1e-6)


def test_what_a_model_was_fitted_with_is_asked_for_when_it_is_read_back(esdpm: FundModel, drawn: Funds) -> None:
    again, asked = make("esdpm", levels=FUNDS), drawn.requests().head(3)
    again.restore(esdpm.state())
    for lost in ("snapshots", "behaviours"):
        again.given = esdpm.given.only(esdpm.given.there - {lost})
        with pytest.raises(InvalidInput, match=f"{lost}: is missing"):
            again.value(asked)
    again.given = esdpm.given
    np.testing.assert_array_equal(again.value(asked), esdpm.value(asked))
    with pytest.raises(InvalidInput, match="loss: must be one of"):
        build("esdpm_ncg", drawn, loss="huber")


def test_a_spread_of_the_offer_is_the_same_for_every_account_and_learnt_for_each_offer(drawn: Funds) -> None:
    options = {"loss": "esj_mass", "given_click": True, "offer_spread": True}
    model = build("esdpm_ncg", drawn, **options).fit(drawn.frame())
    asked = drawn.requests().head(30)
    found = model.expect(asked)
    assert (found.sigma == found.sigma[:, :1]).all()
    assert np.ptp(found.sigma[:, 0]) > 0
    assert (np.ptp(found.mu, axis=1) > 0).all()
    again = build("esdpm_ncg", drawn, **options)
    again.restore(model.state())
    np.testing.assert_array_equal(again.value(asked), model.value(asked))
    assert again.outputs.given_click
    with pytest.raises(InvalidInput, match="offer_spread: the model was fitted with it"):
        build("esdpm_ncg", drawn).restore(model.state())


def test_a_spread_of_the_offer_starts_at_that_of_its_own_rows() -> None:
    """Two kinds of funds with spreads of 0.5 and 2: none epoch from the start both are there, without a tower."""
    wished = draw(FundOptions(users=3000, merchants=60, funds=4, censored=True), seed=5)
    options = {"loss": "esj_mass", "given_click": True, "offer_spread": True}
    model = build("esdpm_ncg", wished, training=TrainingConfig(epochs=0), **options).fit(wished.frame())
    sigma = model.expect(wished.requests().head(2)).sigma[:, 0]
    assert (sigma[::2] < 0.9).all()
    assert (np.abs(sigma[1::2] - 2) < 0.3).all()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mmoe", {"given_click": True}, "given_click: asks for a model with the chain"),
        ("mtl_mse", {"offer_spread": True}, "offer_spread: the loss mse has no sigma"),
    ],
)
def test_an_option_that_a_model_cannot_have_is_refused(
    name: str, options: dict[str, bool], message: str, drawn: Funds
) -> None:
    with pytest.raises(InvalidInput, match=message):
        build(name, drawn, **options)
    with pytest.raises(InvalidInput, match="clicked: is missing: given_click=True asks"):
        build("esdpm_ncg", drawn, given_click=True).fit(drawn.frame().drop(columns="clicked"))


def test_biases_and_spreads_of_offers_do_not_decay(esdpm: FundModel, drawn: Funds) -> None:
    spread = build("esdpm", drawn, offer_spread=True).fit(drawn.frame()).network
    assert esdpm.network is not None
    assert spread is not None
    for network, more in ((esdpm.network, 0), (spread, 1)):
        weights, fixed = network.parameter_groups()
        assert "weight_decay" not in weights
        assert fixed["weight_decay"] == 0.0
        grouped = [id(each) for group in (weights, fixed) for each in group["params"]]
        assert sorted(grouped) == sorted(map(id, network.parameters()))
        names = {id(each): name for name, each in network.named_parameters()}
        kept = {names[id(each)] for each in fixed["params"]}
        assert "body.towers.last.bias" in kept
        assert ("last.own.weight" in kept) == bool(more)
        assert all(name.endswith("bias") or name == "last.own.weight" for name in kept)


def test_values_of_segments_claim_no_calibration() -> None:
    with pytest.raises(InvalidInput, match="calibration: must be none, got 'validation'"):
        Training("esdpm", "none", "validation").check("segments")
    model = DeliveryModel({})
    with pytest.raises(InvalidInput, match="calibration: values of segments are not calibrated"):
        model.calibrate(Inputs(), {})
    with pytest.raises(InvalidInput, match="calibration"):
        model.correct("customer", 0.1)
