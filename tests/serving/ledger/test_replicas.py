"""Replicas of one ledger over one Redis: killed, drained and replaced while callers ask all of them."""

import asyncio
import json
import random
import signal
import time
from collections import Counter

import pytest

from serving.ledger.log import LEASE_SECONDS, LogWriter
from serving.ledger.redis.store import RedisStore
from serving.ledger.witness import Witness
from serving.local.launch import Service, free_port
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals
from shadowprice.errors import Unavailable
from shadowprice.limits import Cap, GroupBudget, Limits
from shadowprice.pacing.decision_log.served import read_log

CALLERS = 6
REQUESTS = 40
"""Of each caller in each of three phases."""
COST = 50
LIMIT = 500 * COST
CAP = 20


@pytest.fixture
def campaign(kit):
    cap = Cap(name="often", per="account", count=CAP)
    return kit.campaign(limit=LIMIT, limits=Limits(caps=(cap,)))


@pytest.fixture
def start(campaign, durable_redis, tmp_path):
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(campaign.to_dict()))
    running = []

    def starting() -> Service:
        port = free_port()
        command = [
            "serving.ledger", "--campaign-file", str(file), "--redis", durable_redis.url, "--port", str(port),
            "--log-dir", str(tmp_path / "log"), "--witness", str(tmp_path / "witness.json"),
            "--sweep-seconds", "0.3", "--log-seconds", "0.3", "--drain-seconds", "1",
        ]  # fmt: skip
        log = tmp_path / f"{len(running)}.log"
        running.append(Service("ledger", command, port, "/readyz", log))
        return running[-1]

    yield starting
    for each in running:
        each.stop()


def proposal(kit, request_id, account):
    item = vars(kit.item(request_id, account_id=account))
    return Proposals(**{name: [value] for name, value in item.items()})


async def ask(kit, campaign, urls, phase, answers, refused):
    """Callers that ask for new requests, and for one of before, at whichever replica is named first."""

    async def call(number):
        places = urls if number % 2 else urls[::-1]
        authorizer = Authorizer(",".join(places), campaign.name)
        for serial in range(REQUESTS):
            name = f"{phase}-{number}-{serial}"
            # What another caller was answered, at another replica.
            repeated = f"{phase}-{(number + 1) % CALLERS}-{serial // 2}"
            for request_id in (name, repeated):
                account = f"account-{int(request_id.split('-')[1]) * 7 + int(request_id.split('-')[2]) % 3}"
                try:
                    found = await authorizer.authorize(
                        proposal(kit, request_id, account), model_version="m", price_version=1
                    )
                except Unavailable as error:
                    refused.append(str(error))
                    continue
                decision = found.decisions
                answer = decision.level[0], decision.reason[0], decision.limited_by[0], decision.propensity[0]
                assert answers.setdefault(request_id, answer) == answer
        authorizer.close()

    await asyncio.gather(*(call(number) for number in range(CALLERS)))


def test_replicas_of_a_ledger_give_one_answer_and_exceed_nothing_while_they_come_and_go(
    kit, campaign, start, durable_redis, tmp_path
):
    first, second = start(), start()
    for each in (first, second):
        each.wait_ready(120.0)
    answers, refused = {}, []

    async def phases():
        async def soon(done):
            await asyncio.sleep(0.3)
            done()

        await asyncio.gather(
            ask(kit, campaign, [first.url, second.url], 0, answers, refused), soon(second.process.kill)
        )
        third = start()
        await asyncio.to_thread(third.wait_ready, 120.0)
        # A rolling upgrade: the new one is ready, the old one is told to end.
        await asyncio.gather(
            ask(kit, campaign, [first.url, third.url], 1, answers, refused),
            soon(lambda: first.process.send_signal(signal.SIGTERM)),
        )
        await asyncio.to_thread(first.process.wait, 30)
        await ask(kit, campaign, [first.url, third.url], 2, answers, refused)
        third.stop()

    asyncio.run(phases())
    assert refused == []
    assert len(answers) == 3 * CALLERS * REQUESTS
    store = RedisStore(durable_redis.url, None, campaign)
    try:
        decisions = store.decisions_after(0, 10_000)
        totals = store.totals()
        # The replica that was killed may have held the log: its lease has to end.
        while not store.may_log(LEASE_SECONDS):
            time.sleep(0.2)
        LogWriter(store, tmp_path / "log").write()
    finally:
        store.close()
    # Every answer is recorded once, as it was given.
    recorded = {each.request_id: (each.level, each.reason, each.limited_by, each.propensity) for each in decisions}
    assert len(recorded) == len(decisions)
    assert recorded == answers
    granted = Counter(each.account_id for each in decisions if each.incentive)
    assert max(granted.values()) == CAP
    assert totals.outstanding["customer"] == COST * granted.total() <= LIMIT
    assert {each.reason for each in decisions} >= {"tie", "capped"}
    # One process wrote the log at a time; the witness has what all of them recorded.
    log = read_log(tmp_path / "log")
    assert log.decisions["request_id"].tolist() == [each.request_id for each in decisions]
    assert Witness(tmp_path / "witness.json", campaign.name)._read().decisions == len(decisions)


