"""Voucher graphs against a plain loop over sessions, and the log's histories against a plain filter."""

import numpy as np
import pandas as pd
import pytest

from shadowprice.datasets.vouchers import VoucherData, generate
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, TargetBatch, build_graphs
from shadowprice.tables import SessionTables


@pytest.fixture(scope="module")
def data() -> VoucherData:
    return generate(seed=3, sessions=300)


def by_hand(tables: SessionTables, session: str, group: str, nearest: int, kept: int) -> tuple[list[int], set]:
    """Rows of a graph in order, and its edges between places (0 is the voucher), as the paper draws them."""
    phase, action = group.split("-")
    own = tables.behaviour
    own = own[(own["session_id"] == session) & (own["phase"] == phase) & (own["action"] == action)]
    log = tables.session.set_index("session_id").loc[session]
    own = own[own["ts"] <= min(each for each in (log["redeemed_at"], log["expires_at"]) if pd.notna(each))]
    rows = own.sort_values(["ts", "item_id", "price_level", "brand"]).index.tolist()
    rows = rows[-kept:] if phase == "before" else rows[:kept]
    places = range(1, len(rows) + 1)
    edges = {(place, place) for place in range(len(rows) + 1)} if rows else set()
    edges |= {(place, place + 1) for place in places[:-1]}
    close = list(places)[-nearest:] if phase == "before" else list(places)[:nearest]
    edges |= {(place, 0) if phase == "before" else (0, place) for place in close}
    return rows, edges


