"""Leaks in voucher sessions, each planted."""

import numpy as np
import pandas as pd
import pytest
from small_vouchers import SHORT, fitted, small

from shadowprice.errors import InvalidInput
from shadowprice.graphs.leaks import check_history, check_known, check_past, check_split, check_target
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import GraphBatch, build_graphs
from shadowprice.responses import make
from shadowprice.responses.inputs import Inputs
from shadowprice.tables import SessionTables


def test_a_session_redeemed_after_the_collection_in_the_history() -> None:
    _, log = small()
    session = log.tables.session
    frame = log.requests()
    _, at = log.locate(frame)
    past = log.history(frame["account_id"], at, 6)
    check_history(log, frame["account_id"], at, past)
    # Collected before the target, redeemed after it: what S3's code lets in.
    pairs = session.reset_index().merge(session.reset_index(), on="user_id", suffixes=("", "_past"))
    late = pairs[
        (pairs["collected_at_past"] < pairs["collected_at"]) & (pairs["redeemed_at_past"] > pairs["collected_at"])
    ].iloc[0]
    planted = past.copy()
    planted[late["index"], 0] = late["index_past"]
    with pytest.raises(InvalidInput, match=rf"history: .*not redeemed.*rows: {late['index']}\)"):
        check_history(log, frame["account_id"], at, planted)
    stranger = past.copy()
    row = int(np.flatnonzero(past[:, 0] >= 0)[0])
    theirs = (session["user_id"] != session["user_id"].iloc[row]) & (session["redeemed_at"] < frame_time(at[row]))
    stranger[row, 0] = int(np.flatnonzero(theirs)[0])
    with pytest.raises(InvalidInput, match=rf"another person.*rows: {row}\)"):
        check_history(log, frame["account_id"], at, stranger)


def test_behaviour_after_the_collection_in_the_target() -> None:
    data, log = small()
    chosen = np.arange(100)
    check_target(log, chosen, log.graphs.targets(chosen))
    whole = log.graphs.past(chosen)
    with pytest.raises(InvalidInput, match=r"target: .*after the collection"):
        check_target(log, chosen, whole)
    # A row whose phase says before and whose time says after.
    behaviour = data.tables.behaviour.copy()
    row = int(np.flatnonzero(behaviour["phase"] == "before")[3])
    owner = data.tables.session.set_index("session_id")["collected_at"][behaviour["session_id"].iloc[row]]
    behaviour.loc[row, "ts"] = owner + pd.Timedelta(hours=1)
    broken = SessionLog.build(SessionTables(data.tables.session, behaviour))
    everyone = np.arange(len(data.tables.session))
    position = int(np.flatnonzero(data.tables.session["session_id"] == behaviour["session_id"].iloc[row])[0])
    targets: GraphBatch = broken.graphs.targets(everyone)
    with pytest.raises(InvalidInput, match=rf"target: .*rows: {position}\)"):
        check_target(broken, everyone, targets)


def test_pre_training_on_labels_that_nobody_knew() -> None:
    data, log = small()
    part = data.part()
    check_known(log, part == "train", data.test_from)
    for planted in ("purged", "test"):
        late = int(np.flatnonzero(part == planted)[0])
        with_late = (part == "train") | (np.arange(part.size) == late)
        with pytest.raises(InvalidInput, match=rf"pre-training: .*rows: {late}\)"):
            check_known(log, with_late, data.test_from)


def test_a_split_by_row() -> None:
    data, log = small()
    check_split(log, data.part())
    by_row = np.random.default_rng(0).choice(["train", "test"], len(data.tables.session))
    with pytest.raises(InvalidInput, match=r"split: .*by time"):
        check_split(log, by_row)


def test_a_label_whose_expiry_nobody_knows() -> None:
    data, _ = small()
    session = data.tables.session.copy()
    row = int(np.flatnonzero(data.part() == "train")[2])
    session.loc[row, "expires_at"] = pd.NaT
    unknown = SessionLog.build(SessionTables(session, data.tables.behaviour))
    with pytest.raises(InvalidInput, match=rf"pre-training: .*rows: {row}\)"):
        check_known(unknown, data.part() == "train", data.test_from)


