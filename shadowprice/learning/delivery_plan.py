"""Plan of a delivery from predicted values: exact sizes, prices, an audit, and a comparison of methods (S2)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shadowprice.allocation.exact_sizes import METHODS, Audit, Plan, audit
from shadowprice.campaign import Campaign, Segment, demands, may_enter, places_left, places_of, risk_levels
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.errors import Conflict, InvalidInput, NotCertified
from shadowprice.files import write_whole
from shadowprice.learning.bundle import EMBEDDINGS, read_meta
from shadowprice.lists.table import list_file
from shadowprice.price import PriceRecord
from shadowprice.responses.funds.delivered import NO_TOLERANCE, SIDE
from shadowprice.responses.layers.heads import DeliveryHead, load_heads
from shadowprice.tables import Tables, tolerances

PLAN, LIST = "plan.parquet", "plan.csv"
REPORT = "plan.json"
ROWS = pa.schema([("account_id", pa.string()), ("segment", pa.string()), ("value", pa.float64())])
"""Columns of a plan as a list."""
COMPARED = ("exact", "heuristic", "literal_heuristic", "priority")


@dataclass(frozen=True)
class Compared:
    """One method for segment sizes on the same values.

    of_exact    objective over the exact method's
    ineligible  accounts in a segment above their tolerance; misplaced, accounts missing from the segments or too many
    """

    method: str
    status: str
    objective: float
    of_exact: float
    seconds: float
    ineligible: int
    misplaced: int


@dataclass(frozen=True, eq=False)
class DeliveryPlan:
    """A certified plan, its audit, and the results of other methods on the same values."""

    account_id: NDArray[np.str_]
    value: NDArray[np.float32]
    plan: Plan
    audit: Audit
    segments: Sequence[Segment]
    compared: Sequence[Compared]
    model_version: str

    def table(self) -> pd.DataFrame:
        """account_id, segment (name), value (predicted, of the share that counts, minor units)."""
        names = np.array([segment.name for segment in self.segments], dtype=object)
        chosen = self.plan.segment
        worth = self.value[chosen, np.arange(chosen.size)].astype(np.float64)
        return pd.DataFrame({"account_id": self.account_id, "segment": names[chosen], "value": worth})

    def report(self) -> dict[str, Any]:
        """Plain JSON types: sizes and prices by segment, the certificate, the audit, the comparison."""
        return {
            "model_version": self.model_version,
            "accounts": int(self.account_id.size),
            "status": self.plan.status,
            "objective": self.plan.objective,
            "dual": self.plan.dual,
            "gap": self.plan.gap,
            "segments": [
                {
                    "name": segment.name,
                    "risk_level": segment.risk_level,
                    "demand": segment.demand,
                    "accounts": int(size),
                    "price": float(price),
                }
                for segment, size, price in zip(self.segments, self.audit.sizes, self.plan.prices, strict=True)
            ],
            "audit": {
                "sound": self.audit.sound,
                "unplaced": int(self.audit.unplaced.size),
                "ineligible": int(self.audit.ineligible.size),
                "repeated": int(self.audit.repeated.size),
                "missing": self.audit.missing.tolist(),
            },
            "methods": [asdict(method) for method in self.compared],
        }

    def markdown(self, campaign: Campaign) -> str:
        """Report in Markdown."""
        currency = Currency.of(campaign.currency)
        places = places_of(self.segments, self._prices(), currency)
        lines = [
            f"# Delivery of {self.account_id.size:,} accounts",
            "",
            f"{self.plan.status}, gap {self.plan.gap:.1e}; audit: {self.audit}. "
            f"Predicted value {currency.write(self.plan.objective)}.",
            "",
            "| segment | risk level | demand | accounts | price of a place | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for segment, place in zip(self.report()["segments"], places, strict=True):
            risk = "anybody" if segment["risk_level"] is None else segment["risk_level"]
            priced = f"{currency.write(place.price)} | {place.meaning}"
            lines.append(f"| {segment['name']} | {risk} | {segment['demand']:,} | {segment['accounts']:,} | {priced} |")
        lines += ["", "| method | status | predicted value | of exact | seconds | ineligible | off quota |"]
        lines.append("|---|---|---|---|---|---|---|")
        lines += [
            f"| {method.method} | {method.status} | {currency.write(method.objective)} | {method.of_exact:.4f} | "
            f"{method.seconds:.4f} | {method.ineligible} | {method.misplaced} |"
            for method in self.compared
        ]
        return "\n".join([*lines, ""])

    def price(self, campaign: Campaign, version: int, now: datetime) -> PriceRecord:
        """Sealed price of every segment's quota, per account; good until the campaign ends and for its time to live."""
        return PriceRecord(
            campaign=campaign.name,
            version=version,
            slot=max(campaign.slot(now), 0),
            prices={name: price for name, price in self._prices().items() if name in campaign.priced},
            tie_share=0.0,
            status=self.plan.status,
            primal=self.plan.objective,
            dual=self.plan.dual,
            gap=self.plan.gap,
            violation=float(np.abs(self.audit.missing).sum()) / self.account_id.size,
            spent=0,
            remaining=0,
            sample_rows=int(self.account_id.size),
            model_version=self.model_version,
            solved_at=now,
            expires_at=max(campaign.ends_at, now + timedelta(hours=campaign.price_ttl_hours)),
        ).sealed()

    def _prices(self) -> dict[str, float]:
        return dict(zip([segment.name for segment in self.segments], self.plan.prices.tolist(), strict=True))


