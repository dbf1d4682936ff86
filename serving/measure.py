"""The measure step of the hourly re-solve: spend and traffic as the running services report them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feature_repo.workspace import read_campaign
from serving.client.client import LedgerClient
from shadowprice.campaign import Campaign, Side
from shadowprice.errors import NotCertified
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.policies import past_traffic
from shadowprice.pacing.prometheus import PrometheusSpend
from shadowprice.pacing.spend import MetricsSpend, SpendReport, SpendSource
from shadowprice.pacing.state import PricingState

SAMPLE_ROWS = 4000
"""Recent requests a price is solved on, at most, per side."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


def measure(workspace: Path, out: Path, ledger_url: str, metrics_urls: Sequence[str], prometheus_url: str) -> None:
    """Write the state of the workspace's campaign to ``out``.

    Without a ledger nothing was spent yet: the state is that before the window, with the past as its
    traffic. Spend is read from Prometheus when it is configured and from the services'
    own metrics otherwise.

    Raises:
        NotCertified: the campaign's window is over.
        Unavailable: a source does not answer; the last price stays.
    """
    campaign, traffic = read_campaign(workspace), Traffic.load(workspace)
    if not ledger_url:
        before_start(campaign, traffic).save(out)
        return
    pages = list(metrics_urls) or [f"{ledger_url.rstrip('/')}/metrics"]
    source: SpendSource = PrometheusSpend(prometheus_url) if prometheus_url else MetricsSpend(pages)
    now = datetime.now(UTC)
    at = max((now - campaign.starts_at) / timedelta(hours=1), 0.0)
    slots = math.ceil(at)
    if at >= campaign.hours:
        raise NotCertified(f"the window of campaign {campaign.name!r} ended at {campaign.ends_at.isoformat()}")
    # The ledger counts by quarters of an hour: hours are counted from that in which the campaign starts.
    since = campaign.starts_at - (campaign.starts_at - EPOCH) % QUARTER
    with LedgerClient(ledger_url) as ledger:
        seen = ledger.traffic(since=since, limit=SAMPLE_ROWS)
    observed: dict[Side, NDArray[np.int64]] = {side: np.zeros(slots, dtype=np.int64) for side in campaign.sides}
    for hour in seen["hours"]:
        place = int((datetime.fromisoformat(hour["hour"]) - since) // timedelta(hours=1))
        if slots:
            observed[hour["side"]][min(place, slots - 1)] += hour["requests"]
    recent = recent_accounts(campaign, seen["sample"])
    state_of(campaign, traffic, at, observed, source.read(campaign.name), recent).save(out)


def state_of(
    campaign: Campaign,
    traffic: Traffic,
    at: float,
    observed: Mapping[Side, NDArray[np.int64]],
    spend: SpendReport,
    recent: Mapping[Side, NDArray[np.str_]],
) -> PricingState:
    """The state of a running campaign; a side that has asked little is filled up with its past traffic."""
    past = past_traffic(traffic.accounts, SAMPLE_ROWS, seed=int(at))
    accounts: dict[Side, NDArray[np.str_]] = {}
    for side in traffic.accounts:
        own = recent.get(side, np.zeros(0, dtype=str))
        accounts[side] = np.concatenate([own, past[side][: max(SAMPLE_ROWS // 4 - own.size, 0)]])
    return PricingState(at, spend, traffic.forecast(campaign).remaining(at, observed), accounts)


def before_start(campaign: Campaign, traffic: Traffic) -> PricingState:
    """The state before the first request: nothing spent, the past as traffic."""
    nothing = SpendReport(
        spent=0,
        responses=dict.fromkeys(campaign.sides, 0.0),
        requests=dict.fromkeys(campaign.sides, 0),
        observed_at=datetime.now(UTC),
    )
    remaining = traffic.forecast(campaign).remaining(0, {side: [] for side in traffic.profiles})
    return PricingState(-1.0, nothing, remaining, past_traffic(traffic.accounts, SAMPLE_ROWS, seed=0))


def recent_accounts(campaign: Campaign, sample: Sequence[Mapping[str, str]]) -> dict[Side, NDArray[np.str_]]:
    """side → accounts of the ledger's latest requests."""
    return {
        side: np.array([asked["account_id"] for asked in sample if asked["side"] == side], dtype=str)
        for side in campaign.sides
    }
