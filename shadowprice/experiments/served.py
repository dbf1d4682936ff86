"""Requests of a decision log as the table that an experiment is analyzed from."""

from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import pandas as pd

from shadowprice.arms import COMPANY, HOUR, Experiment, units_of
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidTable
from shadowprice.experiments.assignment import assign
from shadowprice.experiments.columns import Columns
from shadowprice.groups import Groups
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.pacing.decision_log.segments import RowKind
from shadowprice.pacing.decision_log.served import ServedLog, final, of_treatable

COLUMNS = ("request_id", "account_id", "partner_id", "side", "arm", "decided_at")
"""Columns that are those of the log."""
STATE = ("request_id", "response", "cost", "recorded_at")
READ: Mapping[RowKind, tuple[str, ...]] = {
    "decisions": (*COLUMNS, "level", "groups"),
    "outcomes": STATE,
    "corrections": STATE,
}
"""Columns of the log that the functions of this module read."""
LATE = timedelta(minutes=1)
"""Most time between a decision by the predictor and its record in the ledger."""


def with_units(
    requests: pd.DataFrame, experiment: Experiment | None, groups: Groups | None = None
) -> tuple[pd.DataFrame, Columns]:
    """Return the requests that have a unit of the experiment, with the column of it, and the names of the columns.

    A request without a partner has no unit where partners are assigned. The hour is that of the decision; where the
    ledger recorded it within a minute of the next hour and the arm is that of the hour before, it is the hour before.

    Rows of one partner depend on each other too where accounts are assigned, and rows of one account where partners
    are; a request without a partner depends on those of its account alone. An experiment by clusters needs the groups
    of the accounts. Without an experiment accounts are the units.
    """
    unit = "account" if experiment is None else experiment.unit
    if unit == "partner":
        named = requests[requests["partner_id"] != ""].reset_index(drop=True)
        return named, Columns(unit="partner_id", partner="account_id")
    if experiment is not None and unit == "hour":
        decided = requests["decided_at"]
        now, before = (at.dt.strftime(HOUR) for at in (decided, decided - LATE))
        arm = requests["arm"].astype(str).to_numpy()
        moved = (arm != assign(experiment, now)) & (arm == assign(experiment, before))
        return requests.assign(hour=np.where(moved, before, now)), Columns(unit="hour")
    if unit == "cluster":
        at = requests["decided_at"].tolist()
        names = requests["account_id"].astype(str).tolist()
        return requests.assign(group=units_of(experiment, names, names, at, groups)), Columns(unit="group")
    if not (requests["partner_id"] != "").any():
        return requests, Columns()
    alone = "account " + requests["account_id"].astype(str)
    return requests.assign(partner=requests["partner_id"].where(requests["partner_id"] != "", alone)), Columns(
        partner="partner"
    )


def served_requests(
    log: ServedLog, campaign: Campaign, coverage: Coverage | None = None, *, everybody: bool = False
) -> pd.DataFrame:
    """Return one row for each decision, with its outcome as it stands now.

    ``coverage`` knows the worth of accounts, where the campaign reads it from a column or the model expects it.
    Accounts in the holdout of the company are left out (:func:`of_treatable`), unless ``everybody`` is asked for.

    Columns: ``request_id``, ``account_id``, ``partner_id`` (empty where a request has none), ``side``, ``arm``,
    ``decided_at``, ``day`` (UTC days since the first decision), ``response``, ``value`` (its worth by the campaign's
    objective), ``cost`` (minor units paid). A request without an outcome has 0 in these three: leave out those whose
    outcome can still come (:func:`mature`).

    Raises:
        InvalidInput: the worth of the accounts is not known.
        InvalidTable: the log has no decisions, or a side that the campaign does not have. A log of which decisions
            were chosen may have none.
    """
    log = log if everybody else of_treatable(log, campaign)
    asked = _asked(log, campaign)
    outcomes = log.corrected.set_index("request_id")
    response = asked["request_id"].map(outcomes["response"]).fillna(0.0).to_numpy(dtype=np.float64)
    coverage, value = coverage or campaign.coverage(), np.zeros(len(asked))
    for side, terms in campaign.sides.items():
        own = (asked["side"] == side).to_numpy()
        worth = coverage.worth(SideRequests(side, asked.loc[own, "account_id"].tolist()))
        if worth is not None and worth.ndim == 2:
            # What was given nothing has no response, so any level serves it.
            level = np.maximum(log.decisions.loc[own, "level"].to_numpy(dtype=np.int64), 0)
            worth = worth[level, np.arange(level.size)]
        value[own] = terms.value(response[own], worth)
    return asked.assign(
        response=response,
        value=value,
        cost=asked["request_id"].map(outcomes["cost"]).fillna(0).astype(np.int64),
    )


def check_holdout(log: ServedLog, campaign: Campaign) -> None:
    """Raise :class:`InvalidTable` for a log with accounts in the holdout of the company that the campaign's has not."""
    logged = log.decisions.loc[log.decisions["arm"] == COMPANY, "account_id"].unique().tolist()
    wrong = [] if campaign.holdout and campaign.holdout.holds(logged).all() else logged
    if wrong:
        raise InvalidTable(
            f"has accounts in the arm {COMPANY!r} that the campaign's holdout does not hold, such as {wrong[0]!r}; "
            "give campaign.holdout the key and the share that were served",
            field="log",
        )


def asked_requests(log: ServedLog, campaign: Campaign) -> pd.DataFrame:
    """Return the columns of :func:`served_requests` but response, value and cost; the log needs no outcomes.

    Raises:
        InvalidTable: as :func:`served_requests`.
    """
    return _asked(of_treatable(log, campaign), campaign)


def _asked(log: ServedLog, campaign: Campaign) -> pd.DataFrame:
    decisions = log.decisions
    if decisions.empty and log.newest is None:
        raise InvalidTable("has no decisions", field="log")
    unknown = set(decisions["side"]) - set(campaign.sides)
    if unknown:
        raise InvalidTable(f"campaign {campaign.name!r} has no side {sorted(unknown)}", field="decisions.side")
    date = decisions["decided_at"].dt.floor("D")
    day = ((date - date.min()) // pd.Timedelta(days=1)).astype(np.int64)
    return pd.DataFrame({**{name: decisions[name] for name in COLUMNS}, "day": day})


def mature(requests: pd.DataFrame, log: ServedLog, hours: float) -> pd.DataFrame:
    """Return the requests whose outcome is :func:`~shadowprice.pacing.decision_log.served.final`."""
    kept: pd.DataFrame = requests.loc[final(log, requests["decided_at"], hours)].reset_index(drop=True)
    return kept