SHARED = 300 * COST
"""Limit of a budget that two campaigns have together."""


def write_campaigns(kit, folder):
    """Two campaigns that share a cap and a budget, and exclude each other's merchants."""
    names = kit.campaign().name, kit.campaign().name
    limits = Limits(
        budgets=(
            GroupBudget(name="both", limit=SHARED, campaigns=names),
            GroupBudget(name="hour", limit=10**6, period="hour", side="merchant"),
        ),
        caps=(
            Cap(name="often", per="account", count=CAP, side="customer", campaigns=names),
            Cap(name="either", per="account", exclusive=True, side="merchant", campaigns=names),
        ),
    )
    for name in names:
        (folder / name).mkdir(parents=True)
        campaign = kit.campaign(name=name, limit=10**7, limits=limits)
        (folder / name / "campaign.json").write_text(json.dumps(campaign.to_dict()))
        yield campaign


def test_replicas_hold_shared_caps_and_exclusion_of_two_campaigns_while_they_come_and_go(kit, durable_redis, tmp_path):
    campaigns = list(write_campaigns(kit, tmp_path / "campaigns"))
    running = []

    def starting():
        port = free_port()
        command = [
            "serving.ledger", "--campaigns", str(tmp_path / "campaigns"), "--redis", durable_redis.url,
            "--port", str(port), "--sweep-seconds", "0.3", "--drain-seconds", "1",
        ]  # fmt: skip
        running.append(Service("ledger", command, port, "/readyz", tmp_path / f"{len(running)}.log"))
        return running[-1]

    refused = []

    async def call(number, urls, phase):
        dice = random.Random(100 * phase + number)
        campaign = campaigns[number % 2]
        authorizer = Authorizer(",".join(urls if number % 4 < 2 else urls[::-1]), campaign.name)
        for serial in range(REQUESTS):
            side = dice.choice(["customer", "customer", "merchant"])
            item = vars(kit.item(f"{phase}-{number}-{serial}", side, 1, f"{side}-{dice.randrange(12)}"))
            proposals = Proposals(**{name: [value] for name, value in item.items()})
            # A caller that was cut off asks again, at either replica.
            for _ in range(2):
                try:
                    await authorizer.authorize(proposals, model_version="m", price_version=1)
                except Unavailable as error:
                    refused.append(str(error))
        authorizer.close()

    async def phases():
        async def soon(done):
            await asyncio.sleep(0.3)
            done()

        first, second = starting(), starting()
        for each in (first, second):
            await asyncio.to_thread(each.wait_ready, 120.0)
        callers = range(2 * CALLERS)
        await asyncio.gather(
            *(call(number, [first.url, second.url], 0) for number in callers), soon(second.process.kill)
        )
        third = starting()
        await asyncio.to_thread(third.wait_ready, 120.0)
        await asyncio.gather(
            *(call(number, [first.url, third.url], 1) for number in callers),
            soon(lambda: first.process.send_signal(signal.SIGTERM)),
        )

    try:
        asyncio.run(phases())
    finally:
        for each in running:
            each.stop()
    assert refused == []
    granted, money = [], 0
    for campaign in campaigns:
        store = RedisStore(durable_redis.url, None, campaign)
        try:
            decisions = store.decisions_after(0, 10_000)
            money += sum(store.totals().outstanding.values())
        finally:
            store.close()
        assert len(decisions) == 2 * CALLERS * REQUESTS
        assert {each.limited_by for each in decisions} >= {"", "often", "either"}
        granted.append(Counter((each.side, each.account_id) for each in decisions if each.incentive))
    both = granted[0] + granted[1]
    assert max(count for (side, _), count in both.items() if side == "customer") == CAP
    assert not {key for key in granted[0].keys() & granted[1].keys() if key[0] == "merchant"}
    assert all({side for side, _ in each} == {"customer", "merchant"} for each in granted)
    assert money <= SHARED
