"""A ledger with requests, outcomes and corrections, its log, prices, and the console over them."""

import dataclasses
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import numpy as np
import pytest

from serving.client.client import Correction, LedgerClient, Outcome
from serving.local.launch import Deployment, free_port, start_console, start_ledger
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.decision_log.segments import segments
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

LEVELS = {"customer": (0, 50, 130), "merchant": (20, 60)}
REQUESTS = 400


@dataclasses.dataclass(frozen=True)
class Console:
    """Addresses of a running console and ledger, their campaign, and what was reported to the ledger."""

    url: str
    ledger: LedgerClient
    campaign: Campaign
    paid: dict[str, int]
    """request id → minor units paid, as corrected"""
    level: dict[str, int]


def price(version: int, opened: datetime, **changes) -> PriceRecord:
    values = {
        "campaign": "spring",
        "version": version,
        "slot": version - 1,
        "prices": {"budget": 0.004},
        "tie_share": 0.4,
        "status": "optimal",
        "primal": 10.0,
        "dual": 10.0,
        "gap": 1e-9,
        "violation": -1e-4,
        "spent": 1000 * (version - 1),
        "remaining": 9000,
        "sample_rows": 10,
        "model_version": "model-1",
        "solved_at": opened + timedelta(hours=version - 1),
        "expires_at": opened + timedelta(hours=version + 1),
        "window": opened,
        "at": float(version - 1),
        "requests": 100 * (version - 1),
        "expected": 2400.0 - 100 * (version - 1),
        "plan": tuple(np.linspace(1000 * (version - 1), 24_000, 26 - version)),
        "arrivals": tuple(np.linspace(100 * (version - 1), 2400, 26 - version)),
    }
    return PriceRecord(**(values | changes)).sealed()


def prices(opened: datetime) -> list[PriceRecord]:
    """Three prices: the second because more was paid, the third by another model and without a certificate."""
    return [
        price(1, opened),
        price(2, opened, prices={"budget": 0.005}, pacing_error=0.042),
        price(
            3,
            opened,
            prices={"budget": 0.0045},
            model_version="model-2",
            gap=0.01,
            by="ann on pod-1, shadowprice 1",
        ),
    ]


def authorizations(request_ids: list[str], level: dict[str, int]) -> dict[str, object]:
    side = ["merchant" if name.startswith("m") else "customer" for name in request_ids]
    at = [level[name] for name in request_ids]
    items = {
        "request_id": request_ids,
        "account_id": [f"account-{name}" for name in request_ids],
        "side": side,
        "level": at,
        "incentive": [LEVELS[each][j] for each, j in zip(side, at, strict=True)],
        "response": [0.25] * len(side),
        "expected_cost": [12.5] * len(side),
        "propensity": [1.0] * len(side),
        "propensities": [[float(k == j) for k in range(len(LEVELS[each]))] for each, j in zip(side, at, strict=True)],
        "reason": ["optimal" if k % 10 else "cold_start" for k in range(len(side))],
        "features_at": [time.time() - 60] * len(side),
        "response_unpaid": [0.1] * len(side),
    }
    return {
        "campaign": "spring",
        "model_version": "model-1",
        "price_version": 2,
        "items": items,
    }


def logged(folder, kind) -> int:
    """Number of the newest row in the log."""
    return max((each.last for each in segments(folder, kind)), default=0)


@pytest.fixture(scope="package")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    run = tmp_path_factory.mktemp("console")
    now = datetime.now(UTC)
    opened = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    campaign = Campaign(
        name="spring",
        sides={
            "customer": Terms(levels=LEVELS["customer"]),
            "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant", weight=0.5),
        },
        budget=Budget(limit=100_000),
        starts_at=opened,
    )
    (run / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    store = PriceStore(run / "prices")
    for record in prices(opened):
        store.publish(record)
    deployment = Deployment.of_run(run, run / "campaign.json")
    rng = np.random.default_rng(0)
    names = [f"{'m' if k % 4 == 0 else 'c'}{k}" for k in range(REQUESTS)]
    level = {name: int(rng.integers(len(LEVELS["merchant" if name[0] == "m" else "customer"]))) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHADOWPRICE_LOG_SECONDS", "0.2")
        patch.setenv("SHADOWPRICE_LEDGER_LOG_SECONDS", "0.2")
        service = start_ledger(deployment, free_port())
    (run / "campaigns" / "spring").mkdir(parents=True)
    (run / "campaigns" / "spring" / "campaign.json").write_text(json.dumps(campaign.to_dict()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHADOWPRICE_CAMPAIGNS", str(run / "campaigns"))
        shown = start_console(deployment, free_port(), service.url)
    try:
        service.wait_ready(60)
        answer = httpx.post(f"{service.url}/v1/authorizations", json=authorizations(names, level), timeout=30)
        assert answer.status_code == 200, answer.text
        with LedgerClient(service.url) as ledger:
            paid = {}
            for name in names[::2]:
                terms = LEVELS["merchant" if name[0] == "m" else "customer"]
                paid[name] = terms[level[name]] if rng.random() < 0.6 else 0
            ledger.settle(
                [
                    Outcome(request_id=name, cost=cost, observed_at=now, redeemed=cost > 0, response=float(cost > 0))
                    for name, cost in paid.items()
                ],
                "test",
            )
            refunded = next(name for name, cost in paid.items() if cost == 130)
            for number, cost in enumerate((100, 30)):
                event = {"event_id": f"r{number}", "kind": "refund"}
                ledger.correct(
                    [Correction(request_id=refunded, cost=cost, observed_at=now, redeemed=True, **event)], "test"
                )
            paid[refunded] = 30
            counts = {"decisions": REQUESTS, "outcomes": len(paid), "corrections": 2}
            deadline = time.monotonic() + 30
            while any(logged(deployment.served_dir, kind) < count for kind, count in counts.items()):
                assert time.monotonic() < deadline, service.tail()
                time.sleep(0.1)
            shown.wait_ready(60)
            yield Console(shown.url, ledger, campaign, paid, level)
    finally:
        shown.stop()
        service.stop()
