"""Voucher sessions as models read them: graphs, terms of the vouchers, and earlier redemptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import refuse_rows, require
from shadowprice.graphs.voucher_graphs import GROUPS, KEPT, NEAREST, VOUCHER, VoucherGraphs, build_graphs
from shadowprice.tables import SessionTables

Index = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max
UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class SessionLog:
    """Sessions, their graphs, and the vouchers on offer.

    tables   ``session`` and ``behaviour``
    graphs   of the sessions, in the order of the table
    offered  ids of the vouchers that a model chooses among, by discount and id: level j is ``offered[j]``. Vouchers
             of equal discount are different levels.
    levels   (J,): their discounts, minor units, ascending
    min_spend  (J,): their minimum spends, minor units
    """

    tables: SessionTables
    graphs: VoucherGraphs
    offered: tuple[str, ...]
    levels: tuple[int, ...]
    min_spend: tuple[int, ...]

    @classmethod
    def build(
        cls,
        tables: SessionTables,
        offered: Sequence[str] | None = None,
        *,
        nearest: int = NEAREST,
        kept: tuple[int, int] = KEPT,
        graphs: VoucherGraphs | None = None,
    ) -> SessionLog:
        """Build the graphs, unless those of the same tables are given.

        ``offered`` are all vouchers of the session table unless given.

        O(behaviours log behaviours).

        Raises:
            InvalidInput: a voucher on offer that no session has, so that its terms are not known.
        """
        session, behaviour = tables.session, tables.behaviour
        terms = session.drop_duplicates("voucher_id").set_index("voucher_id")[["discount", "min_spend"]]
        if offered is not None:
            for voucher in offered:
                require(voucher in terms.index, "offered", f"{voucher!r} is a voucher of no session")
            terms = terms.loc[list(offered)]
        terms = terms.reset_index().sort_values(["discount", "voucher_id"])
        if graphs is None:
            place = pd.Index(session["session_id"]).get_indexer(pd.Index(behaviour["session_id"]))
            ends = session_ends(session)
            graphs = build_graphs(
                behaviour, place.astype(np.int64), len(session), ends=ends, nearest=nearest, kept=kept
            )
        alike = graphs.sessions == len(session)
        require(alike, "graphs", f"are of {graphs.sessions} sessions, the table has {len(session)}")
        return cls(
            tables,
            graphs,
            tuple(terms["voucher_id"]),
            tuple(terms["discount"].astype(int)),
            tuple(terms["min_spend"].astype(int)),
        )

    @cached_property
    def last_read(self) -> Index:
        """(S,): nanoseconds of the latest behaviour in each session's graphs, :data:`UNKNOWN` without any."""
        graphs = self.graphs
        session = np.repeat(np.arange(graphs.sessions * len(GROUPS)) // len(GROUPS), np.diff(graphs.start))
        read_at = np.full(graphs.sessions, UNKNOWN)
        item = graphs.row != VOUCHER
        np.maximum.at(read_at, session[item], nanoseconds(self.tables.behaviour["ts"])[graphs.row[item]])
        return read_at

    def requests(self, session: NDArray[Any] | None = None) -> pd.DataFrame:
        """The sessions at positions or a mask, as the training frame of a response model.

        Columns: account_id (the user), session_id, level (the voucher among ``offered``), response (the label, NaN
        where it is unknown), snapshot_at (unix seconds of the collection) and the profile.

        Raises:
            InvalidInput: a session's voucher is not on offer.
        """
        table = self.tables.session if session is None else self.tables.session.iloc[_positions(session)]
        level = pd.Index(self.offered).get_indexer(pd.Index(table["voucher_id"]))
        refuse_rows("session.voucher_id", level < 0, "is not on offer")
        return pd.DataFrame(
            {
                "account_id": table["user_id"].to_numpy(),
                "session_id": table["session_id"].to_numpy(),
                "level": level,
                "response": table["label"].to_numpy(dtype=np.float64, na_value=np.nan),
                "snapshot_at": nanoseconds(table["collected_at"]) / 1e9,
                **{c: table[c].to_numpy() for c in table.columns if c.startswith(("x_", "c_"))},
            }
        )

    def locate(self, frame: pd.DataFrame) -> tuple[Index, Index]:
        """Session position (−1 for none) and instant (nanoseconds) of every row of a frame of requests.

        A row is the session that ``session_id`` names; without that column, the last one that its account had
        collected by ``snapshot_at``. Its instant is ``snapshot_at``, else that session's collection, else the end of
        time.
        """
        session = self.tables.session
        collected = nanoseconds(session["collected_at"])
        at = np.full(len(frame), NEVER)
        if "snapshot_at" in frame:
            at = np.rint(frame["snapshot_at"].to_numpy(dtype=np.float64) * 1e9).astype(np.int64)
        if "session_id" in frame:
            place = pd.Index(session["session_id"]).get_indexer(pd.Index(frame["session_id"])).astype(np.int64)
        else:
            behind = np.where(at == NEVER, NEVER, at + 1)
            before = _last_before(session["user_id"], collected, frame["account_id"], behind)
            place = before(1)[:, 0]
        if "snapshot_at" not in frame:
            at = np.where(place >= 0, collected[place], NEVER)
        return place, at

    def history(self, account: pd.Series[Any], at: Index, most: int, apart_from: Index | None = None) -> Index:
        """(n, most): the latest sessions that each account redeemed before an instant, latest first, −1 where fewer.

        A session counts only if its redemption itself was before the instant. Those of the campaign of the session at
        ``apart_from`` (n,), −1 for none, do not count (S3's code leaves them out). O((S + n) log S).
        """
        session = self.tables.session
        redeemed = np.flatnonzero(session["redeemed_at"].notna().to_numpy(dtype=bool))
        own = session.iloc[redeemed]
        last = _last_before(own["user_id"], nanoseconds(own["redeemed_at"]), account, at)
        if not redeemed.size or apart_from is None:
            sessions = last(most)
            return np.where(sessions >= 0, redeemed[sessions] if redeemed.size else -1, -1)
        campaign = pd.factorize(session["campaign"])[0]
        other = np.where(apart_from >= 0, campaign[apart_from], -1)
        asked = most
        while True:
            sessions = last(asked)
            sessions = np.where(sessions >= 0, redeemed[sessions], -1)
            counts = (sessions >= 0) & (campaign[sessions] != other[:, None])
            if ((counts.sum(axis=1) >= most) | (sessions[:, -1] < 0)).all():
                break
            asked *= 2
        first = np.argsort(~counts, axis=1, kind="stable")[:, :most]
        return np.where(np.take_along_axis(counts, first, axis=1), np.take_along_axis(sessions, first, axis=1), -1)


def nanoseconds(times: pd.Series[Any]) -> Index:
    """(n,): since 1970, :data:`UNKNOWN` where a time is unknown."""
    return times.to_numpy(dtype="datetime64[ns]").astype(np.int64)


def session_ends(session: pd.DataFrame) -> Index:
    """(S,): nanoseconds at which each session is over: its redemption or its expiry, whichever comes first.

    A session in a history was redeemed before the target was collected, so that its end is also before that
    collection: one graph serves all targets. :data:`NEVER` where neither instant is known.
    """
    instants = [nanoseconds(session[column]) for column in ("redeemed_at", "expires_at")]
    return np.minimum(*(np.where(instant == UNKNOWN, NEVER, instant) for instant in instants))


def _positions(session: NDArray[Any]) -> Index:
    return np.flatnonzero(session) if session.dtype == np.bool_ else session.astype(np.int64)


class _last_before:
    """The events of each wanted owner that are before an instant: called with k, positions (n, k), latest first."""

    def __init__(self, owner: pd.Series[Any], when: Index, wanted: pd.Series[Any], at: Index) -> None:
        code, owners = pd.factorize(owner)
        self.order = np.lexsort((when, code))
        times = np.unique(when)
        # One number orders events by owner and time, so that a single search finds where each instant falls.
        key = code[self.order] * (times.size + 1) + np.searchsorted(times, when)[self.order]
        asked = pd.Index(owners).get_indexer(pd.Index(wanted)).astype(np.int64)
        base = np.maximum(asked, 0) * (times.size + 1)
        self.end = np.searchsorted(key, base + np.searchsorted(times, at))
        self.begin = np.where(asked >= 0, np.searchsorted(key, base), self.end)

    def __call__(self, most: int) -> Index:
        place = self.end[:, None] - 1 - np.arange(most)
        known = place >= self.begin[:, None]
        return np.where(known, self.order[np.where(known, place, 0)] if self.order.size else -1, -1).astype(np.int64)
