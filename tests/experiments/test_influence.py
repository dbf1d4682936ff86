"""Influence of incentives on partners: its estimate, the optimum that it moves, and the path to solve and answer."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bipartite import CUSTOMERS, MERCHANTS
from bipartite import graph as bipartite_graph
from numpy.typing import NDArray

from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import Conflict, InvalidInput
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.periods import Period
from shadowprice.experiments.spillover import PassedOn, passed_on
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.limits.attributes import INFLUENCE, read_influence, write_influence
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.window import solve_window
from shadowprice.policy import Choices, Policy

SLOPE = 0.02
LEVELS: dict[Side, tuple[int, ...]] = {"customer": (0, 50, 100), "merchant": (0, 20, 40)}
TEST = Experiment(
    arms=(Arm(name="holdout", kind="holdout", share=5000), Arm(name="policy", kind="policy", share=5000)), salt="s"
)
CAMPAIGN = Campaign(
    name="spring",
    sides={
        "customer": Terms(levels=LEVELS["customer"], cost_basis="on_grant"),
        "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", influence="influence.parquet"),
    },
    budget=Budget(limit=10**6),
    starts_at=datetime(2026, 3, 1, tzinfo=UTC),
)


def served(graph: GraphSnapshot, test: Experiment, slope: float, random: np.random.Generator) -> pd.DataFrame:
    """Requests of all accounts; what merchants are given depends on who they are, as what their customers do.

    A difference between customers by what their merchants are given, without the arm, is not an effect: merchants of
    busy customers are given more.
    """
    treated = test.arm_of(graph.account_id.tolist()) == "policy"
    customer, merchant = graph.edge_index
    busy = random.random(MERCHANTS)
    given = np.where(treated, 10.0, 0.0)
    given[CUSTOMERS:] *= 1 + busy
    tied = np.bincount(customer, minlength=CUSTOMERS)
    received, about = (
        np.bincount(customer, of[merchant], minlength=CUSTOMERS) / tied
        for of in (2 * given, np.r_[np.zeros(CUSTOMERS), busy])
    )
    mean = 1 + 0.3 * treated[:CUSTOMERS] + slope * received + about
    value = np.r_[mean + random.normal(0, 0.3, CUSTOMERS), np.ones(MERCHANTS)]
    side = np.where(graph.is_side[0], "customer", "merchant")
    # A merchant asks twice.
    rows = pd.DataFrame({"account_id": graph.account_id, "side": side, "value": value, "incentive": given})
    return pd.concat([rows, rows[CUSTOMERS:]], ignore_index=True).assign(period=0)


def estimate(seed: int, slope: float) -> list[PassedOn]:
    random = np.random.default_rng(seed)
    graph, test = bipartite_graph(random), replace(TEST, salt=f"salt-{seed}")
    rows = served(graph, test, slope, random)
    return passed_on(rows, (Period(0, test, 0, 0, len(rows)),), graph, arm="policy", baseline="holdout")


def test_the_effect_of_a_minor_unit_is_covered_and_does_not_count_where_there_is_none() -> None:
    found = [{each.side: each for each in estimate(seed, SLOPE)} for seed in range(20)]
    covered = [of["merchant"].effect.low <= SLOPE <= of["merchant"].effect.high for of in found]
    assert sum(covered) >= 17
    assert np.mean([of["merchant"].effect.value for of in found]) == pytest.approx(SLOPE, rel=0.06)
    assert all(of["merchant"].counts for of in found)
    # Customers' incentives move no merchant: every one has the same value.
    assert not any(of["customer"].counts for of in found)
    # The shares of the merchants in what customers receive add up to the customers.
    assert found[0]["merchant"].reach.sum() == pytest.approx(CUSTOMERS)
    counted = [each.counts for seed in range(60) for each in estimate(seed, 0.0)]
    assert len(counted) == 120
    # 2.5 % of 120 are 3; more than 9 have a probability below 0.2 %.
    assert sum(counted) <= 9


def test_the_influence_is_shrunk_by_its_error() -> None:
    reach = np.array([2.0, 0.0])

    def of(value: float, half: float) -> NDArray[np.float64]:
        effect = Effect(value, half / 2, value - half, value + half, 0.95, 99, 0.0)
        return PassedOn("merchant", effect, reach).influence

    np.testing.assert_allclose(of(0.4, 0.2), [0.4 * 0.75 * 2, 0.0])
    np.testing.assert_allclose(of(-0.4, 0.2), [-0.4 * 0.75 * 2, 0.0])
    np.testing.assert_array_equal(of(0.4, 0.5), [0.0, 0.0])


def market(random: np.random.Generator) -> tuple[dict[Side, Curves], NDArray[np.float64]]:
    """Four customers and three merchants, and the share (4, 3) of each merchant in what a customer receives."""
    curves = {
        side: Curves(np.array(levels), np.sort(random.uniform(0, 1, (3, count)), axis=0))
        for (side, levels), count in zip(LEVELS.items(), (4, 3), strict=True)
    }
    tie = random.random((4, 3)) < 0.6
    return curves, tie / np.maximum(tie.sum(axis=1, keepdims=True), 1)


def joint(curves: dict[Side, Curves], share: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """True value and cost of all 3⁷ ways to give four customers and three merchants their levels."""
    ways = np.array(list(product(range(3), repeat=7)))
    given = np.array(LEVELS["merchant"])[ways[:, 4:]]
    own = sum(curves["customer"].response[ways[:, each], each] for each in range(4))
    own = own + sum(curves["merchant"].response[ways[:, 4 + each], each] for each in range(3))
    return own + SLOPE * (given @ share.T).sum(axis=1), np.array([0, 50, 100])[ways[:, :4]].sum(axis=1) + given.sum(
        axis=1
    )


def test_the_price_finds_the_joint_optimum_that_own_responses_miss() -> None:
    gains = []
    for seed in range(30):
        curves, share = market(np.random.default_rng(seed))
        value, cost = joint(curves, share)
        counted = {**curves, "merchant": replace(curves["merchant"], influence=SLOPE * share.sum(axis=0))}
        ahead: dict[Side, float] = {"customer": 4.0, "merchant": 3.0}
        won = {}
        for name, by in (("counted", counted), ("own", curves)):
            solved = solve_window(CAMPAIGN, by, ahead, 180.0)
            price = [solved.prices[CAMPAIGN.budget.name]]
            level = {
                side: Choices.marked(CAMPAIGN, side, of).decide(price, 0.0, range(of.accounts)).level
                for side, of in by.items()
            }
            way = int(np.ravel_multi_index(np.r_[level["customer"], level["merchant"]], (3,) * 7))
            assert cost[way] <= 180 + 1e-9
            if name == "counted":
                # No way to give as much is worth more: the rule is exact where influence is a line.
                assert value[way] == pytest.approx(value[cost <= cost[way]].max(), abs=1e-6)
                assert solved.primal >= value[way] - 1e-6
                assert solved.primal >= value[cost <= 180].max() - 1e-6
            won[name] = value[way]
        gains.append(won["counted"] - won["own"])
    gain = np.array(gains)
    assert gain.mean() - 2 * gain.std(ddof=1) / np.sqrt(gain.size) > 0


def test_solve_and_answer_read_one_file_and_the_predicted_response_is_not_moved(tmp_path: Path) -> None:
    write_influence(
        tmp_path / "influence.parquet",
        {"account_id": ["m1", "m2", "c1"], "side": ["merchant", "merchant", "customer"], INFLUENCE: [0.1, -0.2, 9.0]},
    )
    coverage = CAMPAIGN.coverage(CAMPAIGN.coverage().reading(tmp_path).attributes)
    curves = Curves(np.array(LEVELS["merchant"]), np.tile([[0.1], [0.2], [0.3]], 3))
    asked = SideRequests("merchant", ["m2", "m1", "stranger"])
    marked = coverage.mark(asked, curves)
    np.testing.assert_array_equal(marked.influence, [-0.2, 0.1, 0.0])
    np.testing.assert_array_equal(marked.response, curves.response)
    policy = Policy(CAMPAIGN, coverage, [0.01], 0.0)
    answered = policy.choices(policy.eligible(asked), curves)
    stored = Choices.marked(CAMPAIGN, "merchant", marked)
    np.testing.assert_array_equal(answered.value, stored.value)
    np.testing.assert_allclose(answered.value[:, 1], curves.response[:, 1] + 0.1 * np.array(LEVELS["merchant"]))
    assert answered.decide([0.06], 0.0, ["1", "2", "3"]).level.tolist() == [0, 2, 0]
    # Parts, copies and means keep it.
    both = Curves.concatenate([marked.take([0]), marked.between(np.s_[1:])])
    np.testing.assert_array_equal(both.influence, marked.influence)
    np.testing.assert_allclose(marked.mean().influence, [-0.1 / 3])
    # New accounts are not looked up for columns that no condition reads.
    assert coverage.lacking(asked) == []


def test_without_the_field_nothing_is_read_and_values_are_as_before(tmp_path: Path) -> None:
    sides = {side: replace(terms, influence="") for side, terms in CAMPAIGN.sides.items()}
    plain = replace(CAMPAIGN, sides=sides)
    assert "influence" not in plain.to_dict()["sides"]["merchant"]
    assert Campaign.from_dict(CAMPAIGN.to_dict()) == CAMPAIGN
    assert plain.coverage().reading(tmp_path).attributes == {}
    curves = Curves(np.array(LEVELS["merchant"]), np.random.default_rng(0).random((3, 5)))
    assert plain.coverage().mark(SideRequests("merchant", list("abcde")), curves) is curves
    own = Choices.marked(plain, "merchant", curves).value
    np.testing.assert_array_equal(own, curves.response.astype(np.float64))


def test_what_would_decide_by_another_influence_than_the_solve_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "influence.parquet"
    with pytest.raises(InvalidInput, match=r"influence\.parquet"):
        CAMPAIGN.coverage().reading(tmp_path)
    with pytest.raises(InvalidInput, match="was not read"):
        CAMPAIGN.coverage().influence(SideRequests("merchant", ["m"]))
    columns = {"account_id": ["m"], "side": ["merchant"], INFLUENCE: [np.nan]}
    write_influence(file, columns)
    with pytest.raises(InvalidInput, match="influence"):
        read_influence(file, "merchant")
    with pytest.raises(Conflict, match="give another name"):
        write_influence(file, columns)
    for wrong in ("../influence.parquet", "influence.csv"):
        with pytest.raises(InvalidInput, match="influence"):
            Terms(levels=(0, 10), influence=wrong)
    with pytest.raises(InvalidInput, match=r"campaign\.sides\.merchant\.influence"):
        replace(CAMPAIGN, policy="flat")
