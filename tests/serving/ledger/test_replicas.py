"""Replicas of one ledger over one Redis: killed, drained and replaced while callers ask all of them."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter

import pytest

from serving.ledger.log import LEASE_SECONDS, LogWriter
from serving.ledger.redis.store import RedisStore
from serving.ledger.redis.witness import Witness
from serving.local.launch import Service, free_port
from serving.predictor.ledger_client import Authoriser, Proposals
from shadowprice.errors import Unavailable
from shadowprice.limits import Cap, Limits
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
        authoriser = Authoriser(",".join(places), campaign.name)
        for serial in range(REQUESTS):
            name = f"{phase}-{number}-{serial}"
            # What another caller was answered, at another replica.
            repeated = f"{phase}-{(number + 1) % CALLERS}-{serial // 2}"
            for request_id in (name, repeated):
                account = f"account-{int(request_id.split('-')[1]) * 7 + int(request_id.split('-')[2]) % 3}"
                try:
                    found = await authoriser.authorise(
                        proposal(kit, request_id, account), model_version="m", price_version=1
                    )
                except Unavailable as error:
                    refused.append(str(error))
                    continue
                decision = found.decisions
                answer = decision.level[0], decision.reason[0], decision.limited_by[0], decision.propensity[0]
                assert answers.setdefault(request_id, answer) == answer
        authoriser.close()

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
