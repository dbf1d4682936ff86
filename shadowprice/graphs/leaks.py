"""The five ways in which the future gets into a voucher model (S3's code has four of them), each refused by a check.

1. a session in the history that was redeemed only after the target was collected;
2. behaviour after the collection in the target's own graph;
3. pre-training on sessions whose labels were not known when the model was to go live;
4. a split by row, where a person's later sessions train the model that is tested on their earlier ones;
5. behaviour in the graph of a past session from after its redemption, its expiry or the target's collection.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog, nanoseconds, session_ends
from shadowprice.graphs.voucher_graphs import UNKNOWN_YET, VOUCHER, GraphBatch, Index


def check_history(log: SessionLog, account: pd.Series[Any], at: Index, past: Index) -> None:
    """Refuse histories (n, R), −1 for none, that hold what was not known at ``at`` (n,), or another person's past.

    Raises:
        InvalidInput: with the first such rows.
    """
    row, column = np.nonzero(past >= 0)
    sessions = log.tables.session.iloc[past[row, column]]
    later = ~(nanoseconds(sessions["redeemed_at"]) < at[row]) | sessions["redeemed_at"].isna().to_numpy(dtype=bool)
    other = sessions["user_id"].to_numpy() != account.to_numpy()[row]
    _refuse(row[later], "holds a session that was not redeemed when the voucher was collected", "history")
    _refuse(row[other], "holds a session of another person", "history")


def check_target(log: SessionLog, session: Index, batch: GraphBatch) -> None:
    """Refuse graphs of the sessions (B,) to be predicted that hold behaviour after their collection.

    :class:`~shadowprice.graphs.voucher_graphs.TargetBatch` cannot hold a group after the collection; this compares the
    times themselves, so that a phase that is wrong in the table is found too.
    """
    nodes = np.flatnonzero(batch.row != VOUCHER)
    when = nanoseconds(log.tables.behaviour["ts"])[batch.row[nodes]]
    collected = nanoseconds(log.tables.session["collected_at"])[session[batch.member[nodes]]]
    late = np.unique(batch.member[nodes[when > collected]])
    _refuse(late, UNKNOWN_YET, "target")


def check_past(log: SessionLog, at: Index, past: Index) -> None:
    """Refuse histories (n, R), −1 for none, whose graphs hold what a target collected at ``at`` (n,) may not read.

    The graph of a past session must end at the earliest of its redemption, its expiry and the target's collection. The
    behaviour table is compared with the session table anew, so that graphs read from a file are checked too.

    Raises:
        InvalidInput: with the first such rows.
    """
    row, column = np.nonzero(past >= 0)
    session = past[row, column]
    read = log.last_read[session]
    over = read > session_ends(log.tables.session)[session]
    _refuse(row[over], "holds behaviour from after its redemption or expiry", "past")
    _refuse(row[read > at[row]], "holds behaviour from after the collection of the target", "past")


def check_known(log: SessionLog, session: NDArray[Any], until: datetime) -> None:
    """Refuse sessions (positions or a mask) whose labels were not known at ``until``: not expired by then."""
    positions = np.flatnonzero(session) if session.dtype == np.bool_ else session
    table = log.tables.session.iloc[positions]
    # Not redeemed is known only when the voucher expires; to keep the early redemptions beside it would tilt the rate.
    late = ~(table["expires_at"] <= pd.Timestamp(until)).to_numpy()
    _refuse(positions[late], f"has a label that was not known at {until.isoformat()}", "pre-training")


def check_split(log: SessionLog, part: NDArray[np.str_]) -> None:
    """Refuse parts (S,) in which a training session is collected after any test session: split by time."""
    collected = nanoseconds(log.tables.session["collected_at"])
    test = collected[part == "test"]
    if test.size:
        late = np.flatnonzero((part == "train") & (collected >= test.min()))
        _refuse(late, "is in train and later than a session in test; split by time", "split")


def _refuse(rows: NDArray[Any], message: str, field: str) -> None:
    if rows.size:
        raise InvalidInput(message, field=field, rows=np.unique(rows)[:5].tolist())
