"""Two campaigns of the guides, their services by the commands of the guides, and requests."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from snippets import PORT, ROOT, Block, blocks_of

from serving.client.client import LedgerClient, Outcome
from serving.local.launch import Service
from shadowprice.pacing.history import Traffic

CAMPAIGNS = ("autumn", "winter")
FOLLOWED = ("serve-several-campaigns", "move-budget-between-campaigns", "hold-out-accounts")
"""Guides that are followed together, in this order."""
READY = {"8081": "/readyz", "8080": "/v2/health/ready", "8082": "/readyz"}
"""Port of a service in the guides, and the address that answers when it is ready."""


def guide(name: str) -> list[Block]:
    """Blocks of a guide, in order."""
    return blocks_of(ROOT / f"docs/how-to/{name}.md")


def code(name: str, begin: str) -> str:
    """The only block of a guide that begins so."""
    (found,) = (block for block in guide(name) if block.text.startswith(begin))
    return found.text


@contextmanager
def started(command: str, ports: Mapping[str, int], port: str, ready: str) -> Iterator[None]:
    """Start a service by the command of a guide, at another port than that which the guide names."""
    words = shlex.split(PORT.sub(lambda found: f"127.0.0.1:{ports[found[1]]}", command.replace("\\\n", " ")))
    module = words[2:] if words[0] == "python" else words
    flag = "--http-port" if "predictor" in module[0] else "--port"
    service = Service(module[0], [*module, flag, str(ports[port])], ports[port], ready, Path(f"{port}.log"))
    try:
        service.wait_ready(240)
        yield
    finally:
        service.stop()


def ask_all(run: Path, ports: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Ask for each account in both campaigns, and report that every second one responded.

    Returns what each campaign paid, and the number of accounts.
    """
    names, paid = Traffic.load(run).accounts["customer"].account_id.tolist(), dict.fromkeys(CAMPAIGNS, 0)
    for name in CAMPAIGNS:
        url = f"http://127.0.0.1:{ports['8080']}/v1/models/{name}:predict"
        for start in range(0, len(names), 500):
            part = [
                {"request_id": f"{name}-{each}", "account_id": each, "side": "customer"}
                for each in names[start : start + 500]
            ]
            answer: list[dict[str, Any]] = (
                httpx.post(url, json={"instances": part}, timeout=60).raise_for_status().json()["predictions"]
            )
            outcomes = [
                Outcome(
                    request_id=one["request_id"],
                    cost=made["incentive"] * (at % 2),
                    observed_at=datetime.now(UTC),
                    redeemed=bool(at % 2),
                )
                for at, (one, made) in enumerate(zip(part, answer, strict=True))
            ]
            with LedgerClient(f"http://127.0.0.1:{ports['8081']}", name) as ledger:
                ledger.settle(outcomes, "shop")
            paid[name] += sum(outcome.cost for outcome in outcomes)
    return paid, len(names)
