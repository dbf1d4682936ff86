"""Attacks without a token on running services, each for a moment: the benchmark ``hostile`` in small."""

import time
from threading import Event, Thread
from types import SimpleNamespace

import httpx
import pytest

from benchmarks.faults.framing import WITHOUT_TOKEN
from benchmarks.faults.hostile import Attackers
from benchmarks.service.deployment import resident_mb

SECONDS = 1.5
GROWTH_MB = 150
PROBE_SECONDS = 1.0
"""The benchmark has 0.3 s; here other tests may run on the same processors."""
FRAMING = sorted(set(WITHOUT_TOKEN) - {"gRPC messages"})


@pytest.mark.parametrize(
    ("attack", "service"),
    [
        ("gRPC messages", "predictor"),
        *((name, "predictor") for name in FRAMING),
        *((name, "ledger") for name in FRAMING),
    ],
)
def test_under_an_attack_callers_are_answered_probes_too_and_no_memory_is_lost(world, attack, service):
    attacked = getattr(world, service)
    url = f"http://127.0.0.1:{world.grpc_port}" if attack == "gRPC messages" else attacked.url
    with httpx.Client(timeout=20) as kept, httpx.Client(timeout=20) as probing:
        decide(world, kept, f"{attack} {service} before")
        before = resident_mb(attacked)
        seen = SimpleNamespace(memory=before, probes=[])
        attackers, stop = Attackers(WITHOUT_TOKEN[attack], url, "spring"), Event()
        watching = Thread(target=watch, args=(attacked, probing, seen, stop))
        watching.start()
        try:
            end, calls = time.monotonic() + SECONDS, 0
            while time.monotonic() < end:
                decide(world, kept, f"{attack} {service} {calls}")
                calls += 1
        finally:
            stop.set()
            watching.join()
            attackers.stop()
    assert calls >= 5
    assert max(seen.probes) < PROBE_SECONDS
    assert seen.memory - before < GROWTH_MB


def decide(world, client, request_id):
    instance = {"request_id": request_id, "account_id": "c1", "side": "customer"}
    answer = client.post(f"{world.predictor.url}/v1/models/spring:predict", json={"instances": [instance]})
    assert answer.status_code == 200, answer.text


def watch(service, client, seen, stop):
    while not stop.wait(0.05):
        seen.memory = max(seen.memory, resident_mb(service))
        started = time.monotonic()
        assert client.get(f"{service.probe_url}/healthz").status_code == 200
        seen.probes.append(time.monotonic() - started)


def test_whole_numbers_of_context_are_answered_as_their_doubles_are(world):
    def answers(kind, **context):
        instances = [
            {"request_id": f"{kind}-{row}", "account_id": f"c{row}", "side": "customer", "context": context}
            for row in range(20)
        ]
        found = httpx.post(f"{world.predictor.url}/v1/models/spring:predict", json={"instances": instances}).json()
        return [(each["reason"], each["response"]) for each in found["predictions"]]

    assert answers("whole", x_basket=2) == answers("double", x_basket=2.0)
