"""Two campaigns with the terms of the guides, their services by the commands of the guides, and requests."""

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from snippets import PORT, ROOT, Machine, blocks_of

from operations.common.workspace import CAMPAIGN
from serving.client.client import LedgerClient, Outcome
from serving.local.launch import Service
from shadowprice.pacing.history import Traffic

BUDGETS = {"autumn": 120_000, "winter": 850_000}
FOLLOWED = ("serve-several-campaigns", "move-budget-between-campaigns", "hold-out-accounts")
"""Guides that are followed together, in this order."""


def code(name: str, begin: str) -> str:
    """The only block of a guide that begins so."""
    (found,) = (block for block in blocks_of(ROOT / f"docs/how-to/{name}.md") if block.text.startswith(begin))
    return found.text


def make_company(run: Path, machine: Machine) -> None:
    """Write two campaigns into the working folder, which count on the same accounts and differ in money."""
    begins = ('"limits"', "{", '"holdout"')
    serve, move, hold = (code(name, begin) for name, begin in zip(FOLLOWED, begins, strict=True))
    terms = json.loads(f"{{{serve},{hold}}}") | json.loads(move)
    for name, budget in BUDGETS.items():
        own = Path("campaigns") / name
        left = shutil.ignore_patterns("pipeline", "prices", "served", "replay*", "report*", "logs")
        shutil.copytree(run, own, symlinks=True, ignore=left)
        content = json.loads((own / CAMPAIGN).read_text()) | terms
        now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        content |= {"name": name, "starts_at": now.isoformat()}
        content["budget"]["limit"] = budget
        (own / CAMPAIGN).write_text(json.dumps(content))
        # The files of the tutorial have few requests a day for the budgets of the guides.
        traffic = Traffic.load(own)
        busier = {side: replace(profile, level=20 * profile.level) for side, profile in traffic.profiles.items()}
        replace(traffic, profiles=busier).save(own)
        done = machine(Path(), f"shadowprice resolve --workspace {own}")
        assert done.returncode == 0, done.stderr[-2000:]


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
    names, paid = Traffic.load(run).accounts["customer"].account_id.tolist(), dict.fromkeys(BUDGETS, 0)
    for name in BUDGETS:
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