@pytest.mark.parametrize("kind", ["redemption", "expiry", "collection of the target"])
def test_behaviour_of_a_past_session_from_after(kind: str) -> None:
    """The earliest of the three instants is that of ``kind``; the planted event comes a minute after it."""
    data, log = small()
    frame = log.requests()
    _, at = log.locate(frame)
    past = log.history(frame["account_id"], at, 6)
    check_past(log, at, past)
    row = int(np.flatnonzero(past[:, 0] >= 0)[1])
    own, target = int(past[row, 0]), frame_time(at[row])
    session, behaviour = data.tables.session.copy(), data.tables.behaviour
    if kind == "expiry":
        redeemed = session.loc[own, "redeemed_at"]
        session.loc[own, "expires_at"] = redeemed - (redeemed - session.loc[own, "collected_at"]) / 2
    if kind == "collection of the target":
        session.loc[own, ["redeemed_at", "expires_at"]] = target + pd.Timedelta(days=1)
    ends = min(session.loc[own, "redeemed_at"], session.loc[own, "expires_at"], target)
    event = behaviour[behaviour["phase"] == "after"].iloc[[0]]
    event = event.assign(session_id=session["session_id"][own], ts=ends + pd.Timedelta(minutes=1))
    tables = SessionTables(session, pd.concat([behaviour, event], ignore_index=True))
    place = pd.Index(session["session_id"]).get_indexer(tables.behaviour["session_id"])
    uncut = build_graphs(tables.behaviour, place, len(session), kept=(1000, 1000))
    message = "collection of the target" if kind == "collection of the target" else "redemption or expiry"
    with pytest.raises(InvalidInput, match=rf"past: .*{message}.*rows: .*{row}"):
        check_past(SessionLog.build(tables, graphs=uncut), at[[row]].repeat(row + 1), only(past, row))
    if kind != "collection of the target":  # a session in a history was redeemed before that
        check_past(SessionLog.build(tables, kept=(1000, 1000)), at[[row]].repeat(row + 1), only(past, row))


def test_a_model_refuses_graphs_that_were_not_cut() -> None:
    data, log = small()
    place = pd.Index(data.tables.session["session_id"]).get_indexer(data.tables.behaviour["session_id"])
    uncut = build_graphs(data.tables.behaviour, place, len(data.tables.session))
    planted = SessionLog.build(data.tables, graphs=uncut)
    with pytest.raises(InvalidInput, match="past: holds behaviour from after its redemption or expiry"):
        make("dmbgn", levels=log.levels, inputs=Inputs(sessions=planted), training=SHORT).fit(log.requests())


def test_items_are_embedded_from_what_came_before_the_last_training_row() -> None:
    data, log = small()
    collected = data.tables.session["collected_at"][data.part() == "train"].max()
    behaviour = data.tables.behaviour
    future = (behaviour["ts"] > collected) & (behaviour["action"] == "cart")
    renamed = behaviour.assign(item_id=behaviour["item_id"].where(~future, "planted"))
    planted = SessionLog.build(SessionTables(data.tables.session, renamed))
    train = log.requests(data.part() == "train")
    model = make("dmbgn", levels=log.levels, inputs=Inputs(sessions=planted), training=SHORT, pretraining=0).fit(train)
    assert "planted" not in model.items.tokens["item_id"]
    np.testing.assert_array_equal(model.items.vectors, fitted().items.vectors)


def only(past: np.ndarray, row: int) -> np.ndarray:
    """Histories up to ``row``, of which all but the last session of that row are left out."""
    found = np.full((row + 1, past.shape[1]), -1)
    found[row, 0] = past[row, 0]
    return found


def frame_time(nanoseconds: int) -> pd.Timestamp:
    return pd.Timestamp(nanoseconds, tz="UTC")
