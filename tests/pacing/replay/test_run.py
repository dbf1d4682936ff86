"""The replay driver: order, accounting, failures of the parts around it, and the hard stop."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from serving.ledger.records import Entry
from shadowprice.campaign import Budget, Terms
from shadowprice.decision import NOTHING, decide
from shadowprice.errors import InvalidInput, NotCertified, NotFound, Unavailable
from shadowprice.limits import GroupBudget, Limits
from shadowprice.limits.usage import Left
from shadowprice.pacing.decision_log.records import Decision as LedgerDecision
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.pacers import make_pacer
from shadowprice.pacing.replay.compare import Setting, run_pacer
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import OutcomeModel, Outcomes
from shadowprice.pacing.replay.policies import PricedPolicy, Pricing
from shadowprice.pacing.replay.run import Answers, Replay, Reprice, replay
from shadowprice.pacing.replay.run import System as Parts


class System:
    """SimulatedLedger, policy and pricer of one setting."""

    def __init__(self, setting: Setting, hard_stop: bool = False) -> None:
        self.setting = setting
        self.ledger = SimulatedLedger(setting.campaign, setting.history)
        self.policy = PricedPolicy(setting.campaign, setting.model, self.ledger, hard_stop=hard_stop)
        self.pricer = Pricing(self.policy, setting.forecast, make_pacer("hourly"))

    def run(self, resolve_slot: Reprice | None = None, batch: int = 128) -> Replay:
        return replay(
            self.setting.day,
            self.setting.campaign,
            self.setting.outcomes,
            Parts(self.policy, self.ledger.settle, resolve_slot or self.pricer),
            moments=self.pricer.moments,
            batch=batch,
            progress=False,
        )


MakeSetting = Callable[..., Setting]


def test_every_request_is_answered_once_in_order_and_the_slots_add_up(make_setting: MakeSetting) -> None:
    system = System(make_setting(requests=3000))
    run, day = system.run(), system.setting.day
    np.testing.assert_array_equal(run.outcomes.request_id, day.request_id)
    assert run.slots["slot"].tolist() == list(range(24))
    assert run.slots["requests"].tolist() == sum(day.counts().values()).tolist()  # type: ignore[union-attr]
    assert run.slots["spend"].sum() == run.outcomes.cost.sum() == system.ledger.spent
    weight = np.where(run.outcomes.side == "merchant", 0.5, 1.0)
    assert run.slots["value"].sum() == pytest.approx((weight * run.outcomes.response).sum())
    assert run.slots["expected_value"].sum() == pytest.approx((weight * run.outcomes.expected_response).sum())
    assert run.slots["version"].tolist() == list(range(1, 25))
    assert run.slots["updated"].all()
    assert (run.slots["note"] == "").all()
    assert system.ledger.requests == {side: int(counts.sum()) for side, counts in day.counts().items()}


def test_the_size_of_a_batch_changes_nothing_but_speed(make_setting: MakeSetting) -> None:
    setting = make_setting(requests=600)
    one, many = System(setting).run(batch=1), System(setting).run(batch=500)
    np.testing.assert_array_equal(one.outcomes.level, many.outcomes.level)
    np.testing.assert_array_equal(one.outcomes.cost, many.outcomes.cost)
    np.testing.assert_allclose(one.slots["price"], many.slots["price"])


@pytest.mark.parametrize("error", [NotCertified, Unavailable])
def test_a_slot_without_a_new_price_keeps_the_last_one_and_says_why(
    make_setting: MakeSetting, error: type[Exception]
) -> None:
    system = System(make_setting(requests=2000))

    def dead_at_noon(slot: int, observed: object) -> object:
        if 12 <= slot < 15:
            raise error("the feed is dead")
        return system.pricer(slot, observed)  # type: ignore[arg-type]

    slots = system.run(dead_at_noon).slots  # type: ignore[arg-type]
    assert slots.loc[12:14, "price"].tolist() == [slots.loc[11, "price"]] * 3
    assert slots.loc[12:14, "version"].tolist() == [12] * 3
    assert not slots.loc[12:14, "updated"].any()
    assert slots.loc[12:14, "note"].tolist() == [f"{error.__name__}: the feed is dead"] * 3
    assert slots.loc[15, "version"] == 13
    assert slots.loc[15, "updated"]


def test_a_dead_feed_for_three_hours_still_ends_on_budget(make_setting: MakeSetting) -> None:
    setting = make_setting(requests=20_000, shock={12: 2.0})
    system = System(setting)

    def dead(slot: int, observed: object) -> object:
        if 12 <= slot < 15:
            raise Unavailable("the feed is dead")
        return system.pricer(slot, observed)  # type: ignore[arg-type]

    system.run(dead)  # type: ignore[arg-type]
    assert system.ledger.spent == pytest.approx(setting.campaign.budget.limit, rel=0.01)


def test_without_a_first_price_nothing_is_answered(make_setting: MakeSetting) -> None:
    system = System(make_setting(requests=200))

    def never(slot: int, observed: object) -> None:
        raise NotCertified("infeasible")

    with pytest.raises(Unavailable, match="no price yet"):
        system.run(never)  # type: ignore[arg-type]
    assert system.ledger.spent == 0


def test_ctrl_c_ends_the_replay_and_keeps_what_was_settled(make_setting: MakeSetting) -> None:
    system = System(make_setting(requests=2000))
    answered: list[Day] = []

    def impatient(batch: Day) -> Answers:
        if len(answered) == 5:
            raise KeyboardInterrupt
        answered.append(batch)
        return system.policy(batch)

    setting = system.setting
    with pytest.raises(KeyboardInterrupt):
        replay(
            setting.day,
            setting.campaign,
            setting.outcomes,
            Parts(impatient, system.ledger.settle, system.pricer),
            progress=False,
        )
    assert sum(system.ledger.requests.values()) == sum(len(batch) for batch in answered)


def test_an_error_of_the_service_is_not_swallowed(make_setting: MakeSetting) -> None:
    setting = make_setting(requests=200)

    def broken(batch: Day) -> Answers:
        raise Unavailable("the predictor is down")

    system = System(setting)
    with pytest.raises(Unavailable, match="predictor"):
        replay(setting.day, setting.campaign, setting.outcomes, Parts(broken, system.ledger.settle, lambda *_: None))


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        (
            Answers(np.zeros(1, dtype=np.int32), np.array(["optimal"] * 2), np.ones(2), np.array(["unassigned"] * 2)),
            "answers.level",
        ),
        (
            Answers(np.zeros(2, dtype=np.int32), np.array(["optimal"]), np.ones(2), np.array(["unassigned"] * 2)),
            "answers.reason",
        ),
        (
            Answers(
                np.full(2, -2, dtype=np.int32), np.array(["optimal"] * 2), np.ones(2), np.array(["unassigned"] * 2)
            ),
            "answers.level",
        ),
        (
            Answers(np.full(2, 9, dtype=np.int32), np.array(["optimal"] * 2), np.ones(2), np.array(["unassigned"] * 2)),
            "level",
        ),
    ],
)
def test_answers_that_do_not_fit_their_batch_are_refused(
    make_setting: MakeSetting, answers: Answers, field: str
) -> None:
    setting = make_setting(requests=50)
    with pytest.raises(InvalidInput) as caught:
        replay(
            setting.day.take(slice(0, 2)),
            setting.campaign,
            setting.outcomes,
            Parts(lambda _: answers, lambda _: None, lambda *_: None),
            progress=False,
        )
    assert caught.value.field == field


def test_a_day_without_requests_and_a_batch_of_none_are_refused(make_setting: MakeSetting) -> None:
    setting = make_setting(requests=50)
    for day, batch, field in ((setting.day.take(slice(0, 0)), 1, "day"), (setting.day, 0, "batch")):
        system = Parts(lambda _: None, lambda _: None, lambda *_: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(InvalidInput, match=field):
            replay(day, setting.campaign, setting.outcomes, system, batch=batch)


@pytest.mark.parametrize(
    ("method", "shock"),
    [
        *((method, {12: 2.0}) for method in ("hourly", "static", "closing", "mirror_descent", "pi")),
        *((method, {22: 4.0}) for method in ("static", "closing")),
        ("hourly", None),
    ],
)
def test_with_the_hard_stop_no_policy_ever_overspends(
    make_setting: MakeSetting, method: str, shock: dict[int, float] | None
) -> None:
    system = System(make_setting(seed=3, requests=4000, shock=shock), hard_stop=True)
    system.pricer.pacer = make_pacer(method)
    run = system.run()
    limit = system.setting.campaign.budget.limit
    paid = np.cumsum(run.outcomes.cost)
    assert paid[-1] <= limit
    if run.slots["exhausted"].sum():
        # It stops for want of money, not early: what is left does not pay for two dear incentives.
        assert limit - paid[-1] <= 2 * 200
        stopped = run.outcomes.level == NOTHING
        assert set(run.outcomes.side[stopped].tolist()) <= {"customer"}  # merchants have a free level


def test_merchants_who_bring_several_units_do_not_overspend_either(make_setting: MakeSetting) -> None:
    setting = make_setting(seed=3, requests=1500, shock={20: 4.0})
    paid_per_unit = Terms(levels=setting.campaign.terms("merchant").levels, weight=0.5, most_units=2)
    sides = {"customer": setting.campaign.terms("customer"), "merchant": paid_per_unit}
    campaign = replace(setting.campaign, sides=sides)
    setting = replace(setting, campaign=campaign, outcomes=replace(setting.outcomes, campaign=campaign))
    system = System(setting, hard_stop=True)
    committed = []

    def settle(outcomes: Outcomes) -> None:
        committed.append(system.ledger.spent + sum(system.ledger.outstanding.values()))
        SimulatedLedger.settle(system.ledger, outcomes)

    system.ledger.settle = settle  # type: ignore[method-assign]
    run = system.run()
    merchant = run.outcomes.side == "merchant"
    assert (run.outcomes.cost > run.outcomes.incentive)[merchant].any(), "some are paid for more than one unit"
    assert (run.outcomes.response[merchant] > 2).any(), "and some bring more than is paid for"
    assert max(committed) <= campaign.budget.limit
    assert run.outcomes.cost.sum() <= campaign.budget.limit
    assert sum(system.ledger.outstanding.values()) == 0


def test_a_price_that_is_too_high_because_units_are_not_paid_is_put_right_during_the_day(
    make_setting: MakeSetting,
) -> None:
    setting = make_setting(seed=1, requests=12_000)
    terms = Terms(levels=setting.campaign.terms("merchant").levels, most_units=1)
    campaign = replace(setting.campaign, sides={"merchant": terms}, budget=Budget(limit=4000 * 15))
    truth = {"merchant": setting.outcomes.truth["merchant"]}
    setting = replace(
        setting,
        campaign=campaign,
        day=setting.day.take(np.flatnonzero(setting.day.side == "merchant")),
        outcomes=replace(setting.outcomes, campaign=campaign, truth=truth),
        model=truth,
        forecast=Forecast({"merchant": setting.forecast.expected["merchant"]}),
        history={"merchant": setting.history["merchant"]},
    )
    closing, static = (run_pacer(setting, make_pacer(name), hard_stop=True) for name in ("closing", "static"))
    paid = np.minimum(closing.outcomes.response, 1).sum() / closing.outcomes.response.sum()
    assert paid < 0.8
    # Nobody told the model: static believes its curves and leaves money, closing learns what is really paid.
    assert static.outcomes.cost.sum() < 0.85 * campaign.budget.limit
    assert 0.99 * campaign.budget.limit < closing.outcomes.cost.sum() <= campaign.budget.limit
    assert closing.prices[-1][1].record.spend_ratio < 0.8
    assert closing.outcomes.expected_response.sum() > 1.02 * static.outcomes.expected_response.sum()


def test_the_hard_stop_holds_within_one_batch_whatever_is_redeemed(make_setting: MakeSetting) -> None:
    system = System(make_setting(requests=800), hard_stop=True)
    system.pricer(0.0, {"customer": np.zeros(0, dtype=int), "merchant": np.zeros(0, dtype=int)})
    limit = system.setting.campaign.budget.limit
    system.ledger.spent_of["merchant"] = int(limit) - 5000
    answers = system.policy(system.setting.day)
    promised = 0
    for side, level in zip(system.setting.day.side, answers.level, strict=True):
        promised += 0 if level == NOTHING else system.setting.campaign.terms(side).levels[level]
    assert 4800 < promised <= 5000
    cut = answers.reason == "budget_exhausted"
    assert cut.any()
    # What was cut got the level of no incentive, and nothing where every level costs.
    assert set(answers.level[cut].tolist()) == {0, NOTHING}


@pytest.mark.parametrize("of_customers", [None, 1000])
def test_the_hard_stop_answers_and_logs_what_the_ledger_does(
    make_setting: MakeSetting, of_customers: int | None
) -> None:
    setting = make_setting(requests=600)
    setting = replace(setting, campaign=replace(setting.campaign, exploration=0.3))
    if of_customers:
        buyers = GroupBudget(name="buyers", limit=of_customers, side="customer")
        setting = replace(setting, campaign=replace(setting.campaign, limits=Limits(budgets=(buyers,))))
    system = System(setting, hard_stop=True)
    system.pricer(0.0, {"customer": np.zeros(0, dtype=int), "merchant": np.zeros(0, dtype=int)})
    campaign, day = setting.campaign, setting.day
    system.ledger.spent_of["merchant"] = int(campaign.budget.limit) - 3000
    answers = system.policy(day)
    # The ledger is given what the policy would answer without a limit, and what is left of its budget.
    free = System(setting)
    free.policy.price = system.policy.price
    wanted = free.policy(day)
    left, cut = 3000, 0
    room = {"customer": of_customers or math.inf, "merchant": math.inf}
    for row in range(len(day)):
        side = day.side[row]
        terms = campaign.terms(side)
        response = setting.model[side].of(day.account_id[row : row + 1]).response
        policy = decide(
            terms.value(response),
            campaign.charges(side, response),
            [system.policy.price.prices[name] for name in campaign.priced],
            system.policy.price.tie_share,
            [str(day.request_id[row])],
            exploration=0.3,
        ).policy
        level = int(wanted.level[row])
        decision = LedgerDecision(
            str(day.request_id[row]), "a", side, level, terms.levels[level], 0.0, 0.0, float(wanted.propensity[row]),
            tuple(policy.propensities()[:, 0].tolist()), "optimal", "m", 1, None, 0,
        )  # fmt: skip
        spare = decision._replace(level=0 if terms.levels[0] == 0 else NOTHING, incentive=0)
        recorded = Entry(decision, spare, terms.reserved, 0).at(Left(min(left, room[side]), "budget"))
        left -= recorded.reserved
        room[side] -= recorded.reserved
        assert (recorded.level, recorded.propensity) == (answers.level[row], pytest.approx(answers.propensity[row]))
        cut += recorded.level != level
    assert cut > 100
    # An answer that was not cut is more probable too where dearer levels would have ended at it.
    assert np.any((answers.reason != "budget_exhausted") & (answers.propensity > wanted.propensity + 0.1))


def test_the_progress_bar_counts_requests_and_names_the_campaign(
    make_setting: MakeSetting, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shadowprice.progress.EVERY", 0.001)
    setting = make_setting(requests=100)
    system = System(setting)
    parts = Parts(system.policy, system.ledger.settle, system.pricer)
    replay(setting.day, setting.campaign, setting.outcomes, parts)
    shown = capsys.readouterr().err
    assert "replay spring" in shown
    assert f"{len(setting.day):,} of {len(setting.day):,} requests" in shown


def test_the_books_are_those_of_one_campaign(make_setting: MakeSetting) -> None:
    ledger = System(make_setting(requests=50)).ledger
    assert ledger.read("spring").spent == 0
    with pytest.raises(NotFound, match="winter"):
        ledger.read("winter")


def test_the_sample_is_the_most_recent_traffic(make_setting: MakeSetting) -> None:
    setting = make_setting(requests=400)
    ledger = SimulatedLedger(setting.campaign, setting.history, sample_rows=100)
    model: OutcomeModel = setting.outcomes
    level = np.zeros(len(setting.day), dtype=np.int32)
    ledger.authorize(setting.day, level)
    promised = sum(ledger.outstanding.values())
    assert promised == int((setting.day.side == "customer").sum()) * setting.campaign.terms("customer").levels[0]
    drawn: Outcomes = model.draw(setting.day, level)
    ledger.settle(drawn)
    assert sum(ledger.outstanding.values()) == 0
    for side in ("customer", "merchant"):
        asked = np.concatenate([setting.history[side], setting.day.account_id[setting.day.side == side]])
        last = asked[-len(setting.history[side]) :]
        np.testing.assert_array_equal(
            ledger.sample(setting.model)[side].response, setting.model[side].of(last).response
        )
