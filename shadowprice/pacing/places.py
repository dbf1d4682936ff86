"""Plan of the places of a delivery: exact sizes, prices, an audit, and a comparison of methods (S2)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.allocation.exact_sizes import METHODS, Audit, Plan, audit, solve_demands
from shadowprice.campaign import ONE_PLACE, Campaign, Segment, Side, demands, place_limits, places_left, places_of
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import Conflict, NotCertified
from shadowprice.files import whole_file, write_whole
from shadowprice.groups import hashes
from shadowprice.pacing.spend import CapUse
from shadowprice.price import PriceRecord

if TYPE_CHECKING:
    # A re-solve has no tables.
    from shadowprice.tables import Tables

PLAN, LIST = "plan.parquet", "plan.csv"
REPORT = "plan.json"
COMPARED = ("heuristic", "literal_heuristic", "priority")
"""Methods beside the exact one on the page of a plan."""


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
        names = np.array([segment.name for segment in self.segments], dtype=object)[self.plan.segment]
        return pd.DataFrame({"account_id": self.account_id, "segment": names, "value": self.worth})

    @property
    def worth(self) -> NDArray[np.float64]:
        """float64 (N,): predicted value of each account in its segment, minor units."""
        chosen = self.plan.segment
        return np.asarray(self.value[chosen, np.arange(chosen.size)], dtype=np.float64)

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
        places = places_of(self.segments, self.prices, currency)
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

    def price(self, campaign: Campaign, **moment: Any) -> PriceRecord:
        """Sealed price of every segment's quota, per account; good until the campaign ends and for its time to live.

        ``moment`` are the fields of the record that no plan decides.
        """
        now: datetime = moment["solved_at"]
        return PriceRecord(
            campaign=campaign.name,
            prices={name: price for name, price in self.prices.items() if name in campaign.priced},
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
            window=campaign.starts_at,
            expires_at=max(campaign.ends_at, now + timedelta(hours=campaign.price_ttl_hours)),
            **moment,
        ).sealed()

    def beside(self, names: Sequence[str], conversion: NDArray[np.float64] | None = None) -> DeliveryPlan:
        """Return the plan with other methods on the same values, of ``allocation.exact_sizes.METHODS``.

        ``conversion``, (J,), is the historical conversion of the segments, by which manual priority orders them; None:
        it orders them by their mean value.
        """
        compared = list(self.compared)
        for name in names:
            more = {"conversion": conversion} if name == "priority" else {}
            started = time.perf_counter()
            other = METHODS[name](self.value, demands(self.segments), self.plan.allowed, **more)
            compared.append(self.measured(name, other, time.perf_counter() - started))
        return replace(self, compared=compared)

    def measured(self, name: str, other: Plan, seconds: float) -> Compared:
        """Return a method's plan as a row of the comparison."""
        return Compared(
            method=name,
            status=other.status,
            objective=other.objective,
            of_exact=other.objective / self.plan.objective if self.plan.objective else np.nan,
            seconds=seconds,
            ineligible=other.ineligible,
            misplaced=int(np.abs(demands(self.segments) - other.sizes).sum()),
        )

    def save(self, folder: Path) -> None:
        """Write plan.parquet, plan.csv and plan.json, each whole."""
        table = self.table()
        with whole_file(folder / PLAN) as draft:
            table.to_parquet(draft, index=False)
        with whole_file(folder / LIST) as draft:
            table.to_csv(draft, index=False)
        write_whole(folder / REPORT, json.dumps(self.report(), indent=1))

    @property
    def figures(self) -> Mapping[str, float]:
        """Figures by name, for a table of runs."""
        figures = {"accounts": float(self.account_id.size), "objective": self.plan.objective, "gap": self.plan.gap}
        figures["ineligible"] = float(self.audit.ineligible.size)
        for method in self.compared:
            figures[f"{method.method}_seconds"] = method.seconds
            if np.isfinite(method.of_exact):
                figures[f"{method.method}_of_exact"] = method.of_exact
        return figures

    @property
    def prices(self) -> dict[str, float]:
        """Name of each segment → price of one of its places, minor units."""
        return dict(zip([segment.name for segment in self.segments], self.plan.prices.tolist(), strict=True))


