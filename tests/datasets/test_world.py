import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets import load
from shadowprice.datasets.world import (
    CUSTOMER_LEVELS,
    MERCHANT_LEVELS,
    WorldOptions,
    customer_response,
    drifted_response,
    drifted_truth,
    generator,
    merchant_response,
    own_change_point_response,
)
from shadowprice.datasets.world.graph import FAR, draw_graph
from shadowprice.errors import InvalidInput
from shadowprice.tables import labeled
from shadowprice.testing import assert_monotone

SMALL = {"customers": 1500, "merchants": 400, "both": 40}


def truth_of(dataset, side):
    return dataset.truth[dataset.truth["side"] == side].pivot(index="account_id", columns="level", values="response")


def test_the_same_seed_gives_the_same_world_and_another_gives_another() -> None:
    first, again, other = (load("world", seed=seed, **SMALL) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first.tables.exposure, again.tables.exposure)
    pd.testing.assert_frame_equal(first.truth, again.truth)
    assert not first.truth["response"].equals(other.truth["response"])


def test_outcomes_follow_the_truth_at_every_level() -> None:
    dataset = load("world", seed=1, **SMALL)
    for side, scale in (("customer", 1.0), ("merchant", 1.0)):
        rows = labeled(dataset.tables, side)
        mean = truth_of(dataset, side).loc[rows["account_id"]].to_numpy()[np.arange(len(rows)), rows["level"]]
        error = (rows["response"] - mean).groupby(rows["level"]).agg(["mean", "sem"])
        assert (error["mean"].abs() < 4 * error["sem"] * scale).all()


def test_levels_are_drawn_with_the_logged_propensities() -> None:
    dataset = load("world", seed=1, **SMALL)
    for side, levels in (("customer", CUSTOMER_LEVELS), ("merchant", MERCHANT_LEVELS)):
        rows = labeled(dataset.tables, side)
        share = rows.groupby("level").size() / len(rows)
        logged = rows.groupby("level")["propensity"].first()
        assert logged.sum() == pytest.approx(1.0)
        assert (share - logged).abs().max() < 4 * np.sqrt(0.25 / len(rows))
        assert set(rows["face_value"]) == set(levels)
        # inverse-propensity weights make every arm look like the whole population
        assert (1 / rows["propensity"]).mean() == pytest.approx(len(levels), rel=0.03)


def test_the_true_hazard_changes_at_80_and_100_cents_only() -> None:
    response = customer_response(np.zeros((1, 2)))[:, 0]
    hazard = np.diff(-np.log1p(-response), prepend=0) / np.diff(CUSTOMER_LEVELS, prepend=0)
    assert_monotone(response[:, None])
    np.testing.assert_allclose(hazard[:4], hazard[0])
    np.testing.assert_allclose(hazard[5:], hazard[5])
    assert hazard[4] > 2 * hazard[0]
    assert hazard[4] > 2 * hazard[5]


def test_a_customer_with_a_change_point_of_its_own_moves_at_one_of_two_incentives() -> None:
    response = own_change_point_response(np.array([[0.0, 2.0], [0.0, -2.0], [1.0, 2.0]]).reshape(-1, 2))
    hazard = np.diff(-np.log1p(-response), axis=0, prepend=0) / np.diff(CUSTOMER_LEVELS, prepend=0)[:, None]
    assert_monotone(response)
    assert [CUSTOMER_LEVELS[j] for j in hazard.argmax(axis=0)] == [60, 120, 60]
    rest = [j for j, level in enumerate(CUSTOMER_LEVELS) if level not in (60, 120)]
    np.testing.assert_allclose(hazard[rest], np.broadcast_to(hazard[:1], (len(rest), 3)))
    assert (hazard.max(axis=0) > 10 * hazard[0]).all()
    # Two customers' hazards are not proportional, whatever the factor.
    assert np.ptp(np.log(hazard[:, 0] / hazard[:, 1])) > 4


def test_change_points_of_their_own_leave_everything_else_as_it_was() -> None:
    plain, own = (load("world", seed=1, own_change_point=on, **SMALL) for on in (False, True))
    for name in ("account", "edge", "exposure"):
        pd.testing.assert_frame_equal(getattr(plain.tables, name), getattr(own.tables, name))
    assert truth_of(plain, "merchant").equals(truth_of(own, "merchant"))
    rows, truth = labeled(own.tables, "customer"), truth_of(own, "customer")
    mean = truth.loc[rows["account_id"]].to_numpy()[np.arange(len(rows)), rows["level"]]
    error = (rows["response"] - mean).groupby(rows["level"]).agg(["mean", "sem"])
    assert (error["mean"].abs() < 4 * error["sem"]).all()


def test_a_threshold_lets_through_what_is_positive_at_each_hop_and_nothing_else() -> None:
    options = {"customers": 40, "merchants": 15, "both": 3, "ties": 3.0}
    graph = draw_graph(WorldOptions(**options), generator(2))
    share, hops = graph.shares(), [graph.traits]
    for _ in range(2):
        received = np.zeros_like(graph.traits)
        for edge, (customer, merchant) in enumerate(graph.tie.T):
            received[customer] += share[edge] * hops[-1][merchant]
            received[merchant] += share[edge] * hops[-1][customer]
        received = np.where(received > 0, received, 0.0)
        hops.append((received - received.mean(axis=0)) / received.std(axis=0))
    near, far = hops[1:]
    ratio = FAR * 1.5
    expected = (graph.traits + 1.5 * near + ratio * far) / np.sqrt(1 + 1.5**2 + ratio**2)
    np.testing.assert_allclose(graph.influence(1.5, threshold=True), expected)
    assert not np.allclose(graph.influence(1.5), expected)
    plain, curved = (load("world", seed=2, threshold=on, **options) for on in (False, True))
    pd.testing.assert_frame_equal(plain.tables.account, curved.tables.account)
    assert not plain.truth["response"].equals(curved.truth["response"])
    assert curved.notes["influence"] == "rho = 1, with a threshold"


