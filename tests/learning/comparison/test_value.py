"""Values before publication under rules and further budgets, against the linear program on the truth."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.curves import Curves
from shadowprice.decision import NOTHING, decide, fit_budget
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.joint import AtBudget
from shadowprice.learning.comparison.value import CampaignWindow, compare_value, marked
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits import Asked, Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage
from shadowprice.limits.usage import Left, Usage, tightest
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.day import Accounts
from shadowprice.pacing.window import solve_window
from shadowprice.responses.inputs import Inputs

LEVELS = np.array([0, 20, 50, 100])
ROWS = 12_000
LIMITS = Limits(
    budgets=(
        GroupBudget(name="north", limit=60_000, where='account.c_region == "north"'),
        GroupBudget(name="shops", limit=40_000, partners=("p1", "p2")),
    )
)
RULES = (
    Rule(name="minors", expression="account.x_age < 18 && offer.incentive > 50"),
    Rule(name="small", expression="context.x_basket < 1.0"),
)
CAMPAIGN = Campaign(
    name="c",
    sides={"customer": Terms(levels=(0, 20, 50, 100), cost_basis="on_grant")},
    budget=Budget(limit=250_000),
    starts_at=datetime(2026, 1, 1, tzinfo=UTC),
    limits=LIMITS,
    rules=RULES,
)


@pytest.fixture(scope="module")
def trial() -> tuple[TrainingSet, dict[str, Curves], Coverage]:
    """A uniform trial, its true curves, and the columns of its accounts."""
    rng = np.random.default_rng(0)
    reach = np.exp(1.5 * rng.normal(size=ROWS))
    truth = 0.1 + 0.6 * (1 - np.exp(-reach * LEVELS[:, None] / 60))
    level = rng.integers(0, 4, ROWS)
    names = [f"a{row}" for row in range(ROWS)]
    rows = pd.DataFrame(
        {
            "account_id": names,
            "partner_id": rng.choice(["p1", "p2", "p3", None], ROWS),
            "level": level,
            "response": (rng.random(ROWS) < truth[level, np.arange(ROWS)]).astype(float),
            "propensity": 0.25,
            "weight": 1.0,
            "x_basket": rng.uniform(0, 5, ROWS),
            "split": "test",
        }
    )
    data = TrainingSet({"customer": rows}, {}, Inputs(), {"customer": (0, 20, 50, 100)}, {"customer": ("x_basket",)})
    columns = {"c_region": rng.choice(["north", "south"], ROWS).tolist(), "x_age": rng.integers(10, 60, ROWS).tolist()}
    coverage = CAMPAIGN.coverage({"customer": Attributes.of(names, columns)})
    return data, {"customer": Curves(LEVELS, truth.astype(np.float32))}, coverage


def compare(data: TrainingSet, curves: dict[str, Curves], coverage: Coverage | None, campaign=CAMPAIGN) -> AtBudget:
    found = compare_value(data, curves, None, CampaignWindow(campaign, {"customer": float(ROWS)}, coverage), 40)
    assert isinstance(found, AtBudget)
    return found


def test_draws_take_their_money_by_the_weights_of_the_campaign(trial) -> None:
    data, curves, _ = trial
    weights = {"customer": dict(zip(CAMPAIGN.offer_ids["customer"], (1.0, 1.0, 1.0, 9.0), strict=True))}
    found = {}
    for name, law in (("uniform", {}), ("dear", weights)):
        campaign = replace(CAMPAIGN, limits=Limits(), rules=(), exploration=0.2, exploration_weights=law)
        exact = solve_window(campaign, curves, {"customer": float(ROWS)}, campaign.budget.limit)
        found[name] = compare(data, curves, None, campaign).candidate.value
        assert found[name] == pytest.approx(exact.primal, rel=0.04)
    assert found["dear"] < 0.9 * found["uniform"]


def test_a_model_is_judged_by_what_it_adds_above_the_least_return_and_need_not_spend_the_rest(trial) -> None:
    data, curves, _ = trial
    names = data.rows["customer"]["account_id"].tolist()
    margin = 100 * np.exp(np.random.default_rng(8).normal(size=ROWS))
    campaign = replace(
        CAMPAIGN,
        sides={"customer": replace(CAMPAIGN.sides["customer"], worth="x_margin")},
        objective="margin",
        least_return=1.5,
        limits=Limits(),
        rules=(),
        budget=Budget(limit=10_000_000),
    )
    coverage = campaign.coverage({"customer": Attributes.of(names, {"x_margin": margin.tolist()})})
    solved = solve_window(campaign, marked(coverage, data, curves), {"customer": float(ROWS)}, 10_000_000)
    spend = solved.allocation.spend[0]
    assert solved.prices["budget"] == 1.5
    assert spend < 5_000_000
    gain = margin * curves["customer"].response - 1.5 * LEVELS[:, None]
    best = float(gain.max(axis=0).sum())
    assert solved.primal - 1.5 * spend == pytest.approx(best, rel=1e-6)
    found = compare(data, curves, coverage, campaign)
    # In major units, as a person reads them.
    assert found.price == pytest.approx(0.015)
    assert found.candidate.low < best / 100 < found.candidate.high
    assert found.rival.low < gain.sum(axis=1).max() / 100 < found.rival.high
    assert found.difference.low > 0
    with pytest.raises(InvalidInput, match="x_margin"):
        compare(data, curves, None, campaign)


def flat_optimum(mine: Curves) -> float:
    """The best flat mixture within all budgets, on the true curves."""
    lower = np.maximum.accumulate(np.where(mine.allowed, np.arange(4)[:, None], -1), axis=0)
    level = np.where(lower < 0, mine.allowed.argmax(axis=0), lower)
    value, paid = mine.response[level, np.arange(mine.accounts)], LEVELS[level].astype(float)
    inside = [np.ones(mine.accounts), *((mine.bits >> k & 1) for k in range(2))]
    costs = np.array([(paid * each).sum(axis=1) for each in inside])
    limits = [CAMPAIGN.budget.limit, *(each.limit for each in LIMITS.budgets)]
    found = linprog(-value.sum(axis=1), costs, limits, np.ones((1, 4)), [1.0])
    return -float(found.fun)


def test_the_value_is_the_optimum_under_rules_and_further_budgets(trial) -> None:
    data, curves, coverage = trial
    mine = marked(coverage, data, curves)
    able = mine["customer"].allowed.any(axis=0)
    assert 0.7 < able.mean() < 0.9
    exact = solve_window(CAMPAIGN, mine, {"customer": float(ROWS)}, CAMPAIGN.budget.limit)
    assert min(exact.prices[name] for name in CAMPAIGN.priced) > 0
    found = compare(data, curves, coverage)
    assert found.candidate.low < exact.primal < found.candidate.high
    assert found.candidate.value == pytest.approx(exact.primal, rel=0.02)
    assert found.price == pytest.approx(exact.prices["budget"], rel=0.25)
    flat = flat_optimum(mine["customer"].take(able))
    assert found.rival.low < flat < found.rival.high
    assert found.difference.value > 0
    rows = data.rows["customer"]
    mean = curves["customer"].response[rows["level"], np.arange(ROWS)].astype(float)
    noiseless = replace(data, rows={"customer": rows.assign(response=mean)})
    assert compare(noiseless, curves, coverage).rival.value == pytest.approx(flat, rel=1e-4)
    # Without them the same budget seems to bring what it cannot.
    assert compare(data, curves, None).candidate.value > 1.1 * exact.primal


def test_a_model_and_uniform_dosing_are_alike_where_rules_leave_one_level(trial) -> None:
    data, curves, coverage = trial
    only = (Rule(name="all", expression="offer.level != 1"),)
    found = compare(data, curves, replace(coverage, rules=only), replace(CAMPAIGN, rules=only))
    value = curves["customer"].response[1].mean() * ROWS
    assert found.difference.value == pytest.approx(0.0, abs=1e-6)
    assert found.candidate.value == pytest.approx(value, rel=0.03)


def test_rules_that_forbid_everything_are_told(trial) -> None:
    data, curves, coverage = trial
    none = replace(coverage, rules=(Rule(name="nobody", expression="true"),))
    told = compare_value(data, curves, None, CampaignWindow(CAMPAIGN, {"customer": 1.0}, none), 10)
    assert "allow no test row" in told


@dataclass
class Capped:
    """A uniform trial of 3,000 accounts that ask at rates of their own, a partner each, and its noiseless rows."""

    data: TrainingSet
    curves: dict[str, Curves]
    truth: np.ndarray
    requests: np.ndarray
    traffic: Traffic


@pytest.fixture(scope="module")
def capped() -> Capped:
    rng = np.random.default_rng(7)
    accounts = 3000
    reach = np.exp(1.2 * rng.normal(size=accounts))
    truth = 0.1 + 0.6 * (1 - np.exp(-reach * LEVELS[:, None] / 60))
    names, partner = np.array([f"a{row}" for row in range(accounts)]), rng.choice(["p1", "p2", "p3", "p4"], accounts)
    activity = np.exp(rng.normal(size=accounts))
    who = rng.choice(accounts, size=ROWS, p=activity / activity.sum())
    level = rng.integers(0, 4, ROWS)
    rows = pd.DataFrame(
        {
            "account_id": names[who],
            "partner_id": partner[who],
            "level": level,
            "response": truth[level, who],
            "propensity": 0.25,
            "weight": 1.0,
            "split": "test",
        }
    )
    data = TrainingSet({"customer": rows}, {}, Inputs(), {"customer": (0, 20, 50, 100)}, {})
    pairs = pd.DataFrame({"account_id": names, "partner_id": partner, "activity": activity})
    traffic = Traffic({}, {"customer": Accounts(names, activity)}, {"customer": pairs})
    curves = {"customer": Curves(LEVELS, truth[:, who].astype(np.float32))}
    return Capped(data, curves, truth, activity / activity.sum() * 9_000, traffic)


def brute_force(
    capped: Capped, campaign: Campaign, price: float, allowed: NDArray[np.bool_], windows: int = 8
) -> tuple[float, float]:
    """Mean value and cost of windows of Poisson requests, decided by the one rule and cut as the ledger cuts them."""
    rng, total = np.random.default_rng(11), np.zeros(2)
    accounts = capped.truth.shape[1]
    partner = capped.traffic.pairs["customer"]["partner_id"].tolist()
    cost = np.tile(LEVELS[:, None], accounts).astype(float)
    level = decide(capped.truth, cost, [price], 0.5, range(accounts), allowed).level
    bounds = {each.name: each.bound for each in campaign.limits.caps}
    for _ in range(windows):
        asks = rng.permutation(np.repeat(np.arange(accounts), rng.poisson(capped.requests)))
        usage: dict[str, Usage] = {}
        for who in asks.tolist():
            sums = campaign.limits.sums(Asked(f"a{who}", "customer", partner[who], ""), campaign.starts_at)
            paid = int(LEVELS[level[who]])
            room = tightest(Left(10**9, "budget"), bounds, sums, usage)
            given = fit_budget(
                int(level[who]), [0.25] * 4, LEVELS.tolist(), room.amount, unpaid_allowed=bool(allowed[0, who])
            ).level
            if given == NOTHING:
                continue
            if given and paid:
                for each in sums:
                    usage[each] = usage.get(each, Usage()).plus(paid, 1)
            total += capped.truth[given, who], LEVELS[given]
    return total[0] / windows, total[1] / windows


@pytest.mark.parametrize(
    "caps",
    [
        (Cap(name="few", per="account", count=3),),
        (Cap(name="much", per="account", amount=150),),
        (Cap(name="shop", per="partner", count=700), Cap(name="few", per="account", count=4)),
    ],
    ids=["count", "amount", "partner"],
)
@pytest.mark.parametrize("forbidden", [False, True], ids=["", "free level forbidden"])
def test_caps_cut_the_values_as_the_ledger_cuts_the_decisions(
    capped: Capped, caps: tuple[Cap, ...], forbidden: bool
) -> None:
    rules = (Rule(name="paid", expression='account.c_kind == "paid" && offer.incentive == 0'),) if forbidden else ()
    limit = 160_000 if forbidden else 80_000
    campaign = replace(CAMPAIGN, budget=Budget(limit=limit), limits=Limits(caps=caps), rules=rules)
    asked = {"customer": 9_000.0}
    names = [f"a{number}" for number in range(capped.truth.shape[1])]
    kinds = ["paid" if number % 2 else "any" for number in range(len(names))]
    coverage = campaign.coverage({"customer": Attributes.of(names, {"c_kind": kinds})})
    found = compare_value(
        capped.data, capped.curves, None, CampaignWindow(campaign, asked, coverage, capped.traffic), 2
    )
    assert isinstance(found, AtBudget)
    allowed = np.ones(capped.truth.shape, dtype=np.bool_)
    allowed[0, 1::2] = not forbidden
    value, cost = brute_force(capped, campaign, found.price, allowed)
    # The path of prices is read between two prices of its grid.
    assert found.candidate.value == pytest.approx(value, rel=0.02)
    assert cost == pytest.approx(limit, rel=0.05)
    assert found.rival.value < found.candidate.value
    free = compare_value(capped.data, capped.curves, None, CampaignWindow(campaign, asked, campaign.coverage()), 2)
    assert isinstance(free, AtBudget)
    assert free.price > 1.05 * found.price
    assert free.candidate.value > 1.01 * found.candidate.value


def test_a_cap_of_nothing_makes_all_policies_alike_and_a_wide_one_changes_nothing(capped: Capped) -> None:
    def compare_under(*caps: Cap) -> AtBudget:
        campaign = replace(CAMPAIGN, budget=Budget(limit=80_000), limits=Limits(caps=caps), rules=())
        found = compare_value(
            capped.data,
            capped.curves,
            None,
            CampaignWindow(campaign, {"customer": 9_000.0}, campaign.coverage(), capped.traffic),
            20,
        )
        assert isinstance(found, AtBudget)
        return found

    none = compare_under(Cap(name="none", per="account", count=0))
    lowest = 9_000 * float(capped.curves["customer"].response[0].mean())
    assert none.candidate.value == pytest.approx(lowest, rel=1e-6)
    assert none.difference.value == pytest.approx(0.0, abs=1e-6)
    wide, free = compare_under(Cap(name="wide", per="account", count=10_000)), compare_under()
    assert wide.candidate.value == pytest.approx(free.candidate.value, rel=1e-4)
