"""Requests of a decision log as the table that the checks read."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from shadowprice.campaign import Campaign
from shadowprice.experiments import served
from shadowprice.experiments.served import asked_requests, mature
from shadowprice.pacing.decision_log.segments import RowKind
from shadowprice.pacing.decision_log.served import ServedLog

COLUMNS = ("account_id", "side", "level", "day", "predicted", "response", "explored")

DECIDED = ("level", "response", "reason", "model_version")
READ: Mapping[RowKind, tuple[str, ...]] = {**served.READ, "decisions": (*served.COLUMNS, *DECIDED)}
"""Columns of the log that this module reads."""


def watched_rows(log: ServedLog, campaign: Campaign, hours: float, model_version: str = "") -> pd.DataFrame:
    """Return the requests whose outcome cannot change any more, in order of time, with the model's prediction.

    Columns: :data:`COLUMNS`. ``day`` counts UTC days since the first decision of the model, ``predicted`` is the
    response that the model expected at the given level. The table has one request of an account, side and day, the
    first, and none without a level. Young requests are left out whether they have an outcome or not: the delay of
    outcomes then biases no rate.

    Args:
        log: the decision log, or the rows of the model.
        campaign: of the log.
        hours: age at which a request without an outcome counts as no response.
        model_version: model whose requests are read; empty: that of the last decision.

    A log without decisions gives an empty table.

    Raises:
        InvalidTable: the log has a side that the campaign does not have.
    """
    if log.decisions.empty:
        # A column of flags without a type would select columns in place of rows.
        types = {"level": np.int64, "day": np.int64, "predicted": np.float64, "response": np.float64, "explored": bool}
        return pd.DataFrame(columns=list(COLUMNS)).astype(types)
    requests = mature(asked_requests(log, campaign), log, hours)
    version = model_version or str(log.decisions["model_version"].iloc[-1])
    decisions = log.decisions.set_index("request_id")
    joined = requests.join(decisions[list(DECIDED)], on="request_id")
    kept = joined[(joined["level"] >= 0) & (joined["model_version"] == version)]
    kept = kept.sort_values("decided_at", kind="stable")
    kept = kept.drop_duplicates(["account_id", "side", "day"])
    outcomes = log.corrected.set_index("request_id")["response"]
    return pd.DataFrame(
        {
            "account_id": kept["account_id"],
            "side": kept["side"],
            "level": kept["level"].astype(np.int64),
            "day": kept["day"] - (kept["day"].min() if len(kept) else 0),
            "predicted": kept["response"].astype(np.float64),
            "response": kept["request_id"].map(outcomes).fillna(0.0).astype(np.float64),
            "explored": kept["reason"] == "explored",
        }
    ).reset_index(drop=True)