@pytest.mark.parametrize(("nearest", "kept"), [(6, (45, 20)), (2, (4, 1)), (1, (45, 20)), (50, (3, 3))])
def test_nodes_and_edges_are_those_drawn_by_hand(data: VoucherData, nearest: int, kept: tuple[int, int]) -> None:
    tables = data.tables
    log = SessionLog.build(tables, nearest=nearest, kept=kept)
    chosen = np.array([7, 0, 120, 44, 299, 7, 81])
    batch = log.graphs.past(chosen)
    edges = batch.edge_index
    for number, slot in enumerate(batch.slot):
        first, length = batch.start[number], batch.length[number]
        name = tables.session["session_id"].iloc[chosen[slot // len(GROUPS)]]
        group = GROUPS[slot % len(GROUPS)]
        rows, expected = by_hand(tables, name, group, nearest, kept[int(group.endswith("order"))])
        nodes = slice(first, first + length)
        assert batch.row[nodes].tolist() == [VOUCHER, *rows]
        own = (edges[1] >= first) & (edges[1] < first + length)
        assert set(map(tuple, (edges[:, own] - first).T)) == expected
        assert own.sum() == len(expected), "no edge twice"
    # Groups that are left out have no row in the table.
    left_out = set(range(len(chosen) * len(GROUPS))) - set(batch.slot.tolist())
    for slot in left_out:
        name = tables.session["session_id"].iloc[chosen[slot // len(GROUPS)]]
        assert not by_hand(tables, name, GROUPS[slot % len(GROUPS)], nearest, 45)[0]


def test_every_row_is_one_node_where_nothing_is_cut(data: VoucherData) -> None:
    """Also of an item that is seen at two prices within a session."""
    behaviour = data.tables.behaviour
    twice = pd.concat([behaviour, behaviour.head(50).assign(price_level=lambda f: f["price_level"] % 7 + 1)])
    endless = data.tables.session.assign(redeemed_at=pd.NaT, expires_at=pd.NaT)
    log = SessionLog.build(SessionTables(endless, twice.reset_index(drop=True)), kept=(1000, 1000))
    rows = log.graphs.row[log.graphs.row != VOUCHER]
    assert sorted(rows.tolist()) == list(range(len(twice)))


def test_a_target_holds_nothing_after_the_collection(data: VoucherData) -> None:
    log = SessionLog.build(data.tables, kept=(1000, 1000))
    batch = log.graphs.targets(np.arange(300))
    rows = batch.row[batch.row != VOUCHER]
    assert (data.tables.behaviour["phase"].iloc[rows] == "before").all()
    assert rows.size == (data.tables.behaviour["phase"] == "before").sum()
    whole = log.graphs.past(np.arange(300))
    with pytest.raises(InvalidInput, match=r"after the collection.*rows: 0"):
        TargetBatch(whole.size, whole.slot, whole.length, whole.first, whole.source, whole.nearest)


def test_a_past_session_ends_at_its_redemption_its_expiry_or_the_targets_collection(data: VoucherData) -> None:
    """Two in five of the events after the collection of a redeemed session come after its redemption."""
    early = data.tables.session["collected_at"] + pd.Timedelta(days=1)
    session = data.tables.session.assign(expires_at=early.where(np.arange(300) % 3 == 0))
    log = SessionLog.build(SessionTables(session, data.tables.behaviour), kept=(1000, 1000))
    frame = log.requests()
    _, at = log.locate(frame)
    found = log.history(frame["account_id"], at, 6)
    ts = data.tables.behaviour["ts"]
    held = left = 0
    for row, place in zip(*np.nonzero(found >= 0), strict=True):
        past = found[row, place]
        own = session.iloc[past]
        instants = (own["redeemed_at"], own["expires_at"], session["collected_at"].iloc[row])
        end = min(each for each in instants if pd.notna(each))
        batch = log.graphs.past(np.array([past]))
        rows = batch.row[batch.row != VOUCHER]
        of_session = data.tables.behaviour["session_id"] == own["session_id"]
        assert sorted(rows) == np.flatnonzero(of_session & (ts <= end)).tolist()
        held, left = held + rows.size, left + int((of_session & (ts > end)).sum())
    assert left > 0.1 * held > 0


def test_rows_of_no_session_and_no_rows_at_all(data: VoucherData) -> None:
    behaviour = data.tables.behaviour.head(4)
    graphs = build_graphs(behaviour, np.array([-1, 0, -1, 0]), 2)
    assert sorted(graphs.row[graphs.row != VOUCHER].tolist()) == [1, 3]
    empty = build_graphs(behaviour.head(0), np.zeros(0, dtype=np.int64), 3)
    assert empty.sessions == 3
    assert empty.past(np.array([0, 2])).nodes == 0
    with pytest.raises(InvalidInput, match="nearest"):
        build_graphs(behaviour, np.zeros(4, dtype=np.int64), 1, nearest=0)


def test_history_is_what_was_redeemed_before_latest_first(data: VoucherData) -> None:
    log = SessionLog.build(data.tables)
    session = data.tables.session
    frame = log.requests()
    place, at = log.locate(frame)
    found = log.history(frame["account_id"], at, 3)
    assert place.tolist() == list(range(300))
    for row in range(300):
        past = session[
            (session["user_id"] == session["user_id"].iloc[row])
            & (session["label"] == 1)
            & (session["redeemed_at"] < session["collected_at"].iloc[row])
        ].sort_values("redeemed_at", ascending=False)
        expected = past.index.tolist()[:3]
        assert found[row].tolist() == expected + [-1] * (3 - len(expected))
    assert (found >= 0).any(axis=1).sum() > 30


def test_sessions_of_the_targets_campaign_can_be_left_out(data: VoucherData) -> None:
    """One person with many redeemed sessions, so that more than the latest few have to be looked at."""
    session = data.tables.session
    alone = session.assign(user_id="u", label=1, redeemed_at=session["collected_at"] + pd.Timedelta(hours=1))
    log = SessionLog.build(SessionTables(alone, data.tables.behaviour))
    frame = log.requests()
    place, at = log.locate(frame)
    found = log.history(frame["account_id"], at, 2, place)
    for row in range(300):
        past = alone[
            (alone["redeemed_at"] < alone["collected_at"].iloc[row])
            & (alone["campaign"] != alone["campaign"].iloc[row])
        ].sort_values("redeemed_at", ascending=False)
        expected = past.index.tolist()[:2]
        assert found[row].tolist() == expected + [-1] * (2 - len(expected))
    assert (found != log.history(frame["account_id"], at, 2)).any(axis=1).sum() > 200
    nowhere = log.history(frame["account_id"], at, 2, np.full(300, -1))
    np.testing.assert_array_equal(nowhere, log.history(frame["account_id"], at, 2))


def test_without_a_session_id_a_row_is_the_accounts_latest_session(data: VoucherData) -> None:
    log = SessionLog.build(data.tables)
    session = data.tables.session
    frame = log.requests().drop(columns="session_id")
    assert log.locate(frame)[0].tolist() == list(range(300))
    place, at = log.locate(frame[["account_id"]])
    latest = session.reset_index().sort_values("collected_at").groupby("user_id")["index"].last()
    assert place.tolist() == latest[frame["account_id"]].tolist()
    assert (at == session["collected_at"].to_numpy(dtype="datetime64[ns]").astype(np.int64)[place]).all()
    stranger = pd.DataFrame({"account_id": ["nobody", "u000000"]})
    place, at = log.locate(stranger)
    assert place[0] == -1
    assert log.history(stranger["account_id"], at, 2)[0].tolist() == [-1, -1]


def test_vouchers_of_one_discount_are_levels_of_their_own(data: VoucherData) -> None:
    log = SessionLog.build(data.tables)
    assert len(log.levels) == data.tables.session["voucher_id"].nunique()
    assert list(log.levels) == sorted(log.levels)
    assert len(set(log.levels)) < len(log.levels)
    frame = log.requests(np.array([4, 2]))
    assert np.array(log.levels)[frame["level"]].tolist() == data.tables.session["discount"].iloc[[4, 2]].tolist()
    with pytest.raises(InvalidInput, match="voucher of no session"):
        SessionLog.build(data.tables, ["v999"])
    with pytest.raises(InvalidInput, match=r"not on offer.*rows"):
        SessionLog.build(data.tables, log.offered[:2]).requests()
