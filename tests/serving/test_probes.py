"""Probes and metrics on a port of their own."""

import asyncio
import time
import urllib.error
import urllib.request

import orjson
import pytest
from prometheus_client import CollectorRegistry, Counter

from serving.http.limits import STUCK_SECONDS
from serving.http.probes import Probes, probing
from serving.local.launch import free_port
from shadowprice.errors import Unavailable


@pytest.fixture
def service():
    """A service whose heartbeat and readiness the test sets, and a function that asks its probes."""
    state = {"beat": 0.0, "reason": ""}
    registry, port = CollectorRegistry(), free_port()
    Counter("shadowprice_example", "An example", registry=registry).inc()

    def ready():
        if state["reason"]:
            raise Unavailable(state["reason"])
        return {"status": "ready"}

    def ask(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    with probing("127.0.0.1", port, Probes(lambda: state["beat"], ready, registry)):
        while ask_or_none(ask) is None:
            time.sleep(0.01)
        yield state, ask


def ask_or_none(ask):
    try:
        return ask("/healthz")
    except urllib.error.URLError:
        return None


def test_the_probes_say_what_the_service_says(service):
    state, ask = service
    assert ask("/readyz") == (200, b'{"status":"ready"}')
    state["reason"] = "the disk is full"
    assert (ask("/readyz")[0], orjson.loads(ask("/readyz")[1])) == (503, {"error": "the disk is full"})
    assert b"shadowprice_example_total 1.0" in ask("/metrics")[1]
    assert ask("/v1/totals")[0] == 404


def test_a_service_is_alive_as_long_as_its_event_loop_runs(service):
    state, ask = service
    assert ask("/healthz")[0] == 200
    state["beat"] = time.monotonic() - STUCK_SECONDS / 2
    assert ask("/healthz")[0] == 200
    state["beat"] = time.monotonic() - STUCK_SECONDS - 1
    status, body = ask("/healthz")
    assert (status, b"event loop has stood still" in body) == (503, True)


def test_an_event_loop_that_is_busy_delays_no_probe(service):
    _, ask = service

    async def busy():
        """Hold the loop of the service, and the interpreter as a flood does, for a second."""
        asked = asyncio.get_running_loop().run_in_executor(None, slowest)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            sum(range(10_000))
        return await asked

    def slowest():
        took = []
        for _ in range(10):
            started = time.monotonic()
            assert ask("/healthz")[0] == 200
            took.append(time.monotonic() - started)
        return max(took)

    assert asyncio.run(busy()) < 1.0


def test_a_port_that_is_taken_is_reported():
    port = free_port()
    with (
        probing("127.0.0.1", port, Probes(lambda: 0.0, dict, CollectorRegistry())),
        pytest.raises(Unavailable, match=f"port {port}"),
        probing("127.0.0.1", port, Probes(lambda: 0.0, dict, CollectorRegistry())),
    ):
        pass
