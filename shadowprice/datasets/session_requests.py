"""Voucher sessions as the requests of a campaign: the canonical tables that all steps but a session model read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from shadowprice.checks import require
from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.errors import InvalidInput
from shadowprice.tables import SessionTables, Tables, validate_sessions, validate_tables
from shadowprice.tables.rules import VOUCHER

SIDE = "customer"
DAY = pd.Timedelta(days=1)
PAST_DAYS = 31
"""Days before the newest session whose redemptions a budget is taken from, where none is named."""


def request_tables(tables: SessionTables, own: Mapping[str, Any]) -> Tables:
    """Return the canonical tables of voucher sessions: each is a request that was answered with its voucher.

    A profile that stands from the start of the log on is that of a person's first session, and one from its end on that
    of their latest. The propensity of a voucher is its share of all sessions. O(S log S) for S sessions.

    Args:
        tables: the sessions.
        own: columns of the campaign that are named; without ``budget_limit`` a day has as much as was redeemed on a
            day of the last month, and without ``starts_at`` it begins the midnight after the newest session.

    Raises:
        InvalidInput: a start that is no time with a zone, or a budget of 0 because nothing was redeemed.
    """
    session = tables.session.sort_values(["collected_at", "session_id"], kind="stable")
    collected = session["collected_at"]
    first, last = collected.iloc[0], collected.iloc[-1]
    known, redeemed = session["label"].notna(), session["label"].eq(1).fillna(False)
    offer = session.drop_duplicates("voucher_id").sort_values(["discount", "voucher_id"])
    names = [column for column in session.columns if column.startswith(("x_", "c_"))]
    of_user = session[["user_id", *names]].rename(columns={"user_id": "account_id"})
    profiles = [
        of_user.drop_duplicates("account_id", keep="first").assign(snapshot_ts=first),
        of_user.drop_duplicates("account_id", keep="last").assign(snapshot_ts=last),
    ]
    return validate_tables(
        {
            "account": pd.concat(profiles[: 1 + (last > first)], ignore_index=True).assign(side=SIDE),
            "edge": pd.DataFrame({"src": [], "dst": [], "relation": [], "weight": [], "ts": []}),
            "offer": pd.DataFrame(
                {
                    "offer_id": offer["voucher_id"],
                    "side": SIDE,
                    "kind": VOUCHER,
                    "face_value": offer["discount"],
                    "min_spend": offer["min_spend"],
                    "valid_hours": _validity(session).loc[offer["voucher_id"]].array,
                    "order_index": np.arange(len(offer)),
                }
            ),
            "exposure": pd.DataFrame(
                {
                    "request_id": session["session_id"],
                    "account_id": session["user_id"],
                    "side": SIDE,
                    "offer_id": session["voucher_id"],
                    "decided_at": collected,
                    "propensity": session.groupby("voucher_id")["session_id"].transform("size") / len(session),
                }
            ),
            "outcome": pd.DataFrame(
                {
                    "request_id": session["session_id"],
                    "observed_at": session["redeemed_at"].fillna(session["expires_at"]).fillna(collected),
                    "mature": known.astype("boolean"),
                    "cost_paid": session["discount"].where(redeemed, 0),
                    "redeemed": session["label"],
                }
            ),
            "campaign": campaign_table(
                own.get("campaign_id", "vouchers"),
                instant_of(own["starts_at"], "starts_at") if "starts_at" in own else last.normalize() + DAY,
                0 if "budget_limit" in own else _spent_a_day(session, first, last),
                budget_name="budget",
                ordered_customer=False,
            ).assign(**{name: value for name, value in own.items() if name not in ("campaign_id", "starts_at")}),
        }
    )


def with_served(
    tables: SessionTables,
    exposure: pd.DataFrame,
    outcome: pd.DataFrame,
    behaviour: pd.DataFrame,
    hours: float,
    left_out: Collection[str] = (),
) -> SessionTables:
    """Add the requests that were served to the sessions, with the carts and orders that they brought.

    A session that the tables have already stays as it is there. Profiles are those of a person's latest session.

    Args:
        tables: the sessions.
        exposure, outcome: canonical rows of the requests, of people and vouchers that the sessions have.
        behaviour: carts and orders before the decisions of requests.
        hours: after which a voucher that was not redeemed has expired.
        left_out: sessions that are dropped.
    """
    session = tables.session[~tables.session["session_id"].isin(left_out)]
    served = exposure[~exposure["request_id"].isin(session["session_id"])]
    said = outcome.set_index("request_id").loc[served["request_id"]].reset_index()
    redeemed = said["redeemed"].eq(1).to_numpy(dtype=bool)
    profile = session.sort_values("collected_at", kind="stable").drop_duplicates("user_id", keep="last")
    columns = [column for column in session.columns if column.startswith(("x_", "c_"))]
    terms = tables.session.drop_duplicates("voucher_id").set_index("voucher_id")[["min_spend", "discount"]]
    rows = pd.DataFrame(
        {
            "session_id": served["request_id"].to_numpy(),
            "user_id": served["account_id"].to_numpy(),
            "voucher_id": served["offer_id"].to_numpy(),
            "collected_at": served["decided_at"].array,
            "expires_at": served["decided_at"].array + pd.Timedelta(hours=hours),
            "redeemed_at": said["observed_at"].where(redeemed).array,
            "label": said["redeemed"].array,
        }
    )
    rows = rows.join(terms, on="voucher_id").merge(profile[["user_id", *columns]], on="user_id", how="left")
    known = tables.behaviour[tables.behaviour["session_id"].isin(session["session_id"])]
    new = behaviour[behaviour["session_id"].isin(rows["session_id"])]
    whole = pd.concat([session, rows], ignore_index=True) if len(rows) else session
    together = pd.concat([known, new], ignore_index=True) if len(new) else known
    return validate_sessions({"session": whole, "behaviour": together})


def _validity(session: pd.DataFrame) -> pd.Series[Any]:
    """Hours that each voucher is valid for; unknown where they differ by more than an hour, or there are none."""
    hours = (session["expires_at"] - session["collected_at"]).dt.total_seconds() / 3600
    of_voucher = hours.groupby(session["voucher_id"])
    least, most = of_voucher.min(), of_voucher.max()
    return least.round().where((most - least <= 1) & (least >= 1)).astype("Int64")


def _spent_a_day(session: pd.DataFrame, first: pd.Timestamp, last: pd.Timestamp) -> int:
    """Minor units that the vouchers of a day of the last :data:`PAST_DAYS` days cost.

    Those whose label is unknown yet cost the mean of the others.
    """
    since = max(last - pd.Timedelta(days=PAST_DAYS), first)
    days = max((last - since) / pd.Timedelta(days=1), 1.0)
    month = session[session["collected_at"] >= since]
    redeemed, known = month["label"].eq(1).fillna(False), month["label"].notna()
    spent = float(month.loc[redeemed, "discount"].sum())
    require(spent, "budget", "is needed: no voucher of the last month was redeemed")
    return int(np.ceil(spent * (len(month) / int(known.sum())) / days))


def instant_of(given: datetime | str, field: str) -> datetime:
    """Return a time with a zone, such as 2026-11-01T00:00Z, or raise :class:`InvalidInput` that names its field."""
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidInput(f"is not a time, such as 2026-11-01T00:00Z: {given!r}", field=field) from None
    require(at.tzinfo is not None, field, "must have a time zone, such as 2026-11-01T00:00Z")
    return at