def plan_delivery(
    account_id: NDArray[np.str_],
    value: NDArray[np.float32],
    tolerance: NDArray[np.float64],
    campaign: Campaign,
    *,
    model_version: str,
    methods: Sequence[str] = COMPARED,
    conversion: NDArray[np.float64] | None = None,
) -> DeliveryPlan:
    """Give every account a segment, certify it, count it again, and run the other methods beside it.

    Args:
        account_id: N accounts.
        value: float32 (J, N), value of each segment for each account.
        tolerance: (N,), risk tolerance; NaN where it is not known.
        campaign: whose segments are delivered.
        model_version: of the values.
        methods: names in ``allocation.demands.METHODS``; the exact one is always run.
        conversion: (J,), historical conversion of the segments, by which manual priority orders them.

    Raises:
        InvalidInput: the campaign delivers nothing, or arrays do not agree.
        NotCertified: no plan exists, its gap exceeds the campaign's limit, or the audit finds a fault.
    """
    segments = segments_of(campaign)
    risk, demand = risk_levels(segments), demands(segments)
    shape = (len(segments), account_id.size)
    alike = value.shape == shape and tolerance.shape == account_id.shape
    require(alike, "value", f"must have shape {shape}, got {value.shape}")
    allowed = may_enter(segments, tolerance)
    plans: dict[str, tuple[Plan, float]] = {}
    for name in dict.fromkeys(("exact", *methods)):
        more = {"conversion": conversion} if name == "priority" and conversion is not None else {}
        started = time.perf_counter()
        plan = METHODS[name](value, demand, allowed, **more)
        plans[name] = plan, time.perf_counter() - started
    plan = plans["exact"][0]
    if plan.shortage is not None:
        raise NotCertified(plan.shortage.named([segment.name for segment in segments]))
    if plan.status != "optimal" or not plan.gap <= campaign.gap_limit:
        raise NotCertified(f"the plan is {plan.status} with a gap of {plan.gap:g}, over {campaign.gap_limit:g}")
    counted = audit(account_id, plan.segment, demand, tolerance=tolerance, risk_level=risk)
    if not counted.sound:
        raise NotCertified(f"the audit refuses the plan: {counted}")
    compared = [
        Compared(
            method=name,
            status=other.status,
            objective=other.objective,
            of_exact=other.objective / plan.objective if plan.objective else np.nan,
            seconds=seconds,
            ineligible=other.ineligible,
            misplaced=int(np.abs(demand - other.sizes).sum()),
        )
        for name, (other, seconds) in plans.items()
    ]
    return DeliveryPlan(account_id, value, plan, counted, segments, compared, model_version)


def deliver(
    bundle: Path, tables: Tables, campaign: Campaign, out: Path, *, version: int, placed: pd.DataFrame | None = None
) -> tuple[DeliveryPlan, PriceRecord]:
    """Plan the delivery that a bundle's values ask for, and write plan.parquet, plan.csv and plan.json to ``out``.

    The values are those that the service will read, so that its decisions repeat the plan; the tolerances are those of
    the tables. Nothing is written where there is no certified plan. ``placed`` are the decisions so far, account_id and
    level: the accounts that have a place are left out, and the plan fills the remaining places.

    Returns:
        The plan, and the sealed price record of its segments, of the given version.

    Raises:
        InvalidInput: the bundle is not one of a delivery.
        Conflict: every account has a place.
        NotCertified: see :func:`plan_delivery`.
    """
    account_id, predicted, _ = read_values(bundle)
    value = campaign.terms(SIDE).value(predicted).astype(np.float32)
    meta = read_meta(bundle)
    rest = campaign
    if placed is not None:
        rest, account_id, value = _remainder(campaign, account_id, value, placed)
    plan = plan_delivery(
        account_id,
        value,
        tolerances(tables).reindex(account_id).to_numpy(),
        rest,
        model_version=str(meta["model_version"]),
        conversion=_conversion(tables, len(segments_of(rest))),
    )
    out.mkdir(parents=True, exist_ok=True)
    rows = pa.Table.from_pandas(plan.table(), ROWS, preserve_index=False).replace_schema_metadata()
    for name in (PLAN, LIST):
        with list_file(out / name, ROWS) as write_rows:
            write_rows(rows)
    write_whole(out / REPORT, json.dumps(plan.report(), indent=1))
    return plan, plan.price(campaign, version, datetime.now(UTC))


