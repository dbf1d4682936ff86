"""``o2o``: real offline coupons of the Alibaba O2O data (Tianchi), April and May 2016, as canonical tables.

One row of the source is one received coupon: user, merchant, date, "spend x get y off", and whether it
was redeemed within 15 days. What a reader must know:

* **Value is confounded.** It goes with the threshold and the merchant, so the raw response falls with the
  value. Threshold, distance and pair history stand on the exposure, the merchant as its partner, so that a
  model can hold them fixed.
* **The rate is left out.** ``pay_rate`` = 1 − value / threshold: next to the threshold it is the value in
  disguise, and a model that sees it learns nothing from the level. ``coupon_id`` fixes the value as well.
* **Propensities are fitted**, not logged: the smoothed frequency of a value among the receipts of one
  merchant, threshold and window. Most such cells know one value only, where the propensity is close to 1.
* **Percentages are left out unless asked for.** The file has their share alone: no order's amount, least spend or
  cap. With ``order_yuan`` every order with such a coupon is taken to be that large, and the cap is :data:`CAP`; all
  coupons are then alternatives without an order.
* **Histories are point in time.** u_*, m_* and um_* describe what was before a window of weeks, so they are
  snapshots at the window's first day.
* **July is to be allocated.** Its receipts, where the folder has them, stand among the exposures without
  outcomes, and its histories are snapshots of 1 July: too late for any labeled request to see.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput, InvalidTable, NotFound, TableProblem
from shadowprice.mapping.files.parquet import read_frame
from shadowprice.tables import validate_tables

LABELED_FILE = "offers_labelled_apr14_may31.parquet"
JULY_FILE = "offers_july_to_allocate.parquet"

LEVELS = (100, 500, 1000, 2000, 3000, 5000)
"""1, 5, 10, 20, 30 and 50 yuan in fen."""
CAP = 5000
"""The most that a coupon in percent pays, in fen: as much as the largest amount. The data has no cap."""

VALIDATION_FROM = datetime(2016, 5, 18, tzinfo=UTC)
TEST_FROM = datetime(2016, 5, 25, tzinfo=UTC)
CAMPAIGN_STARTS = datetime(2016, 7, 1, tzinfo=UTC)

LABEL_DELAY_DAYS = 16
"""Dates have no hours: a redemption on the fifteenth day after receipt is known when that day is over."""

BUDGET_SHARE = 0.5
RATE = "pay_rate"
NO_PERCENTAGES = "left out: their orders have no amount in the data; the option order_yuan lets them in"
PERCENTAGES = (
    "taken off an order of {order:g} yuan, which is an assumption: the data has no amounts; at most {cap} yuan, a cap "
    "that is chosen as high as the largest coupon; no least spend"
)

_KEYS = ("window", "user_id", "merchant_group", "date_received", "is_man_jian", "threshold_yuan", "value_yuan")
_OUTCOMES = ("redeemed_le15d", "redeemed_gt15d", "not_redeemed")


def load(
    data: str | None,
    *,
    seed: int = 0,  # noqa: ARG001 - nothing is drawn
    purge: bool = False,
    order_yuan: float = 0.0,
) -> Dataset:
    """Convert the receipts in the folder ``data``: the labeled ones and, where it is there, July's file.

    ``purge`` drops training rows whose label was not known on the first test day (:class:`Split`). ``order_yuan`` is
    the amount that an order with a coupon in percent is taken to have; 0 leaves these coupons out.

    Raises:
        InvalidInput, NotFound: no folder given, or the file is not in it.
        InvalidTable: the file lacks a column.
    """
    require(0 <= order_yuan < np.inf, "order_yuan", f"must be an amount in yuan, not negative; got {order_yuan}")
    percent, order = order_yuan > 0, round(100 * order_yuan)
    raw = _read(data, LABELED_FILE, needs=(*_KEYS, "distance", "outcome", *([RATE] if percent else [])))
    rows, dropped = _usable(raw, percent=percent)
    exposure = _exposure(rows)
    outcome = _outcome(rows, exposure, order)
    to_allocate = _to_allocate(data, percent=percent)
    history = pd.concat([rows, *to_allocate], ignore_index=True)
    split = Split(
        by="time",
        validation_from=VALIDATION_FROM,
        test_from=TEST_FROM,
        label_delay_days=LABEL_DELAY_DAYS,
        purge=purge,
    )
    cost, day = _cost_per_request(exposure, outcome)
    tables = validate_tables(
        {
            "account": _account(history),
            "edge": _edge(history),
            "offer": _offer(history),
            "exposure": pd.concat([exposure, *map(_exposure, to_allocate)], ignore_index=True),
            "outcome": outcome,
            "campaign": campaign_table("o2o", CAMPAIGN_STARTS, int(BUDGET_SHARE * cost * day)),
        }
    )
    late = int((rows["outcome"] == "redeemed_gt15d").sum())
    return Dataset(
        name="o2o",
        tables=tables,
        split=split,
        currency="CNY",
        # Alternatives have no slope to hold.
        confounders={} if percent else {"customer": ["x_log_threshold", "partner_id"]},
        notes={
            "source": "real: Alibaba O2O coupons (Tianchi), receipts of 14 April to 31 May 2016; licence not stated",
            **dropped,
            "response": "redeemed within 15 days of receipt",
            "late redemptions": f"{late} redeemed after 15 days count as not redeemed and not paid",
            "propensity": "fitted, not logged: smoothed frequency of the value per merchant, threshold and window",
            "percentages": PERCENTAGES.format(order=order_yuan, cap=CAP // 100) if percent else NO_PERCENTAGES,
            "left out": "pay_rate and coupon_id, which reveal the value",
            "split": "by time: validation from 18 May, test from 25 May 2016; "
            + ("training rows with labels later than 24 May purged" if purge else "labels mature up to 16 days later"),
            "edges": "pairs that received a coupon in a window and have a history before it",
            "budget": f"{BUDGET_SHARE:.0%} of what a mean day's receipts cost at the values given: "
            f"{cost:.2f} fen x {day:.0f} receipts a day, training weeks only",
            "requests per day": f"{day:.0f}",
            "to allocate": f"{sum(map(len, to_allocate))} receipts of July, without outcomes: they are the traffic",
        },
    )


def _to_allocate(data: str | None, *, percent: bool) -> list[pd.DataFrame]:
    """July's receipts, or nothing where the folder does not have them."""
    if data is None or not (Path(data) / JULY_FILE).is_file():
        return []
    raw = _read(data, JULY_FILE, needs=(*_KEYS, "distance", *([RATE] if percent else [])))
    return [_usable(raw, percent=percent)[0]]


