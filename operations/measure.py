"""Read spend and traffic from the running services, for the hourly re-solve."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from operations.common.job import Job, option, required, writes
from operations.common.ledger_reads import read_cap_use, read_traffic
from operations.common.workspace import read_campaign
from shadowprice.campaign import Campaign, Side, place_limits
from shadowprice.errors import NotCertified
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.prometheus import PrometheusSpend
from shadowprice.pacing.spend import CapUse, MetricsSpend, SpendReport, SpendSource
from shadowprice.pacing.state import PricingState
from shadowprice.progress import Stages

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True)
class MeasureJob(Job):
    """Write the state of the workspace's campaign.

    Without a ledger nothing was spent yet: the state is that before the window, with the past as its traffic.
    """

    state: Path = writes("file of spend, forecast of the remaining requests, and accounts of the newest requests")
    workspace: Path = required("folder with campaign and traffic")
    ledger_url: str = option("", "address of the ledger; empty before the start")
    metrics_urls: tuple[str, ...] = option((), "pages to read the spend from without Prometheus; the ledger's if empty")
    prometheus_url: str = option("", "address of Prometheus; empty: the ledger's metrics")
    prometheus_labels: str = option("", "labels of this release's series there, as namespace=growth,release=spring")
    prometheus_token_file: str = option("", "file with a bearer token for Prometheus; empty: none")
    prometheus_ca_file: str = option("", "certificate of the authority that signed Prometheus'; empty: the system's")


def run(job: MeasureJob) -> None:
    """Measure and write the state.

    Raises:
        NotCertified: the campaign's window is over.
        Unavailable: a source does not answer; the last price stays.
    """
    with Stages("measure", 4 if job.ledger_url else 2) as stage:
        stage("read the traffic of the past")
        campaign, traffic = read_campaign(job.workspace), Traffic.load(job.workspace)
        state = _measured(job, campaign, traffic, stage) if job.ledger_url else before_start(campaign, traffic)
        stage("write the state")
        state.save(job.state)


def _measured(job: MeasureJob, campaign: Campaign, traffic: Traffic, stage: Stages) -> PricingState:
    """Read the state of a campaign from the ledger and from the metrics."""
    pages = job.metrics_urls or (f"{job.ledger_url.rstrip('/')}/metrics",)
    source: SpendSource = MetricsSpend(pages)
    if job.prometheus_url:
        asked = (job.prometheus_url, job.prometheus_labels, job.prometheus_token_file, job.prometheus_ca_file)
        source = PrometheusSpend(*asked)
    now = datetime.now(UTC)
    at = (now - campaign.starts_at) / timedelta(hours=1)
    slots = max(math.ceil(at), 0)
    if at >= campaign.hours:
        raise NotCertified(f"the window of campaign {campaign.name!r} ended at {campaign.ends_at.isoformat()}")
    # The ledger counts by quarters of an hour: hours are counted from that in which the campaign starts.
    since = campaign.starts_at - (campaign.starts_at - EPOCH) % QUARTER
    stage("read the requests of the window")
    seen = read_traffic(job.ledger_url, campaign.name, since)
    observed: dict[Side, NDArray[np.int64]] = {side: np.zeros(slots, dtype=np.int64) for side in campaign.sides}
    for hour in seen["hours"]:
        place = int((datetime.fromisoformat(hour["hour"]) - since) // timedelta(hours=1))
        if slots:
            observed[hour["side"]][min(place, slots - 1)] += hour["requests"]
    recent = recent_requests(campaign, seen["sample"])
    stage("read the spend and the use of caps and places")
    spend = replace(source.read(campaign.name), caps=read_cap_use(job.ledger_url, campaign, now))
    return state_of(campaign, traffic, at, observed, spend, *recent)


def state_of(
    campaign: Campaign,
    traffic: Traffic,
    at: float,
    observed: Mapping[Side, NDArray[np.int64]],
    spend: SpendReport,
    accounts: Mapping[Side, NDArray[np.str_]],
    partners: Mapping[Side, NDArray[np.str_]],
    contexts: Mapping[Side, NDArray[np.str_]],
) -> PricingState:
    """The state of a running campaign."""
    return PricingState(
        at, spend, traffic.forecast(campaign).remaining(max(at, 0.0), observed), accounts, partners, contexts
    )


def before_start(campaign: Campaign, traffic: Traffic) -> PricingState:
    """The state before the first request: nothing spent, and nobody asked yet."""
    remaining = traffic.forecast(campaign).remaining(0, {side: [] for side in traffic.profiles})
    return PricingState(-1.0, nothing_spent(campaign), remaining, {})


def nothing_spent(campaign: Campaign) -> SpendReport:
    """The totals before the first request."""
    return SpendReport(
        spent=0,
        responses=dict.fromkeys(campaign.sides, 0.0),
        requests=dict.fromkeys(campaign.sides, 0),
        spent_of=dict.fromkeys(campaign.sides, 0),
        used_of=dict.fromkeys((budget.name for budget in campaign.limits.budgets), 0),
        caps={limit.name: CapUse.of({}, {}) for limit in (*campaign.limits.counted_by_owner, *place_limits(campaign))},
        observed_at=datetime.now(UTC),
    )


def recent_requests(
    campaign: Campaign, sample: Sequence[Mapping[str, str]]
) -> tuple[dict[Side, NDArray[np.str_]], dict[Side, NDArray[np.str_]], dict[Side, NDArray[np.str_]]]:
    """side → accounts of the ledger's latest requests, their partners, and their contexts."""

    def column(name: str) -> dict[Side, NDArray[np.str_]]:
        return {
            side: np.array([asked.get(name, "") for asked in sample if asked["side"] == side], dtype=str)
            for side in campaign.sides
        }

    return column("account_id"), column("partner_id"), column("context")
