"""Predictor, replay, off-policy estimate and audit give what the policy answers to each request alone."""

import asyncio
import json
import random
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from local_ledger import TableReader

from operations.questions.priced import Priced
from serving.console.audit import level_rows
from serving.predictor.active import Active, ServedModel
from serving.predictor.features import Features
from serving.predictor.wanted import Group, want
from serving.protocol import Requests
from shadowprice.arms import Arm, Experiment, Holdout, treatment
from shadowprice.campaign import SIDES, Budget
from shadowprice.curves import Curves
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import columns_file
from shadowprice.limits.coverage import SideRequests
from shadowprice.pacing.forecast import Profile
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import write_population
from shadowprice.pacing.replay.day import Accounts, Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.policies import PricedPolicy
from shadowprice.policy import Policy
from shadowprice.responses.layers.heads import curves_of, save_heads

APPS = 'has(context.c_channel) && context.c_channel == "app"'
RULES = (
    Rule(name="kiosks", expression='partner.c_kind == "kiosk" && offer.incentive > 80', side="customer"),
    Rule(name="young", expression="account.x_age < 18.0"),
    Rule(name="lowest", expression=f"{APPS} && offer.level == 0"),
    Rule(name="baskets", expression="has(context.x_basket) && context.x_basket < 0.0", offers=("merchant-100",)),
)
BUDGETS = (
    GroupBudget(name="customers", limit=100_000, side="customer", period="day"),
    GroupBudget(name="apps", limit=100_000, where=APPS),
    GroupBudget(name="shops", limit=100_000, partners=("p1", "p2")),
    GroupBudget(name="bars", limit=20, form="per_response", where='partner.c_kind == "bar"', side="customer"),
)
CAPS = (Cap(name="often", per="account", count=1), Cap(name="much", per="partner", amount=50))
ARMS = (
    Arm(name="none", kind="holdout", share=2500),
    Arm(name="all", kind="policy", share=2500),
    Arm(name="drawn", kind="explore", share=2500),
)
COUNT = 60


class Case:
    """A random campaign, a price of it, and requests of both sides."""

    def __init__(self, seed: int, kit, folder) -> None:
        dice = random.Random(seed)

        def some(choices):
            return tuple(dice.sample(choices, dice.randint(0, len(choices))))

        self.campaign = kit.campaign(
            budget=dice.choice([Budget(limit=100_000_000), Budget(form="per_response", limit=30.0)]),
            limits=Limits(budgets=some(BUDGETS), caps=some(CAPS)),
            rules=some(RULES),
            experiment=dice.choice([None, Experiment(arms=ARMS, salt=f"s{seed}")]),
            exploration=dice.choice([0.0, 0.3]),
            holdout=Holdout(key="company", share=2000) if seed % 3 == 0 else None,
        )
        if money := seed % 2 == 1:
            sides = {side: replace(terms, weight=0.3, worth="x_spend") for side, terms in self.campaign.sides.items()}
            self.campaign = replace(self.campaign, objective="margin", sides=sides)
        names = self.campaign.priced
        unit = 300 if money else 1
        self.price = kit.price(prices={name: dice.choice([0.0, unit * dice.uniform(0.0005, 0.006)]) for name in names})
        side = [dice.choice(SIDES) for _ in range(COUNT)]
        account = [f"{each[0]}{dice.randrange(40)}" for each in side]
        partner = [dice.choice(["", "p1", "p2", "p3"]) for _ in range(COUNT)]
        context = {
            "x_basket": [dice.choice([None, dice.uniform(-1, 1)]) for _ in range(COUNT)],
            "c_channel": [dice.choice([None, "app", "web"]) for _ in range(COUNT)],
        }
        self.requests = Requests([f"r{seed}-{row}" for row in range(COUNT)], account, side, partner, context)
        held = self.campaign.holdout and self.campaign.holdout.holds(account)
        self.treated = treatment(self.campaign.experiment, account, self.campaign.exploration, held)
        self.embeddings, self.heads = kit.embeddings(), kit.heads()
        for each in SIDES:
            accounts = [f"{each[0]}{number}" for number in range(40)]
            age = [*(dice.choice([None, 12.0, 30.0]) for _ in accounts), None, None, None]
            kind = [*(None for _ in accounts), "kiosk", "bar", None]
            table = pd.DataFrame({"account_id": [*accounts, "p1", "p2", "p3"], "x_age": age, "c_kind": kind})
            table["x_spend"] = [*(dice.choice([None, 0.0, 400.0, 2500.0]) for _ in accounts), 1.0, 1.0, 1.0]
            table.to_parquet(folder / columns_file(each))
        self.coverage = self.campaign.coverage().reading(folder)
        vectors = self.embeddings.set_index("account_id")["embedding"]
        self.curve = [curves_of(self.heads[of], vectors[who][None]) for of, who in zip(side, account, strict=True)]

    def alone(self, row: int, tie_share: float | None = None):
        """The request by itself: what may be given, and the answer; at a tie share without arms."""
        requests = self.requests
        context = {name: [values[row]] for name, values in requests.context.items()}
        asked = SideRequests(requests.side[row], [requests.account_id[row]], [requests.partner_id[row]], context)
        share = self.price.tie_share if tie_share is None else tie_share
        policy = Policy(self.campaign, self.coverage, self.price.of(self.campaign.priced), share)
        eligible, ids = policy.eligible(asked), [requests.request_id[row]]
        if not eligible.rows.size:
            return None
        if tie_share is not None:
            return policy.choices(eligible, self.curve[row]).decide(policy.prices, share, ids)
        return policy.answer(eligible, self.curve[row], ids, self.treated.take([row]))


@pytest.fixture(params=range(16))
def case(request, kit, tmp_path):
    return Case(request.param, kit, tmp_path)


