"""Predictor and ledger on two hosts, and the cable between them pulled while callers go on."""

import itertools
import json
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest

from benchmarks.faults.hosts import host
from benchmarks.faults.redis_server import RedisServer
from benchmarks.service.deployment import LEVELS, REDIS, environment, prepare
from operations.common.workspace import read_campaign
from serving.client.client import DecisionClient
from serving.ledger.opening import open_store
from serving.local.launch import free_port, start_ledger, start_predictor
from shadowprice.campaign import Budget
from shadowprice.errors import Unavailable

LIMIT = 40_000
ACCOUNTS = 50
CALLERS = 2
PULLED_SECONDS = 1.5
RECOVERY_SECONDS = 5.0


class Callers:
    """Threads that ask until stopped, send again what was not answered, and remember what they were told."""

    def __init__(self, url):
        self.told, self.contradicted, self.successes, self.failures = {}, [], [], 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(url, number)) for number in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def answered(self, count, seconds=60.0):
        """Seconds until there were so many more answers."""
        before, since = len(self.successes), time.monotonic()
        while len(self.successes) < before + count:
            assert time.monotonic() < since + seconds, "the callers are not answered"
            time.sleep(0.01)
        return time.monotonic() - since

    def _call(self, url, number):
        with DecisionClient(url, "spring") as client:
            for serial in itertools.count():
                # The first ids of all are asked again and again: an answer is never another one later.
                asked = list(dict.fromkeys([f"{number}-{serial}", f"{number}-{serial % 7}"]))
                while not self._stop.wait(0.01):
                    try:
                        found = client.decide(asked, ["c1"] * len(asked), ["customer"] * len(asked))
                    except Unavailable:
                        self.failures += 1
                        continue
                    break
                else:
                    return
                for name, level, incentive in zip(asked, found.level.tolist(), found.incentive.tolist(), strict=True):
                    if self.told.setdefault(name, (level, incentive)) != (level, incentive):
                        self.contradicted.append(name)
                self.successes.append(time.monotonic())


def test_a_cable_that_is_pulled_loses_doubles_and_overspends_nothing(tmp_path, tool):
    for name in ("redis-server", "ip"):
        tool(name)
    with ExitStack() as running:
        try:
            beside = running.enter_context(host())
        except PermissionError as error:
            pytest.skip(f"no host beside this one: {error}")
        redis = RedisServer(tmp_path / "redis")
        redis.start()
        running.callback(redis.stop)
        token = tmp_path / "token"
        token.write_text("a-token-of-the-test")
        running.enter_context(environment(SHADOWPRICE_LEDGER_TOKEN_FILE=str(token)))
        settings = {REDIS: f"127.0.0.1:{redis.port}", "SHADOWPRICE_FEATURE_READER": "packed"}
        running.enter_context(environment(**settings))
        deployment = prepare(tmp_path, ACCOUNTS)
        campaign = replace(read_campaign(deployment.campaign_file), budget=Budget(limit=LIMIT))
        deployment.campaign_file.write_text(json.dumps(campaign.to_dict()))
        ledger = start_ledger(deployment, free_port(), host=beside.address, launcher=beside.command)
        running.callback(ledger.stop)
        predictor = start_predictor(deployment, free_port(), ledger.url)
        running.callback(predictor.stop)
        for service in (ledger, predictor):
            service.wait_ready(120.0)
        callers = Callers(predictor.url)
        try:
            callers.answered(20)
            for _ in range(2):
                beside.pull()
                time.sleep(PULLED_SECONDS)
                assert httpx.get(f"{predictor.url}/v2/health/live").status_code == 200
                during = len(callers.successes)
                time.sleep(0.2)
                assert len(callers.successes) == during, "nothing can be authorized, so nothing is answered"
                beside.plug()
                assert callers.answered(1) <= RECOVERY_SECONDS
                callers.answered(20)
        finally:
            callers.stop()
        assert callers.failures > 0
        ledger.stop()
        store = open_store(campaign, deployment.ledger_db, "")
        try:
            rows, totals = store.decisions_after(0, 100_000), store.totals()
        finally:
            store.close()
    kept = {row.request_id: (row.level, row.incentive) for row in rows}
    assert callers.contradicted == []
    assert {name: kept.get(name) for name in callers.told} == callers.told
    assert len(kept) == len(rows)
    authorized = sum(incentive for _, incentive in kept.values())
    assert sum(totals.authorized.values()) == authorized <= LIMIT
    assert {incentive for _, incentive in kept.values()} <= set(LEVELS)
