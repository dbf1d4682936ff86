"""A small log of vouchers and models fitted on it, each made once."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch

from research.models import make
from shadowprice.datasets.vouchers import VoucherData, generate
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.vouchers.sessions import Past
from shadowprice.tables import SessionTables, validate_sessions

SHORT = TrainingConfig(epochs=2, learning_rate=1e-2, batch_rows=256, weight_decay=0.1)


@cache
def small() -> tuple[VoucherData, SessionLog]:
    data = generate(seed=5, sessions=500)
    return data, SessionLog.build(data.tables)


@cache
def fitted(name: str = "dmbgn"):
    data, log = small()
    return make(name, levels=log.levels, inputs=Inputs(sessions=log), training=SHORT, pretraining=1).fit(
        log.requests(data.part() == "train")
    )


def past_of(*rows: list[int]) -> Past:
    most = max(map(len, rows))
    return Past.of(torch.tensor([[*row, *[-1] * (most - len(row))] for row in rows]))


def with_carts(
    tables: SessionTables, people: Sequence[str], carts: Sequence[Sequence[Mapping[str, Any]]]
) -> tuple[SessionLog, pd.DataFrame]:
    """Return the log with one session more of each of some people, after its end, and those as requests."""
    session, behaviour = tables.session, tables.behaviour
    at = max(session["collected_at"].max(), session["redeemed_at"].max()) + pd.Timedelta(days=1)
    latest = session.drop_duplicates("user_id", keep="last").set_index("user_id").loc[list(people)].reset_index()
    ids = [f"later-{row}" for row in range(len(people))]
    new = latest.assign(session_id=ids, collected_at=at, expires_at=at + pd.Timedelta(days=7))
    new = new.drop(columns=["redeemed_at", "label"])
    rows = [
        {"session_id": name, "phase": "before", **each} for name, cart in zip(ids, carts, strict=True) for each in cart
    ]
    done = pd.DataFrame(rows)
    # Shuffled: the order of a graph is that of its times.
    done = done.assign(ts=pd.to_datetime(done["ts"], utc=True, format="ISO8601")).sample(frac=1, random_state=0)
    whole = {
        name: pd.concat(parts, ignore_index=True)
        for name, parts in (("session", [session, new]), ("behaviour", [behaviour, done]))
    }
    whole["behaviour"]["price_level"] = whole["behaviour"]["price_level"].astype("Int64")
    whole["session"]["label"] = whole["session"]["label"].astype("Int64")
    known = session.drop_duplicates("voucher_id")["voucher_id"]
    log = SessionLog.build(validate_sessions(whole), known.tolist())
    return log, log.requests(np.arange(len(session), len(session) + len(new)))


def cart_of(tables: SessionTables, session_id: str) -> list[dict[str, Any]]:
    """Return what a session of the log had before its collection, as a caller sends it."""
    names = ["item_id", "action", "ts", "category", "brand", "price_level"]
    own = tables.behaviour[(tables.behaviour["session_id"] == session_id) & (tables.behaviour["phase"] == "before")]
    return [row | {"ts": row["ts"].isoformat()} for row in own[names].to_dict("records")]
