from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from serving.ledger.api.answers import content, recorded_rows
from serving.ledger.api.authorise import calls, ceiling, entries
from serving.ledger.api.messages import Authorizations
from serving.ledger.clock import microseconds
from serving.ledger.sqlite.authorizations import Authorise
from serving.ledger.sqlite.database import TABLES
from serving.predictor.active import Active, Beside, ServedModel
from serving.predictor.features import Features
from serving.predictor.ledger.client import Authorisation, Authorised
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.predictor import Predictor
from serving.protocol import OUTPUTS, Requests
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import SIDES, Budget, Segment, Terms
from shadowprice.curves import Curves
from shadowprice.decision import decide
from shadowprice.errors import Conflict, InvalidContext, InvalidInput, InvalidRequest, Unavailable
from shadowprice.groups import Groups
from shadowprice.limits import Cap, GroupBudget, Limits, Rule
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.canary import Canary
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import Population
from shadowprice.pacing.replay.policies import PricedPolicy, SimulatedLedger


class TableReader:
    """Embeddings from the table that a model writes."""

    def __init__(self, frame):
        self._rows = {
            (row.side, row.account_id): (row.embedding, row.computed_at.timestamp()) for row in frame.itertuples()
        }
        self.reads = []

    def embeddings(self, side, account_ids):
        self.reads.append(list(account_ids))
        found = [self._rows.get((side, name), (np.full(6, np.nan), np.nan)) for name in account_ids]
        return np.array([row[0] for row in found], dtype=np.float32), np.array([row[1] for row in found])


class NoReader:
    def embeddings(self, side, account_ids):
        raise OSError("no route to the store")


class LocalLedger:
    """The ledger's own authorising on a database in memory, without the network between."""

    def __init__(self, campaign):
        self.campaign = campaign
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.database.executescript(TABLES)
        self.messages = []

    async def authorise(self, proposals, known, *, sizes, **versions):
        parts = {"items": asdict(proposals)} if proposals.request_id else {}
        parts |= {"known": asdict(known)} if known.request_id else {}
        batch = Authorizations(campaign=self.campaign.name, sizes=sizes, **versions, **parts)
        self.messages.append(batch)
        now = datetime.now(UTC)
        wanted = calls(batch, entries(self.campaign, batch, now))
        answers = Authorise(wanted, ceiling(self.campaign, True), microseconds(now), 0)(self.database)
        told = content(*recorded_rows(batch, answers), answers)
        columns = {name: list(values) for name, values in told["decisions"].items()}
        return Authorisation(Authorised(**columns), told["known"], told["errors"])

    def recorded(self):
        return [name for (name,) in self.database.execute("SELECT request_id FROM decision ORDER BY sequence")]


class NoLedger:
    async def authorise(self, proposals, known, *, sizes, **versions):
        raise Unavailable("cut off")


@dataclass
class Asked:
    """The predictor, asked from outside of an event loop."""

    predictor: Predictor

    def answer(self, requests):
        return asyncio.run(self.predictor.answer(requests))

    def answer_all(self, calls):
        return asyncio.run(self.predictor.answer_all(calls))


@dataclass
class Fixed:
    current: Active | None


@pytest.fixture
def build(campaign, heads, kit):
    def build(*, terms=None, reader=None, price=None, ledger=None, **options):
        own = terms or campaign
        # The campaign's day is in the past.
        options.setdefault("window", False)
        registry = CollectorRegistry()
        predictor = Predictor(
            campaign=own,
            source=Fixed(
                Active(
                    price or kit.price(),
                    ServedModel(
                        "test-model-1",
                        heads,
                        Features(
                            reader or TableReader(kit.embeddings()),
                            {side: heads[side].default_embedding for side in SIDES},
                        ),
                    ),
                )
            ),
            ledger=ledger or LocalLedger(own),
            metrics=PredictorMetrics(own, registry),
            **options,
        )
        return Asked(predictor), registry

    return build


def customers(*accounts, prefix="r"):
    return Requests([f"{prefix}{i}" for i in range(len(accounts))], list(accounts), ["customer"] * len(accounts))


def test_a_call_with_both_sides_gives_each_what_a_call_of_its_own_gives(build, kit):
    sides = ["customer", "merchant", "merchant", "customer", "merchant"]
    accounts = ["c1", "m1", "m2", "c2", "m3"]
    ids = [f"r{i}" for i in range(5)]
    mixed = build()[0].answer(Requests(ids, accounts, sides))
    for side in SIDES:
        rows = [i for i in range(5) if sides[i] == side]
        alone = build()[0].answer(Requests([ids[i] for i in rows], [accounts[i] for i in rows], [side] * len(rows)))
        for name in ("incentive", "level", "response", "expected_cost", "propensity"):
            np.testing.assert_array_equal(getattr(mixed, name)[rows], getattr(alone, name))


def test_what_is_answered_is_what_decide_says_of_the_heads_curve(build, campaign, heads, kit):
    accounts = [f"c{i}" for i in range(40)]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    price = kit.price(price=0.006)
    answers = build(price=price)[0].answer(customers(*accounts))
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in accounts]))
    paid = np.array([0, 50, 80, 130])[:, None] * curve.astype(float)
    expected = decide(curve, paid, [0.006], 0.4, [f"r{i}" for i in range(40)])
    np.testing.assert_array_equal(answers.level, expected.level)
    np.testing.assert_array_equal(answers.expected_cost, paid[expected.level, np.arange(40)])
    assert len(set(answers.level.tolist())) > 1


