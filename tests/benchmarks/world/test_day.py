"""Decisions on a day of ``world`` at equal true spend, and the generator's own posterior."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.world.day import decided_by, value_at_budget, world_day
from benchmarks.world.information import Belief, full_information
from benchmarks.world.posterior import posterior_curves
from benchmarks.world.training_set import training_set
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.world import WorldOptions, customer_response, generator, merchant_response
from shadowprice.datasets.world.graph import draw_graph
from shadowprice.learning.training_set import TrainingSet
from shadowprice.pacing.replay.compare import Setting, attainable

OPTIONS = {"customers": 500, "merchants": 150, "both": 15, "day_requests": 2600}
Day = tuple[Dataset, TrainingSet, Setting]


@pytest.fixture(scope="module")
def day() -> Day:
    dataset, data = training_set("world", 3, **OPTIONS)
    return dataset, data, world_day(dataset, data, 3)


def test_the_truth_earns_all_of_the_attainable_gain_and_a_model_without_accounts_none(day: Day) -> None:
    _, _, setting = day
    judged = attainable(setting)
    assert judged.share(value_at_budget(setting)) == pytest.approx(1.0, abs=5e-3)
    alike: dict[Side, Curves] = {}
    for side, people in setting.outcomes.truth.items():
        asked = people.of(setting.day.account_id[setting.day.side == side]).response.mean(axis=1, keepdims=True)
        alike[side] = Curves(people.curves.levels, np.repeat(asked, people.curves.accounts, axis=1))
    assert judged.share(value_at_budget(decided_by(setting, alike))) == pytest.approx(0.0, abs=5e-3)


def test_believing_in_twice_the_response_of_both_sides_changes_nothing_at_equal_spend(day: Day) -> None:
    _, _, setting = day
    # Merchants are charged on grant, so that twice the response is as half the price.
    curves = {side: people.curves for side, people in setting.outcomes.truth.items()}
    only_merchants = replace(
        setting,
        day=setting.day.take(setting.day.side == "merchant"),
        campaign=replace(setting.campaign, budget=replace(setting.campaign.budget, limit=15_000)),
    )
    twice = {side: Curves(each.levels, 2 * each.response) for side, each in curves.items()}
    assert value_at_budget(decided_by(only_merchants, twice)) == pytest.approx(
        value_at_budget(only_merchants), rel=1e-6
    )


def test_the_posterior_of_the_strengths_covers_the_true_ones_as_often_as_it_says() -> None:
    options = WorldOptions(customers=1500, merchants=400, both=40)
    graph = draw_graph(options, generator(0))
    known = full_information(graph, options)
    missed = graph.influence(options.rho) - known.mean
    distance = np.einsum("ni,nij,nj->n", missed, np.linalg.inv(known.covariance), missed)
    # Chi-squared with two degrees of freedom: mean 2, median 2·ln 2; accounts share partners.
    assert distance.mean() == pytest.approx(2.0, abs=0.15)
    assert np.median(distance) == pytest.approx(2 * np.log(2), abs=0.12)


def test_the_world_still_draws_what_its_own_graph_says(day: Day) -> None:
    dataset, data, setting = day
    options = WorldOptions(**OPTIONS)
    graph = draw_graph(options, generator(3))
    moved = graph.influence(options.rho)
    place = pd.Index(graph.ids).get_indexer(setting.outcomes.truth["customer"].account_id)
    expected = customer_response(moved[place])
    np.testing.assert_allclose(setting.outcomes.truth["customer"].curves.response, expected, rtol=1e-5)
    assert len(data.rows["customer"]) == OPTIONS["customers"] * options.trials
    assert dataset.truth is not None


def test_posterior_curves_are_the_mean_over_draws_weighted_by_the_likelihood_of_the_own_rows(day: Day) -> None:
    dataset, data, _ = day
    options = WorldOptions(**OPTIONS)
    graph = draw_graph(options, generator(3))
    known = full_information(graph, options)
    random = np.random.default_rng(0)
    for side, respond in (("customer", customer_response), ("merchant", merchant_response)):
        account = data.serving[side]["account_id"].iloc[7]
        at = int(np.flatnonzero(graph.ids == account)[0])
        one = known.take(np.array([at]))
        alone = replace(
            data,
            rows={s: rows[rows["account_id"] == account].reset_index(drop=True) for s, rows in data.rows.items()},
            serving={side: pd.DataFrame({"account_id": [account]})},
        )
        drawn = respond(random.multivariate_normal(one.mean[0], one.covariance[0], 200_000))
        rows = alone.rows[side]
        mean = drawn[rows["level"].to_numpy()]
        if side == "customer":
            hit = rows["response"].to_numpy()[:, None] > 0.5
            likelihood = np.where(hit, mean, 1 - mean).prod(axis=0)
        else:
            outcome = dataset.tables.outcome.set_index("request_id").loc[rows["request_id"]]
            count = outcome["share_count"].to_numpy(dtype=float)[:, None]
            before = np.maximum(outcome["share_count_before"].to_numpy(dtype=float), 1)[:, None]
            log = (count * np.log(mean) - before * mean).sum(axis=0)
            likelihood = np.exp(log - log.max())
        for own, weight in ((False, np.ones(drawn.shape[1])), (True, likelihood)):
            found = _of(alone, dataset, graph.ids[[at]], one, side, own)
            np.testing.assert_allclose(found, drawn @ weight / weight.sum(), rtol=0.01)


def _of(data: TrainingSet, dataset: Dataset, ids: np.ndarray, known: Belief, side: Side, own: bool) -> np.ndarray:
    return posterior_curves(data, dataset.tables, ids, known, own_outcomes=own)[side].response[:, 0]
