"""Both sides of the market under one budget, in both readings of S0."""

from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.allocation.oracles.breakpoints import solve_breakpoints
from shadowprice.allocation import solve
from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.allocation.sources.rows import Money
from shadowprice.campaign import Budget, Campaign, CostBasis, Side, Terms
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.errors import InvalidProblem

LEVELS = (50, 80, 120, 160, 250)
B = 140.0


def campaign(merchant_basis: CostBasis, form: str = "per_response", limit: float = B, **sides: Terms) -> Campaign:
    terms = {"customer": Terms(levels=LEVELS), "merchant": Terms(levels=LEVELS, cost_basis=merchant_basis)} | sides
    return Campaign(
        name="joint",
        sides=terms,  # type: ignore[arg-type]
        budget=Budget(form=form, limit=limit),  # type: ignore[arg-type]
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


def market(seed: int = 0, accounts: int = 400) -> dict[Side, Curves]:
    """Customers with rising redemption probabilities, merchants whose share ratio may exceed one."""
    rng = np.random.default_rng(seed)
    money = np.array(LEVELS)[:, None] / 100
    customer = 1 - np.exp(-rng.gamma(2.0, 0.15, accounts) * money ** rng.uniform(0.5, 1.5, accounts))
    merchant = rng.gamma(2.0, 0.1, accounts) + rng.gamma(2.0, 0.08, accounts) * money
    levels = np.array(LEVELS)
    return {"customer": Curves(levels, customer), "merchant": Curves(levels, merchant)}


def campaign_problem(
    plan: Campaign, curves: dict[Side, Curves], carry: float = 0.0
) -> tuple[Problem, dict[Side, slice]]:
    joint = CampaignProblem(plan, curves)
    joint.resources = Money(plan, joint.resources.in_hand + carry)
    return joint.whole(), {source.side: place for source, place in zip(joint.sources, joint.places, strict=True)}


def ratio_of_equation_16(curves: dict[Side, Curves], level: np.ndarray, columns: dict[Side, slice]) -> float:
    """Money over response when both sides are paid on response: Σ r·f / Σ f."""
    paid = answered = 0.0
    for side, part in columns.items():
        chosen = level[part]
        f = curves[side].response.astype(np.float64)[chosen, np.arange(chosen.size)]
        paid += float((np.array(LEVELS)[chosen] * f).sum())
        answered += float(f.sum())
    return paid / answered


@pytest.mark.parametrize("merchant_basis", ["on_grant", "on_response"])
def test_each_printed_rule_is_the_general_rule(merchant_basis: CostBasis) -> None:
    curves, plan = market(), campaign(merchant_basis)
    problem, columns = campaign_problem(plan, curves)
    lam = float(solve(problem).prices[0])
    r = np.array(LEVELS)[:, None]
    for side in ("customer", "merchant"):
        f = curves[side].response.astype(np.float64)
        if side == "customer" or merchant_basis == "on_response":
            printed = (f - lam * (r - B) * f).argmax(axis=0)  # eq. 19, and eq. 16 read for both sides
        else:
            printed = (f - lam * (r - B)).argmax(axis=0)  # eq. 20
        names = [f"{side}{i}" for i in range(f.shape[1])]
        general = decide(plan.terms(side).value(f), plan.net_cost(side, f), [lam], 0.0, names)
        settled = ~general.tied
        assert settled.sum() >= f.shape[1] - 1
        np.testing.assert_array_equal(general.level[settled], printed[settled])
        np.testing.assert_array_equal(solve(problem).level[columns[side]][settled], printed[settled])


def test_the_rule_of_equations_17_to_20_breaks_the_ratio_of_equation_16_and_its_own_rule_meets_it() -> None:
    curves = market()
    ratios = {}
    for basis in ("on_grant", "on_response"):
        problem, columns = campaign_problem(campaign(basis), curves)
        ratios[basis] = ratio_of_equation_16(curves, solve(problem).level, columns)
    assert ratios["on_response"] <= B
    assert ratios["on_response"] == pytest.approx(B, rel=2e-3)
    assert abs(ratios["on_grant"] - B) > 0.05 * B


@pytest.mark.parametrize("merchant_basis", ["on_grant", "on_response"])
def test_a_binding_budget_per_response_is_met_exactly(merchant_basis: CostBasis) -> None:
    plan = campaign(merchant_basis)
    problem, _ = campaign_problem(plan, market())
    solved = solve(problem)
    assert solved.prices[0] > 0
    assert abs(solved.violation) < 1e-12
    assert 0 <= solved.gap < 1e-12


@pytest.mark.parametrize("merchant_basis", ["on_grant", "on_response"])
@pytest.mark.parametrize("form", ["total", "per_account"])
def test_totals_and_means_are_two_ways_to_write_one_budget(merchant_basis: CostBasis, form: str) -> None:
    curves = market(accounts=100)
    limit = 40.0 * (200 if form == "total" else 1)
    problem, _ = campaign_problem(campaign(merchant_basis, form, limit), curves)
    solved = solve(problem)
    assert solved.spend[0] == pytest.approx(8000, rel=1e-12)
    moved, _ = campaign_problem(campaign(merchant_basis, form, limit), curves, carry=-600.0)
    assert solve(moved).spend[0] == pytest.approx(7400, rel=1e-12)


def test_a_side_with_fewer_levels_never_gets_a_level_it_does_not_have() -> None:
    plan = campaign("on_grant", "per_account", 1000.0, merchant=Terms(levels=(50, 80), cost_basis="on_grant"))
    curves = market(accounts=50)
    curves["merchant"] = Curves(np.array([50, 80]), curves["merchant"].response[:2])
    problem, columns = campaign_problem(plan, curves)
    assert problem.shape == (5, 100)
    level = solve(problem).level
    assert level[columns["merchant"]].max() == 1
    assert level[columns["customer"]].max() == 4


def test_the_weight_of_merchants_moves_money_to_them() -> None:
    curves = market()

    def merchants_share(weight: float) -> float:
        terms = Terms(levels=LEVELS, cost_basis="on_grant", weight=weight)
        problem, columns = campaign_problem(campaign("on_grant", "per_account", 90.0, merchant=terms), curves)
        level = solve(problem).level
        return float(np.array(LEVELS)[level[columns["merchant"]]].mean())

    assert merchants_share(0.3) < merchants_share(1.0) < merchants_share(3.0)


def test_a_budget_no_level_can_meet_is_infeasible_not_a_price_at_infinity() -> None:
    problem, _ = campaign_problem(campaign("on_response", limit=49.0), market())
    solved = solve(problem)
    assert solved.status == "infeasible"
    assert np.isnan(solved.prices).all()


def test_curves_of_other_levels_and_empty_batches_are_refused() -> None:
    curves = market()
    with pytest.raises(InvalidProblem, match="curves"):
        campaign_problem(campaign("on_grant"), {"customer": Curves(np.array([1, 2]), np.ones((2, 3)))})
    with pytest.raises(InvalidProblem, match="curves"):
        campaign_problem(campaign("on_grant"), {})
    with pytest.raises(InvalidProblem, match="curves"):
        campaign_problem(campaign("on_grant"), {"customer": curves["customer"].take(np.zeros(0, dtype=int))})


def test_accounts_without_requests_are_settled_by_the_first_pass_and_change_nothing() -> None:
    random = np.random.default_rng(3)
    levels, accounts = (0, 20, 40, 60), 60_000
    response = np.sort(random.random((len(levels), accounts), dtype=np.float32), axis=0)
    requests = random.poisson(0.4, accounts).astype(float)
    offered = Campaign(
        name="some",
        sides={"customer": Terms(levels=levels)},
        budget=Budget(limit=8 * accounts),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )

    def problem(which: np.ndarray) -> CampaignProblem:
        own = np.ascontiguousarray(response[:, which])
        return CampaignProblem(offered, {"customer": Curves(np.array(levels), own)}, {"customer": requests[which]})

    every, asking = problem(np.ones(accounts, dtype=bool)), problem(requests > 0)
    found, wanted = solve(every), solve(asking)
    assert found.prices == pytest.approx(wanted.prices, rel=1e-12)
    for name in ("primal", "dual", "gap", "violation"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12, abs=1e-12)
    assert (found.level[requests == 0] == 0).all()
    # Between two prices around the optimum few accounts change their level, and those without requests do not.
    arrays = every.sources[0].arrays(np.s_[:accounts], {"value", "cost"})
    near = [(arrays["value"] - price * arrays["cost"]).argmax(axis=0) for price in found.prices * [[0.99], [1.01]]]
    best = np.sort(arrays["value"] - found.prices * arrays["cost"], axis=0)
    assert (best[-1] > best[-2])[requests == 0].all()
    assert (near[0] == near[1])[requests == 0].all()


@pytest.mark.parametrize("seed", range(4))
def test_few_accounts_of_one_side_with_much_of_the_money_do_not_cost_a_second_pass(seed: int) -> None:
    random = np.random.default_rng(seed)
    few, many = 80, 300_000
    money = np.array(LEVELS)[:, None] / 100
    curves: dict[Side, Curves] = {
        "customer": Curves(np.array(LEVELS), 1 - np.exp(-random.gamma(2.0, 0.15, many) * money)),
        "merchant": Curves(np.array(LEVELS), random.gamma(2.0, 0.1, few) + random.gamma(2.0, 0.08, few) * money),
    }
    requests: dict[Side, np.ndarray] = {
        "customer": random.poisson(1.0, many) * 1.0,
        "merchant": np.full(few, many / few),
    }
    described = CampaignProblem(campaign("on_grant"), curves, requests)
    found = solve(described)
    wanted = solve_breakpoints(described.whole())
    assert found.passes == 1
    assert found.prices == pytest.approx(wanted.prices, rel=1e-12)
    assert found.primal == pytest.approx(wanted.primal, rel=1e-11)
    assert 0 <= found.gap < 1e-9