ARMS = Experiment(
    arms=(
        Arm(name="holdout", kind="holdout", share=2500),
        Arm(name="new", kind="policy", share=2500),
        Arm(name="explore", kind="explore", share=2500),
    ),
    salt="spring",
)


@pytest.mark.parametrize("unit", ["account", "cluster"])
def test_each_arm_is_answered_as_the_replay_answers_it(build, kit, heads, unit):
    """Service and simulation: levels, propensities, arms and reasons of the same requests."""
    terms = kit.campaign(experiment=replace(ARMS, unit=unit), exploration=0.2)
    groups = Groups.of([f"c{i}" for i in range(50)], np.arange(50) // 3)
    accounts, ids = [f"c{i}" for i in range(60)], [f"r{i}" for i in range(60)]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in accounts]))
    price = kit.price(price=0.006)
    answers = build(terms=terms, price=price, groups=groups)[0].answer(Requests(ids, accounts, ["customer"] * 60))
    model = {"customer": Population(np.array(accounts), Curves(terms.terms("customer").levels, curve))}
    policy = PricedPolicy(terms, model, SimulatedLedger(terms, {}), groups=groups, price=price)
    replayed = policy(Day(np.array(ids), np.array(accounts), np.full(60, "customer"), np.zeros(60), 1))
    for name in ("level", "propensity", "arm", "reason"):
        assert list(getattr(answers, name)) == list(getattr(replayed, name))
    assert set(answers.arm) == {"holdout", "new", "explore", "unassigned"}
    if unit == "cluster":
        assert all(len(set(answers.arm[place : place + 3])) == 1 for place in range(0, 48, 3))
    assert {why for why, arm in zip(answers.reason, answers.arm, strict=True) if arm == "holdout"} == {"holdout"}


def test_a_holdout_is_held_whatever_is_known_of_it_and_its_arm_is_recorded(build, kit):
    terms = kit.campaign(experiment=ARMS)
    names = [f"stranger-{i}" for i in range(40)]
    ledger = LocalLedger(terms)
    answers = build(terms=terms, ledger=ledger)[0].answer(customers(*names))
    arms = ARMS.arm_of(names).tolist()
    assert list(answers.arm) == arms
    assert list(answers.reason) == ["holdout" if arm == "holdout" else "cold_start" for arm in arms]
    assert not answers.incentive[np.array(arms) == "holdout"].any()
    rows = ledger.database.execute("SELECT arm, propensity, propensities FROM decision ORDER BY sequence").fetchall()
    assert [arm for arm, *_ in rows] == arms
    assert {(given, shares) for arm, given, shares in rows if arm == "holdout"} == {(1.0, "[1.0,0.0,0.0,0.0]")}
    assert {given for arm, given, _ in rows if arm == "explore"} == {0.25}


def test_outside_the_window_the_arm_is_named_and_a_repeat_keeps_the_arm_of_its_decision(build, kit):
    terms = kit.campaign(experiment=ARMS)
    names = [f"c{i}" for i in range(40)]
    ledger = LocalLedger(terms)
    asked, registry = build(terms=terms, ledger=ledger)
    first = asked.answer(customers(*names))
    asked.answer(customers(*names))
    for arm, count in Counter(first.arm).items():
        labels = {"campaign": "spring", "side": "customer", "arm": arm}
        assert registry.get_sample_value("shadowprice_arm_decisions_total", labels) == count
    raised = replace(terms, experiment=ARMS.raised("new", 5000))
    again = build(terms=raised, ledger=ledger)[0].answer(customers(*names))
    assert list(again.arm) == list(first.arm)
    other = build(terms=raised, window=True)[0].answer(customers(*names))
    assert list(other.arm) == raised.experiment.arm_of(names).tolist() != list(first.arm)
    assert set(other.reason) == {"outside_window"}


def test_a_budget_per_response_charges_what_exceeds_the_allowance(build, kit, heads):
    terms = kit.campaign(budget=Budget(form="per_response", limit=60.0))
    price = kit.price(price=0.01)
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    accounts = [f"m{i}" for i in range(40)]
    ids = [f"r{i}" for i in range(40)]
    answers = build(terms=terms, price=price)[0].answer(Requests(ids, accounts, ["merchant"] * 40))
    curve = heads["merchant"].response(np.stack([frame["merchant", name] for name in accounts])).astype(float)
    score = 0.5 * curve - 0.01 * (np.array([20, 60, 100])[:, None] - 60.0)
    np.testing.assert_array_equal(answers.level, score.argmax(axis=0))


def test_an_unknown_account_gets_the_populations_decision_and_says_cold_start(build, heads, campaign):
    predictor, registry = build()
    answers = predictor.answer(customers("c1", "stranger", "c2"))
    curve = heads["customer"].response(heads["customer"].default_embedding[None])
    assert answers.response[1] == curve[answers.level[1], 0]
    assert answers.reason[1] == "cold_start"
    assert answers.reason[0] != "cold_start"
    assert not answers.degraded
    assert registry.get_sample_value("shadowprice_cold_start_total", {"campaign": "spring", "side": "customer"}) == 1
    age = registry.get_sample_value("shadowprice_feature_age_seconds", {"campaign": "spring", "side": "customer"})
    assert 300 <= age < 400


