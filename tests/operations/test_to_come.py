"""The solve evaluates rules and budgets that read the context on the newest requests, as the service does."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from asked import LEVELS, make_workspace
from scipy import optimize
from scipy.sparse import csr_matrix

from operations.common.solver import Solver
from operations.common.to_come import requests_to_come
from operations.common.workspace import MODEL, POPULATION, read_campaign
from operations.measure import before_start, recent_requests
from shadowprice.campaign import Campaign
from shadowprice.curves import Curves
from shadowprice.limits import GroupBudget, Limits, Rule
from shadowprice.limits.attributes import INFLUENCE, write_influence
from shadowprice.pacing.contexts import drawn_contexts
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import read_population
from shadowprice.pacing.state import PricingState
from shadowprice.pacing.window import solve_window
from shadowprice.responses.layers.heads import load_heads

RECENT = 240
WEB = Rule(
    name="web", expression='context.c_channel == "web" && offer.incentive > 50', side="customer"
)  # absent: forbidden too
APPS = GroupBudget(name="apps", limit=1_000, where="has(context.x_basket) && context.x_basket > 10.0", side="customer")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    return make_workspace(tmp_path_factory.mktemp("asked"))


@pytest.fixture(scope="module")
def campaign(workspace) -> Campaign:
    found = read_campaign(workspace)
    sides = {"customer": found.sides["customer"]}
    return replace(found, sides=sides, limits=Limits(budgets=(APPS,)), rules=(WEB,))


def sampled(rng, names):
    """Newest requests as the ledger tells them, of the given accounts."""
    found = []
    for name in names:
        context = {"c_channel": rng.choice(["app", "web"]), "x_basket": float(rng.uniform(0, 20))}
        text = json.dumps(dict(list(context.items())[: rng.integers(0, 3)]))
        found.append(
            {"account_id": name, "side": "customer", "partner_id": "", "context": "" if text == "{}" else text}
        )
    return found


def state_of(workspace, campaign, sample) -> PricingState:
    accounts, partners, contexts = recent_requests(campaign, sample)
    state = before_start(campaign, Traffic.load(workspace))
    spend = replace(state.spend, requests={"customer": 2 * len(sample)})
    return replace(state, at=1.0, spend=spend, accounts=accounts, partners=partners, contexts=contexts)


def curves_of(workspace, side, names):
    known = read_population(workspace / POPULATION / "m1", load_heads(workspace / MODEL))[side]
    place = pd.Index(known.account_id.to_pylist()).get_indexer(names)
    return known.curves.take(place)


def by_hand(sample):
    """Levels that the rule allows each request, and whether the budget counts it."""
    given = [json.loads(each["context"] or "{}") for each in sample]
    web = np.array([each.get("c_channel", "web") == "web" for each in given])
    allowed = ~(web & (np.array(LEVELS["customer"]) > 50)[:, None])
    return allowed, np.array([each.get("x_basket", 0.0) > 10 for each in given])


def test_prices_are_those_of_the_program_with_the_rule_applied_to_each_request(workspace, campaign):
    rng = np.random.default_rng(0)
    sample = sampled(rng, [f"c{number}" for number in rng.integers(0, 400, RECENT)])

    def unknown(side, account_id, partner_id=None, context=None):
        assert set(context) == {"c_channel", "x_basket"}
        return curves_of(workspace, side, account_id)

    state = state_of(workspace, campaign, sample)
    asked = requests_to_come(campaign, workspace, campaign.coverage(), {}, state, unknown)["customer"]
    allowed, counted = by_hand(sample)
    np.testing.assert_array_equal(asked.curves.allowed, allowed)
    np.testing.assert_array_equal(asked.curves.bits, counted)
    np.testing.assert_array_equal(asked.curves.weight, 2.0)

    names = [each["account_id"] for each in sample]
    response = np.asarray(curves_of(workspace, "customer", names).response, dtype=np.float64)
    dearest = campaign.terms("customer").cost(response)[np.where(allowed[3], 3, 1), np.arange(RECENT)]
    left, limit = 0.6 * dearest.sum(), round(0.3 * dearest[counted].sum())
    campaign = replace(campaign, limits=Limits(budgets=(replace(APPS, limit=limit),)))
    solved = solve_window(campaign, {"customer": asked.curves}, {"customer": float(RECENT)}, left)
    terms = campaign.terms("customer")
    level, column = np.nonzero(allowed)
    cost = terms.cost(response)[level, column]
    one_each = csr_matrix((np.ones(column.size), (column, np.arange(column.size))))
    program = optimize.linprog(
        -terms.value(response)[level, column],
        np.stack([cost, cost * counted[column]]),
        [left, limit],
        one_each,
        np.ones(RECENT),
        bounds=(0, 1),
        method="highs",
    )
    assert program.status == 0
    assert solved.dual == pytest.approx(-program.fun, rel=1e-7)
    day, apps = -program.ineqlin.marginals
    assert day > 0
    assert apps > 0
    assert (solved.prices["day"], solved.prices["apps"]) == pytest.approx((day, apps), rel=1e-5)
    blind = replace(asked.curves, allowed=None, bits=np.zeros(RECENT, dtype=np.uint32))
    assert solve_window(campaign, {"customer": blind}, {"customer": float(RECENT)}, left).prices["day"] > 1.05 * day


def test_the_price_counts_the_influence_that_the_campaign_names(workspace, campaign, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(workspace, own, symlinks=True)
    found = read_campaign(own)
    names = [f"c{number}" for number in range(400)]
    columns = {"account_id": names, "side": ["customer"] * 400, INFLUENCE: [0.01] * 200 + [0.0] * 200}
    write_influence(own / "influence.parquet", columns)
    sides = {**found.sides, "customer": replace(found.sides["customer"], influence="influence.parquet")}
    state = before_start(found, Traffic.load(own))
    solved = {}
    for named, terms in ((False, found.sides), (True, sides)):
        (own / "campaign.json").write_text(json.dumps(replace(found, sides=terms).to_dict()))
        solver = Solver(own)
        curves = solver.requests(state)["customer"]
        assert (curves.influence is not None) == named
        solved[named] = solver.solve(state).record
        if named:
            place = dict(zip(names, columns[INFLUENCE], strict=True))
            expected = [place.get(name, 0.0) for name in solver.accounts()["customer"]]
            np.testing.assert_array_equal(curves.influence, expected)
    # Money is worth more where incentives move partners too.
    assert solved[True].prices["day"] > solved[False].prices["day"]
    assert solved[True].primal > solved[False].primal


def test_accounts_that_did_not_ask_lately_have_the_contexts_of_the_newest_requests_in_turn(workspace, campaign):
    rng = np.random.default_rng(1)
    sample = sampled(rng, ["c1", "c2", "new"] * 50)
    population = read_population(workspace / POPULATION / "m1", load_heads(workspace / MODEL))

    def unknown(side, account_id, partner_id=None, context=None):
        return Curves(population[side].curves.levels, np.full((4, account_id.size), 0.1, dtype=np.float32))

    state = state_of(workspace, campaign, sample)
    asked = requests_to_come(campaign, workspace, campaign.coverage(), population, state, unknown)["customer"].curves
    allowed, counted = by_hand(sample)
    known = asked.accounts - len(sample)
    np.testing.assert_array_equal(asked.allowed[:, known:], allowed)
    assert asked.allowed[3, :known].mean() == pytest.approx(allowed[3].mean(), abs=len(sample) / known)
    assert asked.bits[:known].mean() == pytest.approx(counted.mean(), abs=len(sample) / known)
    np.testing.assert_array_equal(asked.weight[:known], population["customer"].curves.weight)


def test_before_the_window_the_past_tells_the_contexts_and_without_any_the_rule_is_left_out(workspace, campaign):
    population = read_population(workspace / POPULATION / "m1", load_heads(workspace / MODEL))
    state = before_start(campaign, Traffic.load(workspace))

    def ask(state=state):
        return requests_to_come(campaign, workspace, campaign.coverage(), population, state, None)["customer"].curves

    assert ask().allowed is None or ask().allowed.all()
    assert not ask().bits.any()
    traffic = Traffic.load(workspace)
    past = pd.DataFrame({"c_channel": ["web", "app", "app", None], "x_basket": [12.0, np.nan, 3.0, 1.0]})
    replace(traffic, contexts={"customer": past}).save(workspace)
    try:
        assert ask().allowed[3].mean() == pytest.approx(0.5)
        assert ask().bits.mean() == pytest.approx(0.25)
        # A past that lacks one of the values that are read says nothing.
        replace(traffic, contexts={"customer": past[["x_basket"]]}).save(workspace)
        assert ask().allowed is None or ask().allowed.all()
    finally:
        traffic.save(workspace)
    assert not (workspace / "traffic-customer-contexts.parquet").exists()


def test_each_context_is_drawn_as_often_as_the_others():
    drawn = drawn_contexts({"x_a": list(range(7))}, 7000)["x_a"]
    assert np.bincount(drawn).tolist() == [1000] * 7
    assert drawn_contexts({"x_a": []}, 3) is None


def test_the_newest_requests_count_with_the_curves_of_their_sessions_where_some_have_one(workspace, campaign):
    plain = replace(campaign, limits=Limits(), rules=())
    population = read_population(workspace / POPULATION / "m1", load_heads(workspace / MODEL))
    known = population["customer"].curves.accounts
    cart = {"item_id": "i1", "action": "cart", "ts": "2026-03-01T10:00:00+00:00"}
    contexts = ["", json.dumps({"session": [cart]}), json.dumps({"session": []})]
    sample = [
        {"account_id": f"c{row}", "side": "customer", "partner_id": "", "context": text}
        for row, text in enumerate(contexts)
    ]
    asked = []

    def unknown(side, account_id, partner_id=None, context=None):
        asked.append((account_id.tolist(), context))
        return curves_of(workspace, side, account_id)

    def curves(rows, by_session):
        state = state_of(workspace, plain, rows)
        found = requests_to_come(plain, workspace, plain.coverage(), population, state, unknown, by_session)
        return found["customer"].curves

    # The state counts twice the requests of its sample.
    found = curves(sample, ["customer"])
    assert asked == [(["c0", "c1", "c2"], {"session": [None, [cart], []]})]
    np.testing.assert_array_equal(found.weight[known:], 2.0)
    np.testing.assert_array_equal(found.weight[:known], population["customer"].curves.weight)
    for rows, sides in ((sample, ()), ([{**row, "context": ""} for row in sample], ["customer"])):
        assert curves(rows, sides).accounts == known
    assert len(asked) == 1
