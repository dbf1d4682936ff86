"""A replayed day as segments of the decision log, with the times of the replay."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING
from shadowprice.pacing.decision_log.records import REQUIRED, Decision, columns
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, Segment, segments
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.pacing.replay.run import Replay


def write_replay(
    folder: Path, played: Replay, campaign: Campaign, model: Mapping[Side, NamedCurves], model_version: str
) -> None:
    """Append the decisions and outcomes of a replayed day to a log.

    The services stamp real time, and so cannot log a week in minutes. ``propensities`` stay empty: a replay keeps the
    propensity of the answer alone, which training reads. An outcome is recorded when its request was answered.

    Args:
        folder: of the log; made where it is missing.
        played: the day, in order of arrival.
        campaign: whose window it was.
        model, model_version: that decided.
    """
    answers, outcomes = played.answers, played.outcomes
    side, level, paid = outcomes.side, outcomes.level, outcomes.level != NOTHING
    predicted, cost, most = np.zeros(len(outcomes)), np.zeros(len(outcomes)), np.ones(len(outcomes), dtype=np.int64)
    for name, known in model.items():
        rows = np.flatnonzero((side == name) & paid)
        terms = campaign.terms(name)
        curves, given = known.of(outcomes.account_id[rows]), (level[rows], np.arange(rows.size))
        predicted[rows], cost[rows] = curves.response[given], terms.cost(curves.response, curves.amounts)[given]
        most[side == name] = terms.most_units
    at = pd.Timestamp(campaign.starts_at) + pd.to_timedelta(np.round(outcomes.at * 3.6e9), unit="us")
    usual = {column.name: column.earlier for column in columns(Decision) if column.earlier is not REQUIRED}
    decisions = pd.DataFrame(
        {
            **usual,
            "request_id": outcomes.request_id,
            "account_id": outcomes.account_id,
            "side": side,
            "level": level,
            "incentive": outcomes.incentive,
            "response": predicted,
            "expected_cost": cost,
            "propensity": answers.propensity,
            "propensities": [[]] * len(outcomes),
            "reason": answers.reason,
            "model_version": model_version,
            "price_version": played.slots["version"].to_numpy()[outcomes.at.astype(np.intp)],
            "features_at": pd.NaT,
            "decided_at": at,
            "most_units": most,
            "arm": answers.arm,
        }
    )
    captured = pd.DataFrame(
        {
            "request_id": outcomes.request_id,
            "side": side,
            "response": outcomes.response,
            "cost": outcomes.cost,
            "late": False,
            "observed_at": at,
            "recorded_at": at,
            "misdated": False,
            "caller": "",
            "amount": pd.Series(outcomes.amount, dtype="Int64").where(outcomes.amount > 0),
        }
    )[paid]
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[RowKind, pd.DataFrame] = {"decisions": decisions, "outcomes": captured}
    for kind, table in tables.items():
        if len(table):
            first = max((segment.last for segment in segments(folder, kind)), default=0) + 1
            place = Segment.named(folder, kind, first, first + len(table) - 1).path
            pq.write_table(pa.Table.from_pandas(table, SCHEMAS[kind], preserve_index=False), place)