def _read(data: str | None, file: str, needs: tuple[str, ...]) -> pd.DataFrame:
    require(data, "data", f"must be the folder that holds {file}; this data set does not come with the package")
    source = Path(str(data)) / file
    if not source.exists():
        raise NotFound(f"{source}: there is no such file; data= must be the folder that holds it")
    try:
        raw = read_frame(source)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(source)) from error
    missing = [TableProblem(file, name, "the column is missing") for name in needs if name not in raw]
    if missing:
        raise InvalidTable("; ".join(map(str, missing)), problems=missing)
    return raw


def _usable(raw: pd.DataFrame, *, percent: bool) -> tuple[pd.DataFrame, dict[str, str]]:
    """Receipts with a value that is a level, with a few columns of their own, and what was dropped.

    ``percent`` keeps the percentages: their ``percent`` is what they take off, and their face value the cap.
    """
    face_value = raw["value_yuan"] * 100
    discount = raw["is_man_jian"] == 0
    rate = raw[RATE].astype(np.float64) if percent else pd.Series(np.nan, raw.index)
    share = (100 * (1 - rate)).round(2).where(discount)
    usable = share.between(0, 100, inclusive="right")
    face_value = face_value.mask(usable, CAP)
    unknown = ~discount & (raw["value_yuan"].isna() | raw["threshold_yuan"].isna())
    other = ~discount & ~unknown & ~face_value.isin(LEVELS)
    kept = ~(discount & ~usable | unknown | other)
    start = raw.groupby("window")["date_received"].transform("min")
    rows = raw.assign(
        row=np.arange(len(raw)),
        face_value=face_value,
        percent=share,
        threshold_yuan=raw["threshold_yuan"].mask(usable),
        user=_named("u", raw["user_id"]),
        merchant=_named("m", raw["merchant_group"]),
        starts_at=start.dt.tz_localize("UTC"),
    )[kept]
    return rows.astype({"face_value": np.int64}), {
        "receipts": f"{len(raw)} in the file, {int(kept.sum())} used",
        "dropped: percentage discounts": str(int((discount & ~usable).sum())),
        "dropped: no value or threshold": str(int(unknown.sum())),
        "dropped: value is no level": f"{int(other.sum())} (100 yuan)",
    }


def _named(prefix: str, number: pd.Series[Any]) -> NDArray[np.object_]:
    names: NDArray[np.object_] = np.array([f"{prefix}{value}" for value in number.to_numpy()], dtype=object)
    return names


def _history(rows: pd.DataFrame, prefix: str) -> pd.DataFrame:
    columns = [name for name in rows.columns if str(name).startswith(prefix)]
    return rows[columns].astype(np.float64).add_prefix("x_")


def _account(rows: pd.DataFrame) -> pd.DataFrame:
    """One snapshot per user or merchant and window, at the window's first day."""
    # Two rebuilt merchant groups mix two shops: the larger shop's history stands for the group.
    by_size = rows.sort_values("m_total_sales", ascending=False, kind="stable", na_position="last")
    parts = []
    for side, name, prefix, source in (("customer", "user", "u_", rows), ("merchant", "merchant", "m_", by_size)):
        first = source.drop_duplicates([name, "window"])
        key = pd.DataFrame({"account_id": first[name], "side": side, "snapshot_ts": first["starts_at"]})
        parts.append(key.join(_history(first, prefix)))
    return pd.concat(parts, ignore_index=True)


