"""Replaying a campaign day against the running services, over HTTP."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from operations.common.ledger_reads import SAMPLE_ROWS, read_cap_use
from operations.common.solver import Solver
from operations.measure import recent_requests, state_of
from operations.publish import add
from serving.client.client import DecisionClient, Decisions, LedgerClient, Outcome
from serving.local.launch import Services
from shadowprice.calls import fetch
from shadowprice.campaign import Side
from shadowprice.errors import Unavailable
from shadowprice.pacing.budgets.in_hand import expected_sum
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import Outcomes
from shadowprice.pacing.replay.run import Answers
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.spend import SpendReport, SpendSource

SOURCE = "replay"
ATTEMPTS = 5
RETRY_SECONDS = 0.5


@dataclass
class ServiceDay:
    """Requests, outcomes and prices of a replay, over HTTP.

    services, workspace         running services and the folder they were started on
    solver, traffic             solver on the prices that the services read, and the expected traffic
    spend                       where the spend is read from: the services' metrics, or Prometheus
    single_seconds              time of every call with one request
    call_seconds                time of all calls together
    requests                    requests answered
    errors                      calls that failed and were sent again
    """

    services: Services
    workspace: Path
    solver: Solver
    traffic: Traffic
    spend: SpendSource
    single_seconds: list[float] = field(default_factory=list)
    call_seconds: float = 0.0
    requests: int = 0
    errors: int = 0

    def __post_init__(self) -> None:
        self._decisions = DecisionClient(self.services.predictor_url, self.services.campaign)
        self._ledger = LedgerClient(self.services.ledger_url, self.services.campaign)

    def close(self) -> None:
        """Close the connections."""
        self._decisions.close()
        self._ledger.close()

    def decide(self, batch: Day) -> Answers:
        """Answer a batch: its first request in a call of its own, which is timed, the others in one call."""
        parts = [batch.take(slice(0, 1)), batch.take(slice(1, None))]
        level: list[NDArray[np.int32]] = []
        reason: list[NDArray[np.str_]] = []
        propensity: list[NDArray[np.float64]] = []
        arm: list[NDArray[np.str_]] = []
        for part in parts:
            if not len(part):
                continue
            answer = self._ask(part)
            if len(part) == 1:
                self.single_seconds.append(answer.seconds)
            self.call_seconds += answer.seconds
            self.requests += len(part)
            level.append(answer.level)
            reason.append(answer.reason)
            propensity.append(answer.propensity)
            arm.append(answer.arm)
        return Answers(np.concatenate(level), np.concatenate(reason), np.concatenate(propensity), np.concatenate(arm))

    def _ask(self, part: Day) -> Decisions:
        """One call; the service may be away for a moment, and asking again is safe because answers are remembered."""
        partners = part.partners.tolist() if (part.partners != "").any() else None
        asked = (part.request_id.tolist(), part.account_id.tolist(), part.side.tolist(), partners)
        for _ in range(ATTEMPTS - 1):
            try:
                return self._decisions.decide(*asked)
            except Unavailable:
                self.errors += 1
                time.sleep(RETRY_SECONDS)
        return self._decisions.decide(*asked)

    def settle(self, outcomes: Outcomes) -> None:
        """Report outcomes to the ledger."""
        now = datetime.now(UTC)
        customer = outcomes.side == "customer"
        self._ledger.settle(
            [
                Outcome(
                    request_id=str(outcomes.request_id[row]),
                    cost=int(outcomes.cost[row]),
                    observed_at=now,
                    redeemed=bool(outcomes.response[row]) if customer[row] else None,
                    response=None if customer[row] else float(outcomes.response[row]),
                    amount=int(outcomes.amount[row]) or None,
                )
                for row in range(len(outcomes))
            ],
            source=SOURCE,
        )

    @property
    def moments(self) -> Sequence[float]:
        """Moments at which the campaign's pacer sets a price."""
        return self.solver.pacer.moments(self.solver.campaign.hours)

    def resolve(self, at: float, observed: Mapping[Side, NDArray[np.int64]]) -> Resolution:
        """Price the rest of the day from what the services report, publish, and wait until it is active."""
        campaign = self.solver.campaign
        recent = recent_requests(campaign, self._ledger.traffic(limit=SAMPLE_ROWS)["sample"])
        state = state_of(campaign, self.traffic, at, observed, self._spend(), *recent)
        resolution = self.solver.solve(state)
        add(resolution.record, self.workspace, self.solver.prices)
        wait_for_price(self.services, resolution.record.version)
        return resolution

    def used(self) -> dict[str, float]:
        """Return name → minor units of each further total, or the sum that is expected of a second outcome, so far."""
        campaign, spend, curves = self.solver.campaign, self._spend(), self.solver.samples
        sums = (limit for limit in campaign.group_budgets if limit.by_level)
        return {**spend.used_of, **{limit.name: expected_sum(limit, spend, curves) for limit in sums}}

    def _spend(self) -> SpendReport:
        campaign = self.solver.campaign
        caps = read_cap_use(self.services.ledger_url, campaign, datetime.now(UTC))
        return replace(self.spend.read(campaign.name), caps=caps)


def wait_for_price(services: Services, version: int, timeout: float = 30.0) -> None:
    """Return when the predictor decides with price ``version`` or a later one.

    Raises:
        Unavailable: it does not within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        page = fetch(services.metrics_urls[0], timeout).decode()
        current = [
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "shadowprice_price_version" and sample.labels["campaign"] == services.campaign
        ]
        if current and current[0] >= version:
            return
        time.sleep(0.05)
    raise Unavailable(f"the predictor did not take price version {version} within {timeout:.0f} s")