def test_each_account_is_read_once_however_often_it_asks(build, kit):
    reader = TableReader(kit.embeddings())
    answers = build(reader=reader)[0].answer(customers("c1", "c2", "c1", "c1"))
    assert reader.reads == [["c1", "c2"]]
    assert answers.response[0] != answers.response[1]


def test_a_stale_price_still_decides_degraded(build, kit):
    now = datetime.now(UTC)
    old = kit.price(solved_at=now - timedelta(hours=3), expires_at=now - timedelta(seconds=1))
    predictor, registry = build(price=old)
    answers = predictor.answer(customers("c1", "stranger"))
    fresh = build()[0].answer(customers("c1", "stranger"))
    assert answers.reason == ["stale_price", "stale_price"]
    assert answers.degraded
    assert answers.price_age_seconds == pytest.approx(3 * 3600, abs=60)
    np.testing.assert_array_equal(answers.level, fresh.level)
    labels = {"campaign": "spring", "reason": "stale_price"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_a_feature_store_that_fails_degrades_every_answer_to_cold_start(build, heads):
    predictor, registry = build(reader=NoReader())
    answers = predictor.answer(customers("c1", "c2"))
    assert answers.reason == ["cold_start", "cold_start"]
    assert answers.degraded
    labels = {"campaign": "spring", "reason": "features"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_embeddings_of_another_width_count_as_a_failed_store(build):
    class Wider:
        def embeddings(self, side, account_ids):
            return np.zeros((len(account_ids), 7), np.float32), np.zeros(len(account_ids))

    assert build(reader=Wider())[0].answer(customers("c1")).degraded


def test_the_same_request_in_one_call_and_in_the_next_gets_the_first_answer(build, kit):
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger, price=kit.price(price=0.0))[0].answer(
        Requests(["r", "s", "r"], ["c1", "c2", "c1"], ["customer"] * 3)
    )
    again = build(ledger=ledger, price=kit.price(price=0.5))[0].answer(Requests(["r"], ["c1"], ["customer"]))
    assert (first.repeat.tolist(), again.repeat.tolist()) == ([False, False, True], [True])
    for name in OUTPUTS:
        if name == "repeat":
            continue
        values = getattr(first, name)
        assert values[0] == values[2] == getattr(again, name)[0]
    other = build(price=kit.price(price=0.5))[0].answer(Requests(["r"], ["c1"], ["customer"]))
    assert other.level[0] != again.level[0]


def test_a_repeat_gets_its_answer_after_model_or_limits_came_to_refuse_its_context_or_partner(build, kit):
    """One micro-batch: a repeat, a repeat beside a new request, a conflict, a new request, and one that is decided."""
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger)[0].answer(customers("c1", "c2"))
    shop = Limits(caps=(Cap(name="shop", per="partner", count=1, side="customer"),))
    read_no_more = {"x_basket": [1.4, None]}
    for terms, context in ((kit.campaign(), read_no_more), (kit.campaign(limits=shop), {})):
        asked, registry = build(terms=terms, ledger=ledger)
        new = {"x_basket": [1.4]} if context else {}
        merchant = Requests(["m" + str(bool(context))], ["m1"], ["merchant"])
        repeat, mixed, taken, fresh, decided = asked.answer_all(
            [
                replace(customers("c1", "c2"), context=context),
                replace(
                    customers("c1", "c2", "c3"), context={name: [*column, None] for name, column in context.items()}
                ),
                Requests(["r0"], ["c9"], ["customer"], context=new),
                Requests(["other"], ["c4"], ["customer"], context=new),
                merchant,
            ]
        )
        assert repeat.repeat.all()
        for name in ("level", "propensity", "response", "reason"):
            assert list(getattr(repeat, name)) == list(getattr(first, name))
        assert [type(each) for each in (mixed, taken, fresh)] == [InvalidContext, Conflict, InvalidContext]
        assert not decided.repeat.any()
        labels = {"campaign": "spring", "side": "customer", "reason": "ineligible"}
        assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == 0
    assert ledger.recorded() == ["r0", "r1", "mTrue", "mFalse"]


def test_without_the_ledger_a_call_with_context_that_is_not_read_is_not_answered(build):
    wrong = replace(customers("c1"), context={"x_basket": [1.4]})
    with pytest.raises(Unavailable):
        build(ledger=NoLedger())[0].answer(wrong)
    with pytest.raises(InvalidContext):
        build(ledger=NoLedger(), authorisation_required=False)[0].answer(wrong)


class StrictLedger(LocalLedger):
    """Takes no message with more than ``most`` letters x, and refuses the request ids ``wrong`` with 422."""

    def __init__(self, campaign, most, wrong=()):
        super().__init__(campaign)
        self.most, self.wrong = most, wrong

    async def authorise(self, proposals, known, *, sizes, **versions):
        names = [*proposals.request_id, *known.request_id]
        if sum(name.count("x") for name in names) > self.most:
            raise InvalidRequest("too much")
        if set(names).intersection(self.wrong):
            error = InvalidRequest("other terms")
            error.status = 422
            raise error
        return await super().authorise(proposals, known, sizes=sizes, **versions)


