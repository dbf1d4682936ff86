"""Rules that no single column shows: keys, references between tables, sides that must agree.

A rule names the columns it needs and runs when all of them are there. It reads only cells that
are known, so what a column's own check refused is not reported twice. Each rule is O(rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import NAME, NAME_RULE, SIDES
from shadowprice.errors import TableProblem

Frames = Mapping[str, pd.DataFrame]
Fault = tuple[str, str | None, "NDArray[np.bool_] | None", str]
"""Table, column, the offending rows (None when the fault is not one of rows), reason."""

SHOWN_ROWS = 5
SHOWN_CHARACTERS = 40

_LABEL_COLUMNS = (("redeemed", "customer"), ("share_count", "merchant"), ("share_count_before", "merchant"))
FUND = "fund"
_OTHER = {"customer": "merchant", "merchant": "customer"}


@dataclass(frozen=True)
class _Rule:
    needs: tuple[str, ...]
    faults: Callable[[Frames], Iterator[Fault]]


_RULES: list[_Rule] = []


def _rule(*needs: str) -> Callable[[Callable[[Frames], Iterator[Fault]]], Callable[[Frames], Iterator[Fault]]]:
    def register(faults: Callable[[Frames], Iterator[Fault]]) -> Callable[[Frames], Iterator[Fault]]:
        _RULES.append(_Rule(needs, faults))
        return faults

    return register


def broken_rules(frames: Frames) -> list[TableProblem]:
    """Every rule that the tables break, with the first rows that break it."""
    problems = []
    for rule in _RULES:
        places = [need.split(".") for need in rule.needs]
        if all(table in frames and column in frames[table] for table, column in places):
            for table, column, wrong, reason in rule.faults(frames):
                if wrong is None:
                    problems.append(TableProblem(table, column, reason))
                elif wrong.any():
                    problems.append(problem(table, column, reason, np.flatnonzero(wrong), frames[table]))
    return problems


def problem(table: str, column: str | None, reason: str, rows: NDArray[Any], frame: pd.DataFrame) -> TableProblem:
    """A fault of some rows, with the first offending value where one column is meant."""
    first = np.sort(rows)[:SHOWN_ROWS]
    if column is not None:
        value = frame[column].iloc[int(first[0])]
        if not (pd.api.types.is_scalar(value) and pd.isna(value)):
            reason = f"{reason}; got {str(value)[:SHOWN_CHARACTERS]!r}"
    return TableProblem(table, column, reason, tuple(int(row) for row in first), int(rows.size))


def _mask(values: pd.Series[Any]) -> NDArray[np.bool_]:
    return values.fillna(False).to_numpy(dtype=bool)


def _unknown(values: pd.Series[Any], known: pd.Series[Any]) -> NDArray[np.bool_]:
    return _mask(values.notna() & ~values.isin(known))


def _of_side(frame: pd.DataFrame, side: str) -> NDArray[np.bool_]:
    return _mask(frame["side"] == side)


def _accounts(frames: Frames, side: str) -> pd.Series[Any]:
    account = frames["account"]
    return account.loc[_of_side(account, side), "account_id"]


@_rule("account.account_id", "account.side", "account.snapshot_ts")
def _account_key(frames: Frames) -> Iterator[Fault]:
    key = frames["account"][["account_id", "side", "snapshot_ts"]]
    again = key.duplicated() & key.notna().all(axis=1)
    yield "account", "account_id", _mask(again), "stands twice with the same side and snapshot_ts"


@_rule("offer.side", "offer.face_value", "offer.kind")
def _levels_unique(frames: Frames) -> Iterator[Fault]:
    offer = frames["offer"]
    key = offer[["side", "face_value"]]
    again = key.duplicated() & key.notna().all(axis=1) & (offer["kind"] != FUND)
    yield "offer", "face_value", _mask(again), "stands twice on its side; the levels of a side must differ"


@_rule("offer.side", "offer.kind", "offer.face_value")
def _funds(frames: Frames) -> Iterator[Fault]:
    offer = frames["offer"]
    fund = _mask(offer["kind"] == FUND)
    for side in SIDES:
        own = _of_side(offer, side)
        if not (own & fund).any():
            continue
        yield (
            "offer",
            "kind",
            own & ~fund,
            f"must be {FUND!r}: the side has funds, and what has a value is another kind",
        )
        if "order_index" not in offer:
            yield "offer", "order_index", None, "is missing; it numbers the funds of a side 0, 1, …"
            continue
        order = offer["order_index"].to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = own & fund & ~np.isin(order, np.arange(own.sum()))
        wrong |= own & fund & _mask(offer[["side", "order_index"]].duplicated())
        yield "offer", "order_index", wrong, "must number the funds of a side 0, 1, … without gap or repetition"
    yield "offer", "face_value", fund & _mask(offer["face_value"] > 0), "must be 0: nothing is paid for a fund"


@_rule("offer.kind")
def _offer_features(frames: Frames) -> Iterator[Fault]:
    offer = frames["offer"]
    for column in [str(name) for name in offer.columns if str(name).startswith("x_")]:
        wrong = _mask(offer[column].notna() & offer["kind"].notna() & (offer["kind"] != FUND))
        yield "offer", column, wrong, "must be empty: only the features of funds are read"


@_rule("edge.src", "edge.dst", "account.account_id", "account.side")
def _edge_ends(frames: Frames) -> Iterator[Fault]:
    for column, side in (("src", "customer"), ("dst", "merchant")):
        wrong = _unknown(frames["edge"][column], _accounts(frames, side))
        yield "edge", column, wrong, f"is not a {side} of the account table"


@_rule("exposure.account_id", "exposure.side", "account.account_id", "account.side")
def _exposed_account(frames: Frames) -> Iterator[Fault]:
    exposure = frames["exposure"]
    for side in SIDES:
        wrong = _of_side(exposure, side) & _unknown(exposure["account_id"], _accounts(frames, side))
        yield "exposure", "account_id", wrong, f"is not a {side} of the account table"


@_rule("exposure.partner_id", "exposure.side", "account.account_id", "account.side")
def _partner(frames: Frames) -> Iterator[Fault]:
    exposure = frames["exposure"]
    for side in SIDES:
        other = _OTHER[side]
        wrong = _of_side(exposure, side) & _unknown(exposure["partner_id"], _accounts(frames, other))
        yield "exposure", "partner_id", wrong, f"is not a {other} of the account table"


@_rule("exposure.offer_id", "offer.offer_id")
def _offered(frames: Frames) -> Iterator[Fault]:
    wrong = _unknown(frames["exposure"]["offer_id"], frames["offer"]["offer_id"])
    yield "exposure", "offer_id", wrong, "is not in the offer table"


@_rule("exposure.offer_id", "exposure.side", "offer.offer_id", "offer.side")
def _offer_side(frames: Frames) -> Iterator[Fault]:
    exposure, offer = frames["exposure"], frames["offer"].drop_duplicates("offer_id").dropna(subset=["offer_id"])
    side = exposure["offer_id"].map(offer.set_index("offer_id")["side"])
    wrong = _mask(side.isin(SIDES) & exposure["side"].isin(SIDES) & (side != exposure["side"]))
    yield "exposure", "offer_id", wrong, "is an offer for the other side"


@_rule("action.account_id", "action.offer_id", "account.account_id", "offer.offer_id")
def _acted(frames: Frames) -> Iterator[Fault]:
    action = frames["action"]
    wrong = _unknown(action["account_id"], frames["account"]["account_id"])
    yield "action", "account_id", wrong, "is not in the account table"
    yield "action", "offer_id", _unknown(action["offer_id"], frames["offer"]["offer_id"]), "is not in the offer table"


@_rule("outcome.request_id", "exposure.request_id")
def _exposed(frames: Frames) -> Iterator[Fault]:
    wrong = _unknown(frames["outcome"]["request_id"], frames["exposure"]["request_id"])
    yield "outcome", "request_id", wrong, "is not in the exposure table"


@_rule("outcome.request_id", "outcome.observed_at", "exposure.request_id", "exposure.decided_at")
def _cause_first(frames: Frames) -> Iterator[Fault]:
    outcome = frames["outcome"]
    decided = outcome["request_id"].map(_by_request(frames["exposure"], "decided_at"))
    yield "outcome", "observed_at", _mask(outcome["observed_at"] < decided), "is before the exposure's decided_at"


@_rule("outcome.request_id", "outcome.mature", "exposure.request_id", "exposure.side")
def _labels(frames: Frames) -> Iterator[Fault]:
    outcome = frames["outcome"]
    side = outcome["request_id"].map(_by_request(frames["exposure"], "side"))
    for column, needed_by in _LABEL_COLUMNS:
        needed = _mask((side == needed_by) & outcome["mature"])
        absent = outcome[column].isna().to_numpy() if column in outcome else np.ones(len(outcome), dtype=bool)
        reason = f"is missing; a mature outcome of a {needed_by} needs it"
        if column in outcome:
            yield "outcome", column, needed & absent, reason
        elif needed.any():
            yield "outcome", column, None, reason


@_rule("outcome.request_id", "exposure.request_id", "exposure.offer_id", "offer.offer_id", "offer.kind")
def _bought(frames: Frames) -> Iterator[Fault]:
    """A conversion of a fund has an amount and follows a click."""
    outcome, offer = frames["outcome"], frames["offer"].drop_duplicates("offer_id").dropna(subset=["offer_id"])
    kind = offer.set_index("offer_id")["kind"]
    fund = _mask(outcome["request_id"].map(_by_request(frames["exposure"], "offer_id")).map(kind) == FUND)
    if "redeemed" not in outcome:
        return
    bought = _mask(outcome["redeemed"] == 1)
    if "amount" in outcome:
        known = fund & outcome["amount"].notna().to_numpy() & outcome["redeemed"].notna().to_numpy()
        wrong = known & (_mask(outcome["amount"] > 0) != bought)
        yield "outcome", "amount", wrong, "must be above 0 exactly where a fund was bought (redeemed is 1)"
    if "clicked" in outcome:
        yield "outcome", "clicked", fund & bought & _mask(outcome["clicked"] == 0), "must be 1 where a fund was bought"


@_rule("campaign.campaign_id", "offer.side")
def _cost_bases(frames: Frames) -> Iterator[Fault]:
    campaign, sides = frames["campaign"], set(frames["offer"]["side"])
    for side in SIDES:
        column = f"cost_basis_{side}"
        given = column in campaign and bool(campaign[column].notna().any())
        if side in sides and not given:
            yield "campaign", column, None, f"is missing; the offer table has offers for the {side} side"
        if side not in sides and given:
            yield "campaign", column, None, f"must be empty; the offer table has no offer for the {side} side"


@_rule("campaign.most_units_merchant", "campaign.cost_basis_merchant")
def _most_units(frames: Frames) -> Iterator[Fault]:
    campaign = frames["campaign"]
    wrong = _mask(campaign["most_units_merchant"] > 1) & ~_mask(campaign["cost_basis_merchant"] == "on_response")
    yield "campaign", "most_units_merchant", wrong, "must be 1 or empty unless cost_basis_merchant is on_response"


@_rule("campaign.campaign_id")
def _one_campaign(frames: Frames) -> Iterator[Fault]:
    rows = len(frames["campaign"])
    if rows != 1:
        yield "campaign", None, None, f"must have exactly one row, has {rows}"


@_rule("campaign.campaign_id")
def _campaign_name(frames: Frames) -> Iterator[Fault]:
    name = frames["campaign"]["campaign_id"]
    wrong = name.notna() & ~name.astype("string").str.fullmatch(NAME).fillna(True)
    yield "campaign", "campaign_id", _mask(wrong), NAME_RULE


@_rule("campaign.budget_form", "campaign.budget_limit")
def _whole_total(frames: Frames) -> Iterator[Fault]:
    campaign = frames["campaign"]
    limit = campaign["budget_limit"]
    wrong = (campaign["budget_form"] == "total") & limit.notna() & np.isfinite(limit) & (limit != np.floor(limit))
    yield "campaign", "budget_limit", _mask(wrong), "a total is a whole number of minor units"


@_rule("session.label", "session.redeemed_at")
def _redeemed(frames: Frames) -> Iterator[Fault]:
    session = frames["session"]
    label, at = session["label"], session["redeemed_at"]
    yield "session", "redeemed_at", _mask((label == 1) & at.isna()), "is missing; a session with label 1 needs it"
    yield "session", "redeemed_at", _mask((label == 0) & at.notna()), "must be empty where the label is 0"


@_rule("session.collected_at", "session.redeemed_at")
def _collected_first(frames: Frames) -> Iterator[Fault]:
    session = frames["session"]
    yield "session", "redeemed_at", _mask(session["redeemed_at"] < session["collected_at"]), "is before collected_at"


@_rule("session.collected_at", "session.expires_at")
def _expires_later(frames: Frames) -> Iterator[Fault]:
    session = frames["session"]
    yield "session", "expires_at", _mask(session["expires_at"] < session["collected_at"]), "is before collected_at"


@_rule("session.voucher_id", "session.min_spend", "session.discount")
def _voucher_terms(frames: Frames) -> Iterator[Fault]:
    session = frames["session"]
    terms = session[["voucher_id", "min_spend", "discount"]].dropna()
    for column in ("min_spend", "discount"):
        first = session["voucher_id"].map(terms.drop_duplicates("voucher_id").set_index("voucher_id")[column])
        yield "session", column, _mask(session[column] != first), "differs from that of the same voucher above"


@_rule("behaviour.session_id", "session.session_id")
def _behaved_in(frames: Frames) -> Iterator[Fault]:
    wrong = _unknown(frames["behaviour"]["session_id"], frames["session"]["session_id"])
    yield "behaviour", "session_id", wrong, "is not in the session table"


@_rule("behaviour.session_id", "behaviour.ts", "behaviour.phase", "session.session_id", "session.collected_at")
def _phase(frames: Frames) -> Iterator[Fault]:
    behaviour, session = frames["behaviour"], frames["session"]
    known = session.dropna(subset=["session_id"]).drop_duplicates("session_id").set_index("session_id")
    collected = behaviour["session_id"].map(known["collected_at"])
    late = (behaviour["phase"] == "before") & (behaviour["ts"] > collected)
    early = (behaviour["phase"] == "after") & (behaviour["ts"] <= collected)
    yield "behaviour", "phase", _mask(late), "is not that of its ts, which is after the session's collected_at"
    yield "behaviour", "phase", _mask(early), "is not that of its ts, which is not after the session's collected_at"


def _by_request(exposure: pd.DataFrame, column: str) -> pd.Series[Any]:
    return exposure.dropna(subset=["request_id"]).drop_duplicates("request_id").set_index("request_id")[column]
