"""Callers that ask, repeat and report without end, and remember what they were told."""

import asyncio
import math
import random
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock

from benchmarks.faults.stage import LEVELS, MOST_UNITS
from benchmarks.faults.threads import Threads
from serving.client.client import LedgerClient, Outcome
from serving.predictor.ledger.client import Authorizer
from serving.predictor.ledger.columns import Proposals
from shadowprice.campaign import SIDES, Side
from shadowprice.errors import ShadowpriceError, Unavailable

REST_SECONDS = 0.01
UNITS = (0.0, 0.5, 1.0, 2.5, MOST_UNITS + 1.0)
"""Units of a merchant's outcome; the last is more than the largest number that is paid for."""
SOURCE = "faults"


@dataclass
class Witness:
    """Answers that all callers received together.

    answers      request id → level and incentive of the first answer
    captured     request id → cost whose booking was confirmed
    released     requests whose release was confirmed
    contradicted answers that differ from the first one to the same id
    refused      answers that are neither a result nor "not now", by their words
    successes    times of the answers (monotonic)
    unavailable  how often the answer was "not now"
    """

    answers: dict[str, tuple[int, int]] = field(default_factory=dict)
    captured: dict[str, int] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    contradicted: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    successes: list[float] = field(default_factory=list)
    unavailable: int = 0
    lock: Lock = field(default_factory=Lock)

    def answered(self, request_id: str, level: int, incentive: int) -> None:
        with self.lock:
            if self.answers.setdefault(request_id, (level, incentive)) != (level, incentive):
                self.contradicted.append(request_id)
            self.successes.append(time.monotonic())


class Load(Threads):
    """``callers`` threads against one ledger until stopped; each sends what failed again, by the same id."""

    def __init__(self, url: str, campaign: str, callers: int) -> None:
        self.witness = Witness()
        super().__init__()
        self.start(partial(self._call, url, campaign, number) for number in range(callers))

    def _call(self, url: str, campaign: str, number: int) -> None:
        with asyncio.Runner() as runner, closing(Authorizer(url, campaign)) as authorizer, LedgerClient(url) as ledger:
            caller = _Caller(runner, authorizer, ledger, campaign, number, self.witness)
            while not self._stop.is_set():
                try:
                    caller.step()
                except Unavailable:
                    with self.witness.lock:
                        self.witness.unavailable += 1
                except ShadowpriceError as error:
                    with self.witness.lock:
                        self.witness.refused[f"{type(error).__name__}: {error}"] += 1
                self._stop.wait(REST_SECONDS)


@dataclass
class _Caller:
    runner: asyncio.Runner
    authorizer: Authorizer
    ledger: LedgerClient
    campaign: str
    number: int
    witness: Witness
    pending: list[str] = field(default_factory=list)
    mine: list[str] = field(default_factory=list)
    reports: list[Outcome] = field(default_factory=list)
    serial: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.number)

    def step(self) -> None:
        """Ask for what failed before and for something new, at times for something old; then report."""
        while len(self.pending) < self.dice.randint(1, 4):
            self.serial += 1
            self.pending.append(f"{SIDES[self.serial % 2]}-{self.number}-{self.serial}")
        asked = self.pending[:4] + (self.dice.sample(self.mine, 1) if self.mine and self.dice.random() < 0.3 else [])
        answer = self.runner.run(self.authorizer.authorize(self._proposals(asked), model_version="m", price_version=1))
        told = answer.decisions
        for request_id, level, incentive in zip(told.request_id, told.level, told.incentive, strict=True):
            self.witness.answered(request_id, level, incentive)
            if request_id in self.pending:
                self.pending.remove(request_id)
                self.mine.append(request_id)
                self._plan_report(request_id, incentive)
        self._report()

    def _proposals(self, request_ids: list[str]) -> Proposals:
        # Other levels each time: only the ledger can give the same answer twice.
        levels = [self.dice.randrange(1, len(LEVELS)) for _ in request_ids]
        n = len(request_ids)
        return Proposals(
            request_id=request_ids,
            account_id=[f"account-{self.number}"] * n,
            side=[_side(request_id) for request_id in request_ids],
            level=levels,
            incentive=[LEVELS[level] for level in levels],
            response=[0.5] * n,
            expected_cost=[0.5 * LEVELS[level] for level in levels],
            propensity=[0.5] * n,
            reason=["optimal"] * n,
            response_unpaid=[0.1] * n,
            propensities=[[0.0, 0.5, 0.5]] * n,
            features_at=[None] * n,
        )

    def _plan_report(self, request_id: str, incentive: int) -> None:
        if self.dice.random() < 0.8:
            now = datetime.now(UTC)
            if _side(request_id) == "customer":
                redeemed = self.dice.random() < 0.3
                came = Outcome(
                    request_id=request_id, cost=incentive if redeemed else 0, observed_at=now, redeemed=redeemed
                )
            else:
                units = self.dice.choice(UNITS)
                paid = math.ceil(incentive * min(units, MOST_UNITS))
                came = Outcome(request_id=request_id, cost=paid, observed_at=now, response=units)
            self.reports.append(came)
        elif incentive and self.dice.random() < 0.5:
            self.ledger.release(self.campaign, [request_id])
            self.witness.released.add(request_id)

    def _report(self) -> None:
        if len(self.reports) < 3:
            return
        # What was reported is reported again, at times, as a queue that delivers at least once does.
        again = 2 if self.dice.random() < 0.2 else 1
        for _ in range(again):
            self.ledger.settle(self.reports, SOURCE)
            with self.witness.lock:
                self.witness.captured |= {report.request_id: report.cost for report in self.reports}
        self.reports.clear()


def _side(request_id: str) -> Side:
    return "customer" if request_id.startswith("customer") else "merchant"