def _remainder(
    campaign: Campaign, account_id: NDArray[np.str_], value: NDArray[np.float32], placed: pd.DataFrame
) -> tuple[Campaign, NDArray[np.str_], NDArray[np.float32]]:
    """The campaign with the places that are left, and the accounts without one with their values."""
    terms = campaign.sides[SIDE]
    spending = [level for level, segment in enumerate(segments_of(campaign)) if not segment.gives_nothing]
    seated = placed[placed["level"].isin(spending)]
    waiting = ~np.isin(account_id, seated["account_id"].to_numpy(dtype=str))
    if not waiting.any():
        raise Conflict("every account of the plan has a place; there is nothing left to solve")
    taken = np.bincount(seated["level"].to_numpy(dtype=np.int64), minlength=len(terms.segments))
    left = places_left(terms.segments, taken, int(waiting.sum()))
    values = np.zeros((len(left), int(waiting.sum())), dtype=np.float32)
    values[: len(spending)] = value[spending][:, waiting]
    sides = {SIDE: replace(terms, levels=tuple(range(len(left))), segments=left)}
    return replace(campaign, sides=sides), account_id[waiting], values


def read_values(bundle: Path) -> tuple[NDArray[np.str_], NDArray[np.float32], NDArray[np.float64]]:
    """Accounts (N,), value of each segment for them (J, N), and their tolerances (N,), as a bundle stores them.

    Raises:
        InvalidInput: the bundle is not one of a delivery.
    """
    head = load_heads(bundle).get(SIDE)
    if not isinstance(head, DeliveryHead):
        raise InvalidInput("is not the bundle of a delivery; train with the delivery pipeline", field=str(bundle))
    table = pq.read_table(bundle / EMBEDDINGS, columns=["account_id", "embedding"])
    account_id = table["account_id"].to_numpy().astype(str)
    stored = table["embedding"].combine_chunks().flatten().to_numpy().reshape(account_id.size, -1)
    tolerance = stored[:, head.levels.size].astype(np.float64)
    return account_id, head.response(stored), np.where(tolerance > NO_TOLERANCE, tolerance, np.nan)


def segments_of(campaign: Campaign) -> tuple[Segment, ...]:
    """The segments of a delivery.

    Raises:
        InvalidInput: the campaign delivers nothing.
    """
    delivers = SIDE in campaign.sides and campaign.sides[SIDE].segments
    require(delivers, "offer", "the campaign has no funds to deliver; give offers of kind fund with a demand")
    return campaign.sides[SIDE].segments


def _conversion(tables: Tables, segments: int) -> NDArray[np.float64]:
    """(J,): share of mature deliveries of each segment that converted, 0 where there was none."""
    number = tables.offer.set_index("offer_id")["order_index"]
    rows = tables.exposure.merge(tables.outcome[tables.outcome["mature"]], on="request_id")
    level = rows["offer_id"].map(number).to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.isfinite(level) & rows["redeemed"].notna().to_numpy()
    index = level[known].astype(np.int64)
    bought = np.bincount(index, rows["redeemed"][known].to_numpy(dtype=np.float64), segments)
    return np.asarray(bought / np.maximum(np.bincount(index, minlength=segments), 1))


def metrics_of(plan: DeliveryPlan) -> Mapping[str, float]:
    """Figures of a plan by name, for a table of runs."""
    figures = {"accounts": float(plan.account_id.size), "objective": plan.plan.objective, "gap": plan.plan.gap}
    figures["ineligible"] = float(plan.audit.ineligible.size)
    for method in plan.compared:
        figures[f"{method.method}_seconds"] = method.seconds
        if np.isfinite(method.of_exact):
            figures[f"{method.method}_of_exact"] = method.of_exact
    return figures