def test_a_population_drifts_from_the_truth_of_the_trial_to_higher_incentives() -> None:
    strength = np.random.default_rng(0).normal(size=(200, 2))
    assert np.allclose(drifted_response(strength, 0.0), customer_response(strength))
    late = drifted_response(strength, 3.0)
    # After three days customers respond between 110 and 130 cents, and less in all.
    assert (late <= drifted_response(strength, 0.0) + 1e-12).all()
    hazard = -np.log1p(-late)
    at = {level: place for place, level in enumerate(CUSTOMER_LEVELS)}
    assert ((hazard[at[120]] - hazard[at[100]]).mean()) > 2 * (hazard[at[100]] - hazard[at[80]]).mean()
    small = {"customers": 60, "merchants": 20, "both": 2, "ties": 3.0}
    for days in (0, 2):
        whole = load("world", seed=1, drift_days=days, **small).truth
        assert drifted_truth(days, seed=1, **small).equals(whole)
    with pytest.raises(InvalidInput, match="drift_days"):
        load("world", drift_days=1, own_change_point=True)


def test_merchants_answer_in_a_line_with_a_positive_slope() -> None:
    response = merchant_response(np.random.default_rng(0).normal(size=(50, 2)))
    slopes = np.diff(response, axis=0) / np.diff(MERCHANT_LEVELS)[:, None]
    assert (slopes > 0).all()
    np.testing.assert_allclose(slopes, np.broadcast_to(slopes[:1], slopes.shape))


def test_influence_comes_over_the_edges_only_where_rho_is_positive() -> None:
    def partner_correlation(rho: float) -> float:
        dataset = load("world", seed=2, rho=rho, **SMALL)
        strength = np.log(-np.log1p(-truth_of(dataset, "customer")[0]))
        slope = truth_of(dataset, "merchant").apply(lambda row: row[4] - row[0], axis=1).map(np.log)
        ties = dataset.tables.edge.drop_duplicates(["src", "dst"])
        mean = ties.assign(slope=ties["dst"].map(slope)).groupby("src")["slope"].mean()
        return float(strength.loc[mean.index].corr(mean))

    assert partner_correlation(1.0) > 0.25
    assert abs(partner_correlation(0.0)) < 0.08


def test_accounts_on_both_sides_have_one_identity() -> None:
    account = load("world", seed=1, **SMALL).tables.account
    both = account.groupby("account_id")["side"].nunique()
    assert (both == 2).sum() == SMALL["both"]


def test_spill_over_moves_outcomes_and_not_the_truth() -> None:
    plain, spilled = (load("world", seed=5, spillover=on, **SMALL) for on in (False, True))
    pd.testing.assert_frame_equal(plain.truth, spilled.truth)

    def by_commission(dataset):
        """Redemptions of customers whose merchants were offered more, minus of those offered less."""
        tables = dataset.tables
        offered = labeled(tables, "merchant").groupby("account_id")["face_value"].mean()
        ties = tables.edge.drop_duplicates(["src", "dst"])
        pull = ties.assign(pull=ties["dst"].map(offered)).groupby("src")["pull"].mean()
        rows = labeled(tables, "customer")
        mean = truth_of(dataset, "customer").loc[rows["account_id"]].to_numpy()[np.arange(len(rows)), rows["level"]]
        high = rows["account_id"].map(pull) > pull.median()
        surprise = rows["response"] - mean
        return surprise[high].mean() - surprise[~high].mean()

    assert abs(by_commission(plain)) < 0.02
    assert by_commission(spilled) > 0.03


def test_nothing_in_the_tables_is_later_than_it_may_be() -> None:
    tables = load("world", seed=1, **SMALL).tables
    starts = tables.campaign["starts_at"].iloc[0]
    assert tables.edge["ts"].max() < tables.exposure["decided_at"].min()
    assert tables.outcome["observed_at"].max() < starts
    assert (tables.account["snapshot_ts"] <= tables.exposure["decided_at"].min()).all()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("customers", 0),
        ("customers", "many"),
        ("trials", float("nan")),
        ("ties", None),
        ("merchants", 2.5),
        ("both", 401),
        ("both", -1),
        ("trials", 0),
        ("ties", 0.5),
        ("ties", 401),
        ("rho", -1.0),
        ("noise", float("nan")),
        ("budget_per_request", -1.0),
        ("day_requests", 0),
    ],
)
def test_an_option_that_cannot_be_met_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        load("world", **{**SMALL, option: value})
    assert caught.value.field == f"options.{option}"


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="color"):
        load("world", color="blue")


def test_a_whole_number_of_accounts_may_be_written_as_a_decimal() -> None:
    first, again = (load("world", customers=count, merchants=60, both=5, trials=2) for count in (200, 200.0))
    pd.testing.assert_frame_equal(first.tables.exposure, again.tables.exposure)