@pytest.mark.parametrize("misfit", [{}, {"x_basket": [1.0]}], ids=["proposed", "looked up"])
def test_calls_that_the_ledger_does_not_take_together_are_answered_apart(build, kit, misfit):
    terms = kit.campaign()
    alone = build(terms=terms)[0]
    ledger = StrictLedger(terms, most=3)
    asked, _ = build(terms=terms, ledger=ledger)
    names = ["xx-a", "xx-b", "c", "xxxx", "xxx-d", "e"]
    calls = [Requests([name, f"{name}2"[-2:]], ["c1", "c2"], ["customer"] * 2) for name in names]
    answers = asked.answer_all(calls)
    assert [isinstance(each, InvalidRequest) for each in answers] == [name == "xxxx" for name in names]
    for call, answer in zip(calls, answers, strict=True):
        if call.request_id[0] != "xxxx":
            assert list(answer.level) == list(alone.answer(call).level)
    # The same calls again, some of whose requests are only looked up.
    lone = [replace(call, context={name: [*column, 1.0] for name, column in misfit.items()}) for call in calls]
    again = asked.answer_all([lone[0], calls[1], lone[2], calls[3], calls[4], lone[5]])
    assert [not isinstance(each, InvalidRequest) and each.repeat.all() for each in again] == [
        name != "xxxx" for name in names
    ]


def test_a_call_that_the_ledger_cannot_read_is_unavailable_alone(build, kit):
    terms = kit.campaign()
    calls = [customers("c1", "c2", prefix=prefix) for prefix in "abc"]
    answers = build(ledger=StrictLedger(terms, 0, ["b1"]))[0].answer_all(calls)
    assert [type(each) is Unavailable for each in answers] == [False, True, False]
    predictor, _ = build(ledger=StrictLedger(terms, 0, ["b1"]), authorisation_required=False)
    assert [each.degraded for each in predictor.answer_all(calls)] == [True] * 3


@pytest.mark.parametrize(("account", "side"), [("c2", "customer"), ("c1", "merchant")])
def test_a_request_id_used_for_another_account_or_side_is_a_conflict(build, account, side):
    ledger = LocalLedger(build()[0].predictor.campaign)
    predictor, _ = build(ledger=ledger)
    with pytest.raises(Conflict, match="'r'"):
        predictor.answer(Requests(["r", "r"], ["c1", account], ["customer", side]))
    predictor.answer(Requests(["r"], ["c1"], ["customer"]))
    with pytest.raises(Conflict, match="'r'"):
        predictor.answer(Requests(["q", "r"], ["c9", account], ["customer", side]))
    assert ledger.recorded() == ["r"]


def test_without_the_ledger_nothing_is_authorized_unless_that_is_configured(build):
    with pytest.raises(Unavailable, match="without authorization"):
        build(ledger=NoLedger())[0].answer(customers("c1"))
    predictor, registry = build(ledger=NoLedger(), authorisation_required=False)
    answers = predictor.answer(customers("c1"))
    assert answers.degraded
    assert answers.level[0] == build()[0].answer(customers("c1")).level[0]
    labels = {"campaign": "spring", "reason": "unauthorised"}
    assert registry.get_sample_value("shadowprice_degraded_total", labels) == 1


def test_an_exhausted_budget_gives_the_level_without_incentive(build, kit, heads):
    terms = kit.campaign(budget=Budget(form="total", limit=200))
    answers = build(terms=terms, price=kit.price(price=0.0))[0].answer(customers("c1", "c2", "c3"))
    assert answers.incentive.tolist() == [130, 0, 0]
    assert answers.reason == ["optimal", "budget_exhausted", "budget_exhausted"]
    assert answers.level.tolist() == [3, 0, 0]
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    unpaid = heads["customer"].response(frame["customer", "c2"][None])[0, 0]
    assert (answers.response[1], answers.expected_cost[1], answers.propensity[1]) == (unpaid, 0.0, 1.0)


def test_an_exhausted_budget_gives_nothing_where_every_level_costs(build, kit):
    terms = kit.campaign(budget=Budget(form="total", limit=19))
    answers = build(terms=terms)[0].answer(Requests(["r"], ["m1"], ["merchant"]))
    assert (answers.level[0], answers.incentive[0], answers.response[0]) == (-1, 0, 0.0)
    assert answers.reason == ["budget_exhausted"]


def test_service_and_replay_give_nothing_where_a_rule_forbids_the_level_without_incentive(build, kit, heads):
    """Requests of accounts that are allowed level 0 beside others, until the budget is exhausted."""
    names = [f"c{i}" for i in range(12)]
    forbidden = " || ".join(f'account.c_name == "{name}"' for name in names[::2])
    rule = Rule(name="always-paid", expression=f"({forbidden}) && offer.incentive == 0", side="customer")
    terms = kit.campaign(rules=(rule,), budget=Budget(form="total", limit=600), exploration=0.2)
    attributes = {"customer": Attributes.of(names, {"c_name": names})}
    ledger, price = LocalLedger(terms), kit.price(price=0.004)
    answers = build(terms=terms, ledger=ledger, attributes=attributes, price=price)[0].answer(customers(*names))
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = heads["customer"].response(np.stack([frame["customer", name] for name in names]))
    model = {"customer": Population(np.array(names), Curves(terms.terms("customer").levels, curve))}
    replay = PricedPolicy(
        terms, model, SimulatedLedger(terms, {}, terms.coverage(attributes)), hard_stop=True, price=price
    )
    ids = np.array([f"r{i}" for i in range(12)])
    replayed = replay(Day(ids, np.array(names), np.full(12, "customer"), np.zeros(12), 1))
    for name in ("level", "propensity"):
        assert list(getattr(answers, name)) == list(getattr(replayed, name))
    exhausted = [row for row, reason in enumerate(answers.reason) if reason == "budget_exhausted"]
    assert {int(answers.level[row]) for row in exhausted if row % 2 == 0} == {-1}
    assert {int(answers.level[row]) for row in exhausted if row % 2 == 1} == {0}
    assert not answers.response[answers.level == -1].any()
    assert not any(answers.level[row] == 0 for row in range(0, 12, 2))
    (message,) = ledger.messages
    assert message.items.unpaid_allowed == [False, True] * 6


