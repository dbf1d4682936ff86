"""Features of offers: a fund that was never delivered is scored by them, and strange lists are refused by name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.datasets.funds import FundOptions, Funds, draw
from shadowprice.errors import InvalidInput
from shadowprice.responses import make
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.funds.network import HIDDEN
from shadowprice.responses.funds.offers import OfferInputs, fit_offers
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig

LEARNING = TrainingConfig(learning_rate=5e-3, decay=0.95, epochs=10, patience=4, weight_decay=1.0, batch_rows=1024)
OFFERS = pd.DataFrame({"level": [2, 0, 1], "x_return": [0.06, 0.02, 0.04], "x_fee": [0.01, np.nan, 0.03]})


@pytest.fixture(scope="module")
def drawn() -> Funds:
    return draw(FundOptions(users=1500, merchants=50, funds=8, deliveries=8), seed=11)


def launched(drawn: Funds, fund: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Deliveries and behaviour as they would be if a fund had never been delivered or seen."""
    frame, behaviours = drawn.frame(), drawn.behaviours()
    return (
        frame[frame["level"] != fund].reset_index(drop=True),
        behaviours[behaviours["level"] != fund].reset_index(drop=True),
    )


def fitted(drawn: Funds, fund: int, offers: pd.DataFrame) -> FundModel:
    frame, _ = launched(drawn, fund)
    model = make("mtl_ziln", levels=range(8), inputs=Inputs(offers=offers), training=LEARNING, new_offers=True)
    assert isinstance(model, FundModel)
    return model.fit(frame)


@pytest.mark.parametrize("fund", [1, 5])
def test_a_new_fund_is_scored_near_its_known_truth(drawn: Funds, fund: int) -> None:
    found, truth = fitted(drawn, fund, drawn.offers).expect(drawn.requests()), drawn.convert.mean(axis=1)
    error = abs(found.probability[fund].mean() - truth[fund])
    assert error < 0.4 * truth[fund]
    mu = found.mu.mean(axis=1)
    assert mu[fund - 1] < mu[fund] < mu[fund + 2]
    assert mu[fund] == pytest.approx(drawn.mu[fund].mean(), abs=0.5)


def test_a_new_fund_with_the_features_of_a_known_one_gets_the_scores_of_that_one(drawn: Funds) -> None:
    twin = drawn.offers.copy()
    twin.loc[3, ["x_return", "x_lot"]] = twin.loc[6, ["x_return", "x_lot"]]
    found = fitted(drawn, 3, twin).expect(drawn.requests())
    apart = np.abs(found.mu - found.mu[3]).mean(axis=1)
    assert apart[6] < 0.35
    assert apart[2] > 2 * apart[6]
    assert np.corrcoef(found.probability[3], found.probability[6])[0, 1] > 0.8
    assert np.median(found.probability[3] / found.probability[6]) == pytest.approx(1, abs=0.4)


def test_a_fund_launched_after_training_is_scored_by_the_stored_model(drawn: Funds) -> None:
    """Scores of the fitted funds stay; the ninth fund has the features of the first and scores near it."""
    model = make("esmm", levels=range(8), inputs=Inputs(offers=drawn.offers), training=LEARNING, new_offers=True)
    assert isinstance(model, FundModel)
    model.fit(drawn.frame())
    more = pd.concat([drawn.offers, drawn.offers.head(1).assign(level=8)], ignore_index=True)
    later = make("esmm", levels=range(9), inputs=Inputs(offers=more))
    assert isinstance(later, FundModel)
    later.restore(model.state())
    asked = drawn.requests().head(400)
    before, now = model.curve(asked).response, later.curve(asked).response
    np.testing.assert_allclose(now[:8], before, rtol=1e-6)
    assert now[8].mean() == pytest.approx(before[0].mean(), rel=0.25)
    with pytest.raises(InvalidInput, match="levels: the model has 8 offers, not 9"):
        make("esmm", levels=range(9)).restore(model.state())
    with pytest.raises(InvalidInput, match=r"offers.x_lot: is missing; the model was fitted with it"):
        make("esmm", levels=range(9), inputs=Inputs(offers=more.drop(columns="x_lot"))).restore(model.state())
    with pytest.raises(InvalidInput, match=r"offers.x_fee: is unknown to the model"):
        make("esmm", levels=range(9), inputs=Inputs(offers=more.assign(x_fee=0.1))).restore(model.state())
    with pytest.raises(InvalidInput, match=r"offers.level: must have the 8 offers"):
        make("esmm", levels=range(7), inputs=Inputs(offers=more.head(7))).restore(model.state())