def plan_delivery(
    account_id: NDArray[np.str_],
    value: NDArray[np.float32],
    allowed: NDArray[np.bool_],
    campaign: Campaign,
    *,
    model_version: str,
) -> DeliveryPlan:
    """Give every account a segment, certify it, and count it again.

    Args:
        account_id: N accounts.
        value: float32 (J, N), value of each segment for each account.
        allowed: bool (J, N), segments that each account may enter.
        campaign: whose segments are delivered.
        model_version: of the values.

    Raises:
        InvalidInput: arrays do not agree.
        NotCertified: no plan exists, its gap exceeds the campaign's limit, or the audit finds a fault.
    """
    segments = campaign.segments
    shape = (len(segments), account_id.size)
    alike = value.shape == shape and allowed.shape == shape
    require(alike, "value", f"must have shape {shape}, got {value.shape}")
    started = time.perf_counter()
    plan = solve_demands(value, demands(segments), allowed)
    seconds = time.perf_counter() - started
    if plan.shortage is not None:
        raise NotCertified(plan.shortage.named([segment.name for segment in segments]))
    if plan.status != "optimal" or not plan.gap <= campaign.gap_limit:
        raise NotCertified(f"the plan is {plan.status} with a gap of {plan.gap:g}, over {campaign.gap_limit:g}")
    counted = audit(account_id, plan.segment, demands(segments), allowed=allowed)
    if not counted.sound:
        raise NotCertified(f"the audit refuses the plan: {counted}")
    planned = DeliveryPlan(account_id, value, plan, counted, segments, (), model_version)
    return replace(planned, compared=(planned.measured("exact", plan, seconds),))


def plan_places(
    campaign: Campaign, account_id: NDArray[np.str_], curves: Curves, use: Mapping[str, CapUse], model_version: str
) -> DeliveryPlan:
    """Plan the remaining places of a delivery for the accounts without one.

    Where no account has a place yet, this is the plan of the whole delivery.

    Args:
        campaign: whose segments are delivered.
        account_id: N accounts.
        curves: their response (J, N), the predicted value of each segment, with the segments that each may enter.
        use: of each limit of places, by its name.
        model_version: of the curves.

    Raises:
        Conflict: every account has a place.
        NotCertified: see :func:`plan_delivery`.
    """
    segments = campaign.segments
    terms = campaign.terms(side_of(campaign))
    value = terms.value(curves.response).astype(np.float32)
    missing = [limit.name for limit in place_limits(campaign) if limit.name not in use]
    require(not missing, "spend.caps", f"has no use of {', '.join(missing)}; measure again")
    placed = use[ONE_PLACE].at(hashes(account_id.tolist()))[1] > 0
    if placed.all():
        raise Conflict("every account of the plan has a place; there is nothing left to solve")
    taken = np.array([use[entry.name].uses.sum() if entry.name in use else 0 for entry in segments])
    left = places_left(segments, taken, int((~placed).sum()))
    giving = sum(not entry.gives_nothing for entry in segments)
    values, allowed = np.zeros((len(left), placed.size), dtype=np.float32), np.ones((len(left), placed.size), np.bool_)
    values[:giving] = value[:giving]
    if curves.allowed is not None:
        allowed[:giving] = curves.allowed[:giving]
    rest = replace(campaign, sides={side_of(campaign): replace(terms, levels=tuple(range(len(left))), segments=left)})
    waiting = ~placed
    return plan_delivery(
        account_id[waiting], values[:, waiting], allowed[:, waiting], rest, model_version=model_version
    )


def side_of(campaign: Campaign) -> Side:
    """Return the side whose accounts a delivery places."""
    (side,) = campaign.sides
    return side


def conversions(tables: Tables, segments: int) -> NDArray[np.float64]:
    """(J,): share of mature deliveries of each segment that converted, 0 where there was none."""
    number = tables.offer.set_index("offer_id")["order_index"]
    rows = tables.exposure.merge(tables.outcome[tables.outcome["mature"]], on="request_id")
    level = rows["offer_id"].map(number).to_numpy(dtype=np.float64, na_value=np.nan)
    known = np.isfinite(level) & rows["redeemed"].notna().to_numpy()
    index = level[known].astype(np.int64)
    bought = np.bincount(index, rows["redeemed"][known].to_numpy(dtype=np.float64), segments)
    return np.asarray(bought / np.maximum(np.bincount(index, minlength=segments), 1))