def test_an_answer_that_a_cap_of_the_account_changes_is_capped_and_stays_so(build, kit):
    once = Limits(caps=(Cap(name="once", per="account", count=1),))
    predictor, _ = build(terms=kit.campaign(limits=once), price=kit.price(price=0.0))
    asked = Requests(["r1", "r2", "r3"], ["c1", "c1", "c2"], ["customer"] * 3)
    for _ in range(2):
        answers = predictor.answer(asked)
        assert answers.incentive.tolist() == [130, 0, 130]
        assert answers.reason == ["optimal", "capped", "optimal"]
        assert answers.limited_by == ["", "once", ""]
        assert answers.offer_id == ["customer-130", "customer-0", "customer-130"]
    assert answers.repeat.all()


def test_a_cap_per_partner_and_a_budget_of_partners_bind_requests_and_cannot_be_left_out(build, kit):
    limits = Limits(
        caps=(Cap(name="shop", per="partner", count=1, side="customer"),),
        budgets=(GroupBudget(name="north", limit=150, partners=("m1", "m2"), side="customer"),),
    )
    predictor, _ = build(terms=kit.campaign(limits=limits), price=kit.price(price=0.0))
    partners = ["m1", "m1", "m2", "m3"]
    names = [f"c{row}" for row in range(5)]
    answers = predictor.answer(Requests(names[:4], names[:4], ["customer"] * 4, partners))
    # m1 has had its incentive; m2 would take the budget of the two past 150; m3 is in no group.
    assert answers.incentive.tolist() == [130, 0, 0, 130]
    assert answers.reason == ["optimal", "capped", "budget_exhausted", "optimal"]
    assert answers.limited_by == ["", "shop", "north", ""]
    without = Requests(["new-3", "new-4"], names[3:], ["merchant", "customer"])
    with pytest.raises(InvalidContext, match=r"partner_id: .*'customer'.*'shop'.*first rows: 1") as refused:
        predictor.answer(without)
    assert refused.value.status == 422
    with pytest.raises(InvalidContext):
        asyncio.run(predictor.predictor.explain(without))
    assert predictor.answer(Requests(["m"], ["m1"], ["merchant"])).reason == ["optimal"]


@pytest.mark.parametrize("unit", ["partner", "hour"])
def test_partners_and_hours_are_units_of_an_experiment(build, kit, unit):
    arms = (Arm(name="none", kind="holdout", share=5000), Arm(name="all", kind="policy", share=5000))
    test = Experiment(arms=arms, salt="spring", unit=unit)
    predictor, _ = build(terms=kit.campaign(experiment=test), price=kit.price(price=0.0))
    partners = [*(f"m{row}" for row in range(39)), ""]
    names = [f"c{row}" for row in range(40)]
    answers = predictor.answer(Requests(names, names, ["customer"] * 40, partners))
    now = predictor.predictor.clock()
    units = partners if unit == "partner" else [f"{now:%Y-%m-%dT%H}"] * 40
    assert list(answers.arm) == test.arm_of(units).tolist()
    assert answers.arm[-1] == ("unassigned" if unit == "partner" else answers.arm[0])
    assert [incentive == 0 for incentive in answers.incentive] == [arm == "none" for arm in answers.arm]


def test_a_budget_of_one_side_adds_its_price_to_that_side_alone(build, kit, heads):
    limits = Limits(budgets=(GroupBudget(name="buyers", limit=10**6, side="customer"),))
    campaign = kit.campaign(limits=limits)
    price = kit.price(prices={"budget": 0.002, "buyers": 0.003})
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    for side, total in (("customer", 0.005), ("merchant", 0.002)):
        names = [f"{side[0]}{row}" for row in range(60)]
        answers = build(terms=campaign, price=price)[0].answer(Requests(names, names, [side] * 60))
        response = heads[side].response(np.stack([frame[side, name] for name in names]))
        terms = campaign.terms(side)
        expected = np.argmax(terms.value(response) - total * terms.cost(response), axis=0)
        np.testing.assert_array_equal(answers.level, expected)


