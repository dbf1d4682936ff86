"""Requests of a decision log as the table that an experiment is analysed from."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd

from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidTable
from shadowprice.pacing.decision_log.served import ServedLog


def served_requests(log: ServedLog, campaign: Campaign) -> pd.DataFrame:
    """Return one row for each decision, with its outcome as it stands now.

    Columns: ``request_id``, ``account_id``, ``side``, ``arm``, ``decided_at``, ``day`` (UTC days since the first
    decision), ``value`` (response times the weight of its side), ``cost`` (minor units paid). A request without an
    outcome has value and cost 0: leave out those whose outcome can still come (:func:`mature`).

    Raises:
        InvalidTable: the log has no decisions, or a side that the campaign does not have.
    """
    decisions = log.decisions
    if decisions.empty:
        raise InvalidTable("has no decisions", field="log")
    unknown = set(decisions["side"]) - set(campaign.sides)
    if unknown:
        raise InvalidTable(f"campaign {campaign.name!r} has no side {sorted(unknown)}", field="decisions.side")
    outcomes = log.corrected.set_index("request_id")
    weight = decisions["side"].map({side: terms.weight for side, terms in campaign.sides.items()})
    date = decisions["decided_at"].dt.floor("D")
    return pd.DataFrame(
        {
            **{name: decisions[name] for name in ("request_id", "account_id", "side", "arm", "decided_at")},
            "day": ((date - date.min()) // pd.Timedelta(days=1)).astype(np.int64),
            "value": weight * decisions["request_id"].map(outcomes["response"]).fillna(0.0).astype(np.float64),
            "cost": decisions["request_id"].map(outcomes["cost"]).fillna(0).astype(np.int64),
        }
    )


def mature(requests: pd.DataFrame, log: ServedLog, hours: float) -> pd.DataFrame:
    """Return the requests decided at least ``hours`` before the newest row of the log.

    The rule looks at the time of the decision alone: to keep early outcomes of young requests would count responses
    and not their absence.
    """
    newest = max([requests["decided_at"].max(), *log.outcomes["recorded_at"].nlargest(1)])
    rows = (requests["decided_at"] <= newest - timedelta(hours=hours)).to_numpy()
    found: pd.DataFrame = requests.loc[rows].reset_index(drop=True)
    return found