def _edge(rows: pd.DataFrame) -> pd.DataFrame:
    """Histories of pairs, dated a second before the window they precede.

    A later window's history contains the earlier one's, so only its increase is a new event: the weights
    of a pair add up to its history.
    """
    pairs = rows[rows["um_user_merchant_any"] > 0].drop_duplicates(["user", "merchant", "window"])
    pairs = pairs.sort_values("window", kind="stable")
    count = pairs["um_user_merchant_any"].astype(np.float64)
    weight = count - count.groupby([pairs["user"], pairs["merchant"]]).shift(fill_value=0.0)
    edge = pd.DataFrame(
        {
            "src": pairs["user"],
            "dst": pairs["merchant"],
            "relation": np.where(pairs["um_user_merchant_buy_total"] > 0, "paid_at", "on_voucher"),
            "weight": weight,
            "ts": pairs["starts_at"] - pd.Timedelta(seconds=1),
        }
    ).join(_history(pairs, "um_"))
    return edge[edge["weight"] > 0].reset_index(drop=True)


def _offer(rows: pd.DataFrame) -> pd.DataFrame:
    offers = [f"coupon-{level}" for level in LEVELS]
    amounts = pd.DataFrame({"offer_id": offers, "side": "customer", "kind": "coupon", "face_value": LEVELS})
    shares = np.sort(rows["percent"].dropna().unique())
    if not shares.size:
        return amounts
    parts = pd.DataFrame({"offer_id": [f"percent-{share:g}" for share in shares], "face_value": CAP, "percent": shares})
    return pd.concat([amounts, parts.assign(side="customer", kind="coupon")], ignore_index=True)


def _offer_ids(rows: pd.DataFrame) -> pd.Series[str]:
    amount = "coupon-" + rows["face_value"].astype(str)
    return amount.where(rows["percent"].isna(), "percent-" + rows["percent"].map("{:g}".format))


def _exposure(rows: pd.DataFrame) -> pd.DataFrame:
    angle = 2 * np.pi * rows["date_received"].dt.dayofweek / 7
    exposure = pd.DataFrame(
        {
            "request_id": "o2o-" + rows["window"].astype(str) + "-" + rows["row"].astype(str).str.zfill(6),
            "account_id": rows["user"],
            "side": "customer",
            "offer_id": _offer_ids(rows),
            "decided_at": rows["date_received"].dt.tz_localize("UTC"),
            "propensity": _propensity(rows),
            "partner_id": rows["merchant"],
            "policy_version": "observed",
            "x_log_threshold": np.log(rows["threshold_yuan"].astype(np.float64)),
            "x_distance": rows["distance"].astype(np.float64),
            "x_weekday_sin": np.sin(angle),
            "x_weekday_cos": np.cos(angle),
        }
    )
    return exposure.join(_history(rows, "um_")).reset_index(drop=True)


def _propensity(rows: pd.DataFrame) -> pd.Series[float]:
    """Frequency of each row's value in its merchant × threshold × window, with one pseudo-receipt.

    The pseudo-receipt is spread like the values of that threshold and window over all merchants.
    """
    wide = ["threshold_yuan", "window"]
    cell = ["merchant", *wide]
    named = rows.assign(offer=_offer_ids(rows))

    def size(columns: list[str]) -> pd.Series[float]:
        # Percentages have no threshold, and are a cell of their own.
        return named.groupby(columns, dropna=False)["row"].transform("size").astype(np.float64)

    prior = size([*wide, "offer"]) / size(wide)
    return (size([*cell, "offer"]) + prior) / (size(cell) + 1.0)


def _outcome(rows: pd.DataFrame, exposure: pd.DataFrame, order: int) -> pd.DataFrame:
    strange = ~rows["outcome"].isin(_OUTCOMES).to_numpy()
    if strange.any():
        fault = TableProblem(
            LABELED_FILE,
            "outcome",
            f"must be one of {', '.join(_OUTCOMES)}",
            tuple(rows["row"].to_numpy()[strange][:5].tolist()),
            int(strange.sum()),
        )
        raise InvalidTable(str(fault), problems=[fault])
    redeemed = (rows["outcome"] == "redeemed_le15d").astype(np.int64).to_numpy()
    part = (rows["percent"] / 100 * order).round().clip(upper=CAP)
    paid = part.fillna(rows["face_value"]).astype(np.int64).to_numpy()
    made = pd.DataFrame(
        {
            "request_id": exposure["request_id"],
            "observed_at": exposure["decided_at"] + pd.Timedelta(days=LABEL_DELAY_DAYS),
            "mature": True,
            "cost_paid": paid * redeemed,
            "redeemed": redeemed,
        }
    )
    amount = pd.Series(order, rows.index, dtype="Int64").where((redeemed == 1) & rows["percent"].notna())
    return made.assign(amount=amount.to_numpy()) if order else made


def _cost_per_request(exposure: pd.DataFrame, outcome: pd.DataFrame) -> tuple[float, float]:
    """Mean cost in fen, and requests a day, over the training weeks."""
    before = (exposure["decided_at"] < VALIDATION_FROM).to_numpy()
    days = exposure.loc[before, "decided_at"].nunique()
    return float(outcome.loc[before, "cost_paid"].mean()), float(before.sum() / days)