def test_a_tie_at_the_price_is_shared_and_says_so(build, kit):
    customer = Terms(levels=(0, 50, 80, 130))
    terms = kit.campaign(sides={"customer": customer}, budget=Budget(form="total", limit=10**9))
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    curve = kit.heads()["customer"].response(frame["customer", "c5"][None])[:, 0].astype(float)
    slopes = np.diff(curve) / np.diff(np.array([0, 50, 80, 130]) * curve)
    tie = kit.price(price=float(slopes[0]))
    ids = [f"r{i}" for i in range(400)]
    answers = build(terms=terms, price=tie)[0].answer(Requests(ids, ["c5"] * 400, ["customer"] * 400))
    score = curve - slopes[0] * np.array([0, 50, 80, 130]) * curve
    tied = np.flatnonzero(score >= score.max() - 1e-9)
    assert len(tied) == 2
    assert set(answers.reason) == {"tie"}
    dear = answers.level == tied.max()
    assert set(np.unique(answers.level)) == set(tied.tolist())
    assert 0.3 < dear.mean() < 0.5
    np.testing.assert_allclose(answers.propensity, np.where(dear, 0.4, 0.6))


def test_a_side_the_campaign_does_not_have_is_refused(build, kit):
    terms = kit.campaign(sides={"customer": Terms(levels=(0, 50, 80, 130))})
    with pytest.raises(InvalidInput, match="merchant"):
        build(terms=terms)[0].answer(Requests(["r"], ["m1"], ["merchant"]))


def test_without_a_price_there_is_no_answer(build):
    predictor, _ = build()
    predictor.predictor.source.current = None
    with pytest.raises(Unavailable, match="no price"):
        predictor.answer(customers("c1"))


def test_calls_answered_together_are_answered_as_each_alone(build, kit):
    terms = kit.campaign()
    calls = [
        customers("c1", "c2", prefix="a"),
        Requests(["m"], ["m3"], ["merchant"]),
        customers("nobody", "c1", "c9", prefix="b"),
    ]
    together, registry = build(terms=terms, ledger=LocalLedger(terms))
    for call, found in zip(calls, together.answer_all(calls), strict=True):
        alone = build(terms=terms, ledger=LocalLedger(terms))[0].answer(call)
        for name in OUTPUTS:
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    stages = {"campaign": "spring", "stage": "authorise"}
    assert registry.get_sample_value("shadowprice_decision_seconds_count", stages) == 1