def by_predictor(case):
    """Row → column, and the decisions of its side, by the predictor."""
    heads = case.heads
    features = Features(TableReader(case.embeddings), {side: heads[side].default_embedding for side in SIDES})
    active, found = Active(case.price, ServedModel("test-model-1", heads, features)), {}
    for side in SIDES:
        rows = [row for row, each in enumerate(case.requests.side) if each == side]
        asked = case.campaign, case.coverage, Group(side, active, rows, stale=False), case.requests, case.treated
        wanted = asyncio.run(want(*asked, lambda _: nullcontext()))
        found |= {row: (column, wanted) for column, row in enumerate(wanted.rows)}
    return found


def by_replay(case):
    """Answers of a simulated day without a hard stop."""
    requests, model = case.requests, {}
    for side in SIDES:
        mine = case.embeddings[case.embeddings["side"] == side]
        response = case.heads[side].response(np.stack(mine["embedding"]))
        names = mine["account_id"].to_numpy(dtype=str)
        model[side] = NamedCurves(names, Curves(case.heads[side].levels, response))
    context = {name: np.array(values, dtype=object) for name, values in requests.context.items()}
    columns = [np.array(each) for each in (requests.request_id, requests.account_id, requests.side)]
    day = Day(*columns, np.linspace(0, 0.5, COUNT), 24, np.array(requests.partner_id), context)
    ledger = SimulatedLedger(case.campaign, dict.fromkeys(SIDES, np.zeros(0, str)), case.coverage)
    return PricedPolicy(case.campaign, model, ledger, price=case.price)(day)


def by_off_policy(case, folder):
    """Request → propensities (J,), from the log of the requests and the workspace of the model."""
    requests, embeddings = case.requests, folder / "embeddings.parquet"
    context = [
        json.dumps({name: values[row] for name, values in requests.context.items() if values[row] is not None})
        for row in range(COUNT)
    ]
    frame = pd.DataFrame({name: getattr(requests, name) for name in ("request_id", "account_id", "side", "partner_id")})
    log = SimpleNamespace(decisions=frame.assign(context=context))
    (folder / "model").mkdir()
    (folder / "model" / "model.json").write_text(json.dumps({"model_version": "m1"}))
    save_heads(case.heads, folder / "model")
    case.embeddings[["account_id", "side", "embedding"]].to_parquet(embeddings, index=False)
    who = {
        side: Accounts(own["account_id"].to_numpy(dtype=str), np.ones(len(own)))
        for side, own in case.embeddings.groupby("side")
    }
    traffic = Traffic(dict.fromkeys(SIDES, Profile(np.ones(24), 100.0)), who)
    write_population(folder / "population" / "m1", case.heads, embeddings, traffic)
    priced = Priced.of(frame, log, case.campaign, folder)
    main, *further = case.price.of(case.campaign.priced)
    target, found = priced.at(main, further), {}
    for side, own in priced.requests.groupby("side"):
        found |= dict(zip(own["request_id"], target(side).probability.T, strict=True))
    return found


def test_each_caller_gives_what_the_policy_answers_to_the_request_alone(case, tmp_path) -> None:
    served, replayed, estimated = by_predictor(case), by_replay(case), by_off_policy(case, tmp_path)
    for row in range(COUNT):
        own, request = case.alone(row), case.requests.request_id[row]
        if own is None:
            assert row not in served
            assert request not in estimated
            assert replayed.reason[row] == "ineligible"
            continue
        column, wanted = served[row]
        made, alone = wanted.decided, own.decision
        level, share, reason = int(alone.level[0]), alone.propensity[0], own.reasons[0]
        assert (made.decision.level[column], replayed.level[row]) == (level, level)
        assert (made.decision.propensity[column], replayed.propensity[row]) == (share, share)
        assert (made.reasons[column], replayed.reason[row]) == (reason, reason)
        assert (made.treated.arm[column], replayed.arm[row]) == (own.treated.arm[0],) * 2
        assert (made.groups[column], made.unpaid[column]) == (own.groups[0], own.unpaid[0])
        np.testing.assert_array_equal(estimated[request], case.alone(row, 0.5).policy.propensities()[:, 0])
        side, partner = case.requests.side[row], case.requests.partner_id[row]
        shares = made.decision.policy.propensities()[:, column].tolist()
        logged = {"side": side, "groups": own.groups[0], "partner_id": partner, "propensities": shares}
        worth = case.coverage.worth(SideRequests(side, [case.requests.account_id[row]]))
        shown = level_rows(case.campaign, logged, case.curve[row].response[:, 0].astype(np.float64), case.price, worth)
        scores = own.choices.scores(case.price.of(case.campaign.priced))[:, 0]
        assert [each["score"] for each in shown] == scores.tolist()
        assert [each["propensity"] for each in shown] == shares
        if reason == "optimal":
            allowed = np.flatnonzero(alone.policy.allowed[:, 0])
            assert level == allowed[np.argmax(scores[allowed])]


def test_the_cases_have_every_reason_and_several_prices(kit, tmp_path) -> None:
    cases = [Case(seed, kit, tmp_path) for seed in range(16)]
    answers = [each.alone(row) for each in cases for row in range(COUNT)]
    assert {"ineligible" if each is None else each.reasons[0] for each in answers} == {
        *("ineligible", "holdout", "explored", "optimal"),
    }
    assert {len(each.campaign.priced) for each in cases} >= {1, 2, 3, 4}
    assert any(each.campaign.limits.caps for each in cases)
    own = [each.coverage.worth(SideRequests("customer", [f"c{k}" for k in range(40)])) for each in cases[1::2]]
    # An account without a worth has the mean of the others.
    assert all(len(np.unique(each)) == 4 and 0.0 in each for each in own)
