"""Time of each stage of one request: the predictor's own clocks, and ledger and disk measured alone."""

import asyncio
import os
import time
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.service.decisions import decisions
from serving.local.launch import Service
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals

CALLS = 400
Clocks = dict[str, tuple[float, float]]


def clocks(predictor: Service) -> Clocks:
    """Seconds and calls of every stage so far, from the predictor's metrics."""
    with urllib.request.urlopen(f"{predictor.url}/metrics") as response:
        text = response.read().decode()
    read: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        if family.name == "shadowprice_decision_seconds":
            for sample in family.samples:
                read.setdefault(sample.labels["stage"], {})[sample.name.rsplit("_", 1)[1]] = sample.value
    return {stage: (values["sum"], values["count"]) for stage, values in read.items()}


def means(before: Clocks, after: Clocks) -> dict[str, float]:
    """Mean ms of each stage between two readings."""
    return {
        stage: 1e3 * (after[stage][0] - before[stage][0]) / max(after[stage][1] - before[stage][1], 1.0)
        for stage in after
    }


def ledger_alone(ledger: Service, folder: Path) -> dict[str, float]:
    """p50 in ms of a new authorization, of a repeated one, which writes nothing, and of a sync of the disk."""
    new, repeated = asyncio.run(_authorizations(ledger.url))
    return {"new": _middle(new), "repeated": _middle(repeated), "sync": _middle(_syncs(folder))}


async def _authorizations(url: str) -> tuple[list[float], list[float]]:
    authorizer = Authorizer(url, "spring")
    new: list[float] = []
    repeated: list[float] = []
    for number in range(CALLS):
        for times in (new, repeated):
            started = time.perf_counter()
            await authorizer.authorize(_one(f"stage-{number}"), model_version="m", price_version=1)
            times.append(time.perf_counter() - started)
    authorizer.close()
    return new, repeated


def _one(request_id: str) -> Proposals:
    columns = decisions([request_id], ["c1"], levels=(0, 20, *[0] * 8))
    return Proposals(**columns, features_at=[1e9], response_unpaid=[0.1])


def _syncs(folder: Path) -> list[float]:
    times: list[float] = []
    with (folder / "block").open("wb", buffering=0) as file:
        for _ in range(CALLS):
            file.write(bytes(4096))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return times


def _middle(times: list[float]) -> float:
    return 1e3 * sorted(times)[len(times) // 2]