def test_of_calls_answered_together_only_those_at_fault_are_refused(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    predictor, _ = build(ledger=ledger)
    first, theft, other = predictor.answer_all(
        [Requests(["r"], ["c1"], ["customer"]), Requests(["r"], ["c2"], ["customer"]), customers("c3")]
    )
    assert isinstance(theft, Conflict)
    assert (first.reason, other.reason) == (["optimal"], ["optimal"])
    again, beside = predictor.answer_all([Requests(["r"], ["c1"], ["customer"]), customers("c4", prefix="q")])
    assert (again.reason, again.repeat.tolist()) == (["optimal"], [True])
    assert again.level == first.level
    assert (beside.reason, beside.repeat.tolist()) == (["optimal"], [False])


def test_calls_in_conflict_are_refused_alone_and_cost_the_others_no_message(build, kit):
    """Were the others answered one by one, one caller with a reused id would slow all of them down."""
    terms = kit.campaign(sides={"customer": kit.campaign().sides["customer"]})
    ledger, reader = LocalLedger(terms), TableReader(kit.embeddings())
    predictor, _ = build(terms=terms, ledger=ledger, reader=reader)
    predictor.answer(Requests(["taken"], ["c1"], ["customer"]))
    ledger.messages.clear()
    reader.reads.clear()
    good = [customers(f"c{number}", prefix=f"good-{number}-") for number in range(12)]
    hostile = [
        Requests(["taken"], ["c2"], ["customer"]),
        Requests(["mine", "good-0-0"], ["c3", "c3"], ["customer"] * 2),
        Requests(["same", "same"], ["c4", "c5"], ["customer"] * 2),
        Requests(["unknown-side"], ["m1"], ["merchant"]),
    ]
    mixed = [*good[:3], hostile[0], *good[3:6], hostile[1], *good[6:9], hostile[2], *good[9:], hostile[3]]
    found = predictor.answer_all(mixed)
    for call, answer in zip(mixed, found, strict=True):
        if call in hostile:
            assert isinstance(answer, InvalidInput if call is hostile[3] else Conflict)
        else:
            assert (answer.reason, answer.repeat.tolist()) == (["optimal"], [False])
    assert len(ledger.messages) == len(reader.reads) == 1
    assert ledger.recorded() == ["taken", *(call.request_id[0] for call in good)]


def test_a_batch_of_refused_calls_alone_asks_nobody(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    same = Requests(["r", "r"], ["c1", "c2"], ["customer"] * 2)
    found = build(ledger=ledger)[0].answer_all([same, same])
    assert [type(each) for each in found] == [Conflict] * 2
    assert ledger.messages == []


def test_one_request_in_two_calls_at_once_is_authorized_once(build):
    ledger = LocalLedger(build()[0].predictor.campaign)
    same = Requests(["r"], ["c1"], ["customer"])
    one, two = build(ledger=ledger)[0].answer_all([same, same])
    assert (one.repeat.tolist(), two.repeat.tolist()) == ([False], [True])
    assert (one.level, one.reason) == (two.level, two.reason)
    assert ledger.recorded() == ["r"]


def test_a_ledger_that_is_away_is_asked_once_for_calls_answered_together(build):
    class Counting(NoLedger):
        asked = 0

        async def authorise(self, *asked, **options):
            self.asked += 1
            return await super().authorise(*asked, **options)

    ledger = Counting()
    found = build(ledger=ledger)[0].answer_all([customers("c1", prefix=name) for name in "abc"])
    assert [type(each) for each in found] == [Unavailable] * 3
    assert ledger.asked == 1


def decided(answers, row=0):
    """The answer of a row, but for whether it is a repeat."""
    return {name: getattr(answers, name)[row] for name in OUTPUTS if name != "repeat"}


def test_a_repeat_has_the_reason_and_the_versions_of_the_original_decision(build, kit):
    ledger = LocalLedger(kit.campaign())
    now = datetime.now(UTC)
    stale = kit.price(3, solved_at=now - timedelta(hours=3), expires_at=now - timedelta(seconds=1))
    first = build(ledger=ledger, price=stale)[0].answer(customers("c1"))
    later, _ = build(ledger=ledger, price=kit.price(8, price=0.5))
    source = later.predictor.source
    source.current = replace(source.current, model=replace(source.current.model, version="test-model-2"))
    again = later.answer(customers("c1", "c2"))
    assert (first.reason, first.price_version.tolist(), first.model_version) == (["stale_price"], [3], ["test-model-1"])
    assert decided(again) == decided(first)
    assert again.repeat.tolist() == [True, False]
    assert (again.price_version.tolist(), again.model_version) == ([3, 8], ["test-model-1", "test-model-2"])
    assert (again.active_price_version, again.active_model_version, again.degraded) == (8, "test-model-2", False)


def test_a_repeat_is_the_first_answer_also_when_the_feature_store_fails(build, kit):
    ledger = LocalLedger(kit.campaign())
    first = build(ledger=ledger)[0].answer(customers("c1"))
    again = build(ledger=ledger, reader=NoReader())[0].answer(customers("c1", "c2"))
    assert decided(again) == decided(first)
    assert (again.reason, again.repeat.tolist()) == (["optimal", "cold_start"], [True, False])
    assert again.degraded


@pytest.fixture
def nobody_is_eligible(monkeypatch):
    def bar():
        monkeypatch.setattr(
            "serving.predictor.wanted.allowed_by",
            lambda head, matrix: np.zeros((len(head.levels), len(matrix)), dtype=bool),
        )

    return bar


def test_a_repeat_is_the_first_answer_also_when_the_account_is_not_eligible_any_more(build, kit, nobody_is_eligible):
    ledger = LocalLedger(kit.campaign())
    predictor, registry = build(ledger=ledger)
    first = predictor.answer(customers("c1"))
    nobody_is_eligible()
    ledger.messages.clear()
    again = predictor.answer(customers("c1", "c2", "c2"))
    assert decided(again) == decided(first)
    assert (again.reason[1:], again.level[1:].tolist()) == (["ineligible"] * 2, [-1, -1])
    assert again.repeat.tolist() == [True, False, False]
    assert len(ledger.messages) == 1
    assert ledger.recorded() == ["r0"]
    labels = {"campaign": "spring", "side": "customer", "reason": "ineligible"}
    assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == 2
    with pytest.raises(Conflict, match="'r0'"):
        predictor.answer(customers("c9"))


def test_without_the_ledger_nobody_ineligible_is_answered_unless_that_is_configured(build, nobody_is_eligible):
    nobody_is_eligible()
    with pytest.raises(Unavailable, match="without authorization"):
        build(ledger=NoLedger())[0].answer(customers("c1"))
    answers = build(ledger=NoLedger(), authorisation_required=False)[0].answer(customers("c1"))
    assert (answers.reason, answers.level.tolist(), answers.degraded) == (["ineligible"], [-1], True)


SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("edge", ["starts_at", "ends_at"])
def test_outside_the_window_nothing_is_paid_and_nothing_is_recorded(build, kit, edge):
    terms = kit.campaign()
    ledger, reader = LocalLedger(terms), TableReader(kit.embeddings())
    time = [terms.starts_at]
    predictor, registry = build(
        terms=terms, ledger=ledger, reader=reader, price=kit.price(price=0.0), window=True, clock=lambda: time[0]
    )
    inside, outside = (
        (terms.starts_at, terms.starts_at - SECOND) if edge == "starts_at" else (terms.ends_at - SECOND, terms.ends_at)
    )
    both = ["customer", "merchant"]
    time[0] = outside
    early = predictor.answer(Requests(["a", "b"], ["c1", "m1"], both))
    assert early.reason == ["outside_window"] * 2
    # A customer may be given nothing, which is a level; a merchant is always paid.
    assert (early.level.tolist(), early.incentive.tolist()) == ([0, -1], [0, 0])
    assert (early.expected_cost.tolist(), early.propensity.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    assert (early.repeat.tolist(), early.degraded) == ([False, False], False)
    assert ledger.recorded() == reader.reads == []
    time[0] = inside
    first = predictor.answer(Requests(["c", "d"], ["c1", "m1"], both))
    assert (first.reason, first.incentive.tolist()) == (["optimal"] * 2, [130, 100])
    time[0] = outside
    again = predictor.answer(Requests(["c", "e"], ["c1", "m1"], both))
    assert (decided(again), again.repeat.tolist()) == (decided(first), [True, False])
    assert again.reason == ["optimal", "outside_window"]
    with pytest.raises(Conflict, match="'d'"):
        predictor.answer(Requests(["d"], ["m2"], ["merchant"]))
    assert ledger.recorded() == ["c", "d"]
    for side, count in (("customer", 1), ("merchant", 2)):
        labels = {"campaign": "spring", "side": side, "reason": "outside_window"}
        assert registry.get_sample_value("shadowprice_unrecorded_answers_total", labels) == count


def test_outside_the_window_no_seat_of_a_delivery_is_given(build, kit):
    funds = Terms(levels=(0, 1), segments=(Segment(name="calm", demand=1), Segment(name="bold", demand=1)))
    terms = kit.campaign(sides={"customer": funds})
    answers = build(terms=terms, window=True)[0].answer(customers("c1"))
    assert (answers.reason, answers.level.tolist(), answers.incentive.tolist()) == (["outside_window"], [-1], [0])


def test_a_window_that_is_off_decides_at_any_time(build, kit):
    for time in (kit.campaign().starts_at - SECOND, kit.campaign().ends_at):
        answers = build(window=False, clock=lambda time=time: time)[0].answer(customers("c1"))
        assert answers.reason == ["optimal"]


TRIAL = Canary(
    campaign="spring",
    model_version="m2",
    incumbent="test-model-1",
    stage=0,
    share=4000,
    since=datetime(2026, 3, 1, tzinfo=UTC),
    prices={"budget": 0.004},
)


def served(kit, version: str, seed: int) -> ServedModel:
    heads = kit.heads(seed)
    features = Features(TableReader(kit.embeddings()), {side: heads[side].default_embedding for side in SIDES})
    return ServedModel(version, heads, features)


def test_each_unit_is_decided_by_its_own_model_and_price_and_so_recorded(kit, campaign) -> None:
    own = served(kit, "test-model-1", 0)
    trial = Active(replace(kit.price(price=0.002), version=7, model_version="m2").sealed(), served(kit, "m2", 5))
    active = Active(kit.price(price=0.006), own, Beside(TRIAL, trial))
    ledger, registry = LocalLedger(campaign), CollectorRegistry()
    predictor = Predictor(
        campaign=campaign,
        source=Fixed(active),
        ledger=ledger,
        metrics=PredictorMetrics(campaign, registry),
        window=False,
    )
    names = [f"c{i}" for i in range(50)]
    ids = [f"r{i}" for i in range(50)]
    answers = Asked(predictor).answer(Requests(ids, names, ["customer"] * 50))
    on_trial = TRIAL.takes(names)
    assert 5 < on_trial.sum() < 45
    assert (np.array(answers.arm) == np.where(on_trial, "canary", "unassigned")).all()
    frame = kit.embeddings().set_index(["side", "account_id"])["embedding"]
    for rows, pair in ((on_trial, trial), (~on_trial, active)):
        asked = np.flatnonzero(rows)
        curve = pair.model.heads["customer"].response(np.stack([frame["customer", names[row]] for row in asked]))
        paid = np.array([0, 50, 80, 130])[:, None] * curve.astype(float)
        expected = decide(curve, paid, [pair.price.prices["budget"]], 0.4, [ids[row] for row in asked])
        np.testing.assert_array_equal(answers.level[asked], expected.level)
        assert {answers.model_version[row] for row in asked} == {pair.model.version}
        assert set(answers.price_version[asked].tolist()) == {pair.price.version}
    recorded = ledger.database.execute("SELECT account_id, arm, model_version, price_version FROM decision").fetchall()
    assert {(arm, model, price) for _, arm, model, price in recorded} == {
        ("canary", "m2", 7),
        ("unassigned", "test-model-1", 1),
    }
    assert len(ledger.messages) == 1
    given = registry.get_sample_value(
        "shadowprice_arm_decisions_total", {"campaign": "spring", "side": "customer", "arm": "canary"}
    )
    assert given == on_trial.sum()
    # A canary whose price is stale decides for nobody.
    stale = replace(trial.price, expires_at=datetime.now(UTC) - timedelta(seconds=1)).sealed()
    late = Asked(
        replace(predictor, source=Fixed(replace(active, beside=Beside(TRIAL, Active(stale, trial.model)))))
    ).answer(Requests([f"s{i}" for i in range(50)], names, ["customer"] * 50))
    assert set(late.arm) == {"unassigned"}


def test_while_the_watch_alarms_the_campaign_explores_more(kit, campaign) -> None:
    doubtful = replace(campaign, alarm_exploration=0.5)
    answers = {}
    for alarmed in (False, True):
        active = Active(kit.price(), served(kit, "test-model-1", 0), alarmed=alarmed)
        predictor = Predictor(
            campaign=doubtful,
            source=Fixed(active),
            ledger=LocalLedger(doubtful),
            metrics=PredictorMetrics(doubtful, CollectorRegistry()),
            window=False,
        )
        rows = range(50)
        asked = Requests([f"r{i}" for i in rows], [f"c{i}" for i in rows], ["customer"] * 50)
        answers[alarmed] = Asked(predictor).answer(asked)
    explored = [list(answers[alarmed].reason).count("explored") for alarmed in (False, True)]
    assert explored[0] == 0
    assert 12 < explored[1] < 38
    assert max(answers[True].propensity) < 0.7