def test_events_on_an_unknown_fund_count_by_action_and_age_alone(drawn: Funds) -> None:
    frame, behaviours = launched(drawn, 3)
    inputs = Inputs(behaviours=behaviours, offers=drawn.offers)
    brief = replace(LEARNING, epochs=1)
    model = make("esdpm_ncg", levels=range(8), inputs=inputs, training=brief, new_offers=True)
    assert isinstance(model, FundModel)
    model.fit(frame)
    asked = drawn.requests().head(30)
    event = pd.DataFrame(
        {"account_id": asked["account_id"], "action": "purchase", "ts": pd.Timestamp("2026-03-20", tz="UTC")}
    )
    found = {}
    for level in (3, 6):
        model.given = replace(model.given, behaviours=event.assign(level=level))
        found[level] = model.curve(asked).response
    assert np.abs(found[3] - found[6]).max() > 1e-4
    assert model.network is not None
    assert model.network.behaviour is not None
    assert (model.network.behaviour.offer.weight[0] == 0).all()


def test_features_are_standardized_over_the_delivered_offers_in_order_of_the_levels() -> None:
    found = fit_offers(OFFERS, np.array([True, False, True]), new=True)
    assert found.identity.tolist() == [1, 0, 2]
    np.testing.assert_allclose(found.numeric[:, 0], [-1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found.numeric[:, 2], [1, 0, 0])
    again = OfferInputs.from_dict(found.to_dict())
    np.testing.assert_array_equal(again.numeric, found.numeric)
    assert again.identity.tolist() == found.identity.tolist()


def column(**values: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda offers: offers.assign(**values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda offers: offers.drop(columns="level"), r"offers.level: is missing"),
        (column(level=[0, 1, 1]), r"offers.level: must hold every number from 0 to 2 once"),
        (lambda offers: offers.head(2), r"offers.level: must hold every number from 0 to 2 once"),
        (column(fee=0.1), r"offers.fee: is not read; name the features of an offer x_…"),
        (column(x_fee="low"), r"offers.x_fee: must hold numbers"),
        (column(x_fee=[0.1, np.inf, 0.2]), r"offers.x_fee: must be finite.*rows: 1"),
    ],
)
def test_wrong_columns_are_refused_by_name(change: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fit_offers(change(OFFERS), np.ones(3, dtype=bool))


def test_an_offer_without_deliveries_and_without_features_is_refused(drawn: Funds) -> None:
    frame, behaviours = launched(drawn, 3)
    for offers in (None, drawn.offers.assign(x_return=np.nan, x_lot=np.nan)):
        model = make(
            "esdpm_ncg", levels=range(8), inputs=Inputs(behaviours=behaviours, offers=offers), training=LEARNING
        )
        with pytest.raises(InvalidInput, match="offers: offer 3 has neither a labeled delivery nor features"):
            model.fit(frame)


def test_a_new_offer_is_refused_by_a_model_that_does_not_learn_to_score_it(drawn: Funds) -> None:
    frame, _ = launched(drawn, 3)
    given, brief = Inputs(offers=drawn.offers), replace(LEARNING, epochs=1)
    with pytest.raises(InvalidInput, match="offers: offer 3 has no labeled delivery: fit the model with new_offers=Tr"):
        make("esmm", levels=range(8), inputs=given, training=brief, new_offers=False).fit(frame)
    opened = make("esmm", levels=range(8), inputs=given, training=brief).fit(frame)
    assert opened.state().meta["offers"]["new"] is True
    state = make("esmm", levels=range(8), inputs=given, training=brief).fit(drawn.frame()).state()
    more = pd.concat([drawn.offers, drawn.offers.head(1).assign(level=8)], ignore_index=True)
    with pytest.raises(InvalidInput, match=r"offers.level: offer 8 is new: fit the model with new_offers=True"):
        make("esmm", levels=range(9), inputs=Inputs(offers=more)).restore(state)
    # Models stored before this option all hid identities.
    del state.meta["offers"]["new"]
    make("esmm", levels=range(9), inputs=Inputs(offers=more)).restore(state)


def test_identities_are_hidden_in_training_alone_and_only_where_features_stand_in_for_them(drawn: Funds) -> None:
    given, brief = Inputs(offers=drawn.offers), replace(LEARNING, epochs=1)
    model = make("esmm", levels=range(8), inputs=given, training=brief, new_offers=True)
    plain = make("esmm", levels=range(8), training=brief, new_offers=True)
    usual = make("esmm", levels=range(8), inputs=given, training=brief)
    for each, varied in ((model, True), (plain, False), (usual, False)):
        assert isinstance(each, FundModel)
        network = each.fit(drawn.frame()).network
        assert network is not None
        account, offer = torch.zeros(4000, network.width), torch.full((4000,), 4)
        torch.manual_seed(0)
        hidden = network.train()(account, offer)[:, 0]
        known = network.eval()(account[:1], offer[:1])[:, 0]
        share = float((hidden - known).abs().gt(1e-6).float().mean())
        assert share == pytest.approx(HIDDEN if varied else 0.0, abs=0.03)
