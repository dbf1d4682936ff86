"""Further budgets and caps of a campaign in either store, and over HTTP."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.ledger import Ledger
from serving.ledger.api.usage import limits_now
from serving.ledger.log import LogWriter
from serving.ledger.records import Recorded
from serving.recover import recover
from shadowprice.errors import Conflict
from shadowprice.limits import Cap, GroupBudget, Limits
from shadowprice.pacing.decision_log.served import read_log

ONCE = Limits(caps=(Cap(name="once", per="account", count=1, period="day"),))


def given(recorded):
    return [(each.decision.level, each.decision.reason, each.decision.limited_by) for each in recorded]


def test_a_cap_per_account_and_day_holds_within_one_call_and_ends_with_the_day(open_ledger, kit):
    ledger = open_ledger(limits=ONCE)
    answers = ledger.authorize(kit.item("r1"), kit.item("r2"), kit.item("r3", account_id="b"), kit.item("r4", level=0))
    assert given(answers) == [(1, "tie", ""), (0, "capped", "once"), (1, "tie", ""), (0, "tie", "")]
    assert answers[1].decision.propensities == (1.0, 0.0, 0.0)
    assert given(ledger.authorize(kit.item("r5", "merchant", 1))) == [(-1, "capped", "once")]
    ledger.at += timedelta(days=1)
    assert given(ledger.authorize(kit.item("r6"))) == [(1, "tie", "")]


def test_what_a_day_leaves_is_there_on_the_next_and_never_more(open_ledger, kit):
    daily = GroupBudget(name="daily", limit=60, period="day", rolls_over=True)
    ledger = open_ledger(limits=Limits(budgets=(daily,), time_zone="Asia/Kolkata"), hours=72)
    wallet = [kit.item(f"a{place}", account_id=f"a{place}") for place in range(8)]
    assert given(ledger.authorize(*wallet[:2])) == [(1, "tie", ""), (0, "budget_exhausted", "daily")]
    (use,) = limits_now(ledger.campaign, ledger.store.usage, ledger.date)
    assert (use.limit, use.used) == (60, 50)
    ledger.at += timedelta(hours=7)  # past midnight there, 19 h in UTC
    (use,) = limits_now(ledger.campaign, ledger.store.usage, ledger.date)
    assert (use.limit, use.used) == (60, -10)
    assert given(ledger.authorize(*wallet[2:4])) == [(1, "tie", ""), (0, "budget_exhausted", "daily")]
    ledger.at += timedelta(days=1)
    assert given(ledger.authorize(*wallet[4:7])) == [(1, "tie", ""), *2 * [(0, "budget_exhausted", "daily")]]


@pytest.mark.parametrize("limits", [ONCE, Limits()], ids=["cap", "budget"])
def test_a_request_that_may_not_have_the_free_level_is_given_nothing(open_ledger, kit, limits):
    ledger = open_ledger(limit=60, limits=limits)
    ledger.authorize(kit.item("first"))
    reason, name = ("capped", "once") if limits else ("budget_exhausted", "budget")
    wanted = {"level": 2, "propensity": 0.75, "propensities": [0.0, 0.25, 0.75], "response_unpaid": 0.0}
    (found,) = ledger.authorize(kit.item("second", unpaid_allowed=False, **wanted))
    assert given([found]) == [(-1, reason, name)]
    decision = found.decision
    assert (decision.incentive, decision.response, decision.propensity) == (0, 0.0, 1.0)
    assert decision.propensities == (0.0, 0.0, 0.0)
    # The store keeps it as it was returned.
    assert ledger.authorize(kit.item("second", unpaid_allowed=False, **wanted)) == [Recorded(decision, repeat=True)]
    (allowed,) = ledger.authorize(kit.item("third", unpaid_allowed=True, **wanted))
    assert given([allowed]) == [(0, reason, name)]


def test_money_that_comes_back_is_free_in_every_limit_that_it_was_taken_from(open_ledger, kit):
    budgets = (
        GroupBudget(name="shops", limit=60, partners=("p",)),
        GroupBudget(name="hour", limit=100, period="hour"),
    )
    caps = (Cap(name="partner", per="partner", amount=50),)
    ledger = open_ledger(limits=Limits(budgets=budgets, caps=caps), authorization_ttl_hours=2)

    def ask(name, partner):
        (found,) = given(ledger.authorize(kit.item(name, partner_id=partner)))
        return found

    assert ask("r1", "p") == (1, "tie", "")
    assert ask("r2", "p") == (0, "capped", "partner")
    assert ledger.release("r1") == (1, 0)
    assert ask("r3", "p") == (1, "tie", "")
    ledger.settle(kit.event("r3", 20))
    assert ask("r4", "p") == (0, "capped", "partner")
    assert ledger.correct(kit.correction("r3", 0, "clawback")) == (1, 0)
    assert ask("r5", "p") == (1, "tie", "")
    assert ask("r6", "q") == (1, "tie", "")
    assert ask("r7", "") == (0, "budget_exhausted", "hour")
    ledger.at += timedelta(hours=1)
    assert ask("r8", "") == (1, "tie", "")
    assert ask("r9", "p") == (0, "capped", "partner")
    ledger.at += timedelta(hours=1)
    assert ask("r10", "p") == (1, "tie", "")


def test_a_capture_after_an_expiry_needs_room_in_the_limits(open_ledger, kit):
    ledger = open_ledger(limits=ONCE, authorization_ttl_hours=1)
    ledger.authorize(kit.item("r1"))
    ledger.at += timedelta(hours=1)
    ledger.authorize(kit.item("r2"))
    with pytest.raises(Conflict, match=r"limit 'once' has no room for 50 minor units"):
        ledger.settle(kit.event("r1", 50))
    assert ledger.correct(kit.correction("r1", 50, override=True)) == (1, 0)
    assert ledger.store.usage(["once|2024-05-01|a"]) == {"once|2024-05-01|a": (100, 2)}


def test_limits_are_enforced_where_the_main_budget_is_a_mean_and_not_with_the_hard_stop_off(open_ledger, kit):
    ledger = open_ledger(form="per_account", limits=ONCE)
    assert given(ledger.authorize(kit.item("r1"), kit.item("r2")))[1] == (0, "capped", "once")
    assert given(ledger.authorize(kit.item("r3"), hard_stop=False)) == [(1, "tie", "")]


def test_a_limit_that_is_added_counts_from_then_on_and_one_that_is_left_out_is_not_enforced(open_ledger, kit):
    ledger = open_ledger()
    ledger.authorize(kit.item("r1"))
    ledger.close()
    limited = open_ledger(replace(ledger.campaign, limits=ONCE))
    assert given(limited.authorize(kit.item("r2"), kit.item("r3"))) == [(1, "tie", ""), (0, "capped", "once")]
    limited.settle(kit.event("r1", 50))
    limited.close()
    free = open_ledger(ledger.campaign)
    assert given(free.authorize(kit.item("r4"))) == [(1, "tie", "")]
    free.release("r2")
    assert free.store.usage(["once|2024-05-01|a"]) == {"once|2024-05-01|a": (0, 0)}


def test_the_use_of_a_budget_is_in_the_totals_and_metrics_over_http(open_ledger, kit):
    limits = Limits(budgets=(GroupBudget(name="customers", limit=120, side="customer"),))
    ledger = open_ledger(limits=limits)
    ledger.authorize(kit.item("r1"), kit.item("r2", "merchant"))
    app = serve(Ledgers([Ledger(ledger.store, ledger.campaign)]))
    columns = {name: [value] for name, value in vars(kit.item("r3", level=2)).items()}
    body = {"campaign": ledger.campaign.name, "model_version": "m", "price_version": 1, "items": columns}

    async def check():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            told = (await client.get("/v1/totals")).json()["limits"]
            assert told == [{"budget": "customers", "period": "campaign", "limit": 120, "used": 50}]
            labels = f'{{budget="customers",campaign="{ledger.campaign.name}"}}'
            metrics = (await client.get("/metrics")).text
            assert f"shadowprice_limit_minor_units{labels} 120.0" in metrics
            assert f"shadowprice_limit_used_minor_units{labels} 50.0" in metrics
            answer = (await client.post("/v1/authorizations", json=body)).json()["decisions"]
            assert (answer["reason"], answer["limited_by"], answer["level"]) == (
                ["budget_exhausted"],
                ["customers"],
                [0],
            )
            columns["partner_id"] = ["a\nb"]
            assert (await client.post("/v1/authorizations", json=body)).status_code == 422

    asyncio.run(check())


def test_a_recovery_from_the_log_counts_for_the_limits_again(open_ledger, kit, tmp_path):
    limits = Limits(
        budgets=(GroupBudget(name="shops", limit=500, partners=("p",)),),
        caps=(Cap(name="partner", per="partner", count=5),),
    )
    sums = ["shops||", "partner||p", "partner||q"]
    ledger = open_ledger(limits=limits)
    ledger.authorize(*(kit.item(f"r{place}", partner_id="p") for place in range(3)), kit.item("r3", partner_id="q"))
    ledger.settle(kit.event("r0", 50), kit.event("r1", 20))
    ledger.correct(kit.correction("r0", 10, "refund"))
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger(limits=limits)
    assert recover(other.store, other.campaign, read_log(tmp_path / "log")) == (4, 2, 1)
    wanted = {"shops||": (10 + 20 + 50, 3), "partner||p": (80, 3), "partner||q": (50, 1)}
    assert other.store.usage(sums) == ledger.store.usage(sums) == wanted


def test_a_limit_that_is_added_later_counts_from_then_on(kit, durable_redis, tmp_path):
    campaign = kit.campaign(limits=ONCE)
    earlier = kit.open(replace(campaign, limits=Limits()), tmp_path, durable_redis.url)
    earlier.authorize(kit.item("r1"))
    earlier.close()
    ledger = kit.open(campaign, tmp_path, durable_redis.url)
    assert ledger.money() == (50, 0)
    assert given(ledger.authorize(kit.item("r2"), kit.item("r3"))) == [(1, "tie", ""), (0, "capped", "once")]
    ledger.release("r1", "r2")
    assert ledger.money() == (0, 0)
    assert ledger.store.usage(["once|2024-05-01|a"]) == {"once|2024-05-01|a": (0, 0)}
    ledger.close()


@pytest.mark.parametrize("hard_stop", [True, False])
def test_a_sum_of_a_second_outcome_counts_each_decision_by_side_and_level(open_ledger, kit, tmp_path, hard_stop):
    guard = GroupBudget(name="calm", limit=0.5, period="day", outcome="x_contacts")
    some = GroupBudget(name="some", limit=0.5, where="account.x_age > 3.0", outcome="x_contacts", side="customer")
    limits = Limits(budgets=(guard, some))
    ledger = open_ledger(limit=190, limits=limits)

    def counted(at, begin):
        page = at.store.owners(at.campaign.name, begin, "", 100)
        assert not any(use.amount for use in page.usage.values())
        return {name: use.uses for name, use in page.usage.items()}

    first = [kit.item(f"r{level}", level=level, groups="some" if level else "") for level in range(3)]
    merchant = kit.item("m", "merchant", 0)
    answers = ledger.authorize(*first, merchant, hard_stop=hard_stop)
    # The hard stop of money gives the merchant nothing: what was recorded counts.
    assert answers[-1].decision.level == (-1 if hard_stop else 0)
    today = {"customer|0": 1, "customer|1": 1, "customer|2": 1, f"merchant|{-1 if hard_stop else 0}": 1}
    assert counted(ledger, "calm|2024-05-01|\t") == today
    assert counted(ledger, "some||\t") == {"customer|1": 1, "customer|2": 1}
    # A repeat, an outcome and an expiry change nothing; the next day has sums of its own.
    ledger.authorize(*first, hard_stop=hard_stop)
    ledger.settle(kit.event("r1", 50), hard_stop=hard_stop)
    ledger.at += timedelta(hours=80)
    ledger.sweep()
    ledger.authorize(kit.item("later"), hard_stop=hard_stop)
    assert counted(ledger, "calm|2024-05-01|\t") == today
    assert counted(ledger, "calm|2024-05-04|\t") == {"customer|1": 1}
    assert limits_now(ledger.campaign, ledger.store.usage, ledger.date) == []
    LogWriter(ledger.store, tmp_path / "log").write()
    other = open_ledger(limit=190, limits=limits)
    recover(other.store, other.campaign, read_log(tmp_path / "log"))
    assert counted(other, "calm|2024-05-01|\t") == today
