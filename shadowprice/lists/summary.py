"""Summary of a list: who gets what, what it costs, and who gets nothing and why."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.decision import NOTHING
from shadowprice.price import PriceRecord

SUMS = ("accounts", "response", "value", "expected_cost", "held")
GROUPS = ("side", "level", "arm", "reason", "authorized")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Origin of a list.

    name      of the list
    record    price, with the money that the solve plans to use at the end of its plan
    by_hold   whether the budget counts the most that incentives can cost
    repeated  rows of accounts that an earlier row of the file has; they are decided once
    unknown   accounts that the model has no embedding of
    asked     minor units that the list was allowed to use; -1: all that is left
    judged    held-out rows that the expected cost is corrected by
    ratio     interval of the minor units paid per minor unit that the curves expect
    """

    name: str
    record: PriceRecord
    by_hold: bool
    repeated: int
    unknown: int
    asked: int = -1
    judged: int = 0
    ratio: tuple[float, float] = (1.0, 1.0)


@dataclass
class Summary:
    """Sums of the rows of a list by side, level, arm, reason and authorization."""

    campaign: Campaign
    origin: Origin
    parts: list[pd.DataFrame] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Add rows of a list."""
        frame = rows.select([*GROUPS, *(name for name in SUMS if name in rows.schema.names)]).to_pandas()
        reserved = {side: np.array([*terms.reserved, 0]) for side, terms in self.campaign.sides.items()}
        held = np.zeros(len(frame), dtype=np.int64)
        for side, amounts in reserved.items():
            own = (frame["side"] == side).to_numpy()
            held[own] = amounts[frame["level"].to_numpy()[own]]
        frame = frame.assign(accounts=1, held=held)
        self.parts.append(frame.groupby(list(GROUPS), as_index=False)[list(SUMS)].sum())

    @property
    def sums(self) -> pd.DataFrame:
        """One row for each combination."""
        return pd.concat(self.parts).groupby(list(GROUPS), as_index=False)[list(SUMS)].sum()

    @property
    def money(self) -> float:
        """Minor units that the list uses of the budget, as the solve counts them."""
        return float(self.sums["held" if self.origin.by_hold else "expected_cost"].sum())

    @property
    def expected(self) -> tuple[float, float]:
        """Interval of the expected cost, minor units, by held-out rows."""
        low, high = (end / self.origin.record.spend_ratio for end in self.origin.ratio)
        expected = float(self.sums["expected_cost"].sum())
        return low * expected, high * expected

    def figures(self) -> dict[str, float]:
        """Name → number."""
        sums, record = self.sums, self.origin.record
        nothing = sums[sums["level"] == NOTHING].groupby("reason")["accounts"].sum()
        totals = {name: float(sums[name].sum()) for name in SUMS}
        shown = {"gap": record.gap, "violation": record.violation, "tie_share": record.tie_share}
        return (
            totals
            | {"authorized": float(sums.loc[sums["authorized"], "accounts"].sum())}
            | {"expected_cost_low": self.expected[0], "expected_cost_high": self.expected[1]}
            | {"spend_ratio": record.spend_ratio, "judged_rows": float(self.origin.judged)}
            | {"left": float(record.remaining), "planned": record.plan[-1], "used": self.money}
            | {f"price_{name}": price for name, price in record.prices.items()}
            | shown
            | {"repeated_rows": float(self.origin.repeated), "unknown_accounts": float(self.origin.unknown)}
            | {f"nothing_{reason}": float(count) for reason, count in nothing.items()}
        )

    def markdown(self) -> str:
        """Page of the list."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        campaign, record, sums = self.campaign, self.origin.record, self.sums
        money = Currency.of(campaign.currency).write
        authorized = int(sums.loc[sums["authorized"], "accounts"].sum())
        yield f"# List {self.origin.name} of campaign {campaign.name}"
        yield ""
        if authorized:
            yield f"{int(sums['accounts'].sum()):,} accounts, {authorized:,} of them authorized in the ledger."
        else:
            yield f"{int(sums['accounts'].sum()):,} accounts. **This is a plan: nothing is authorized.**"
        yield ""
        at = f"{record.solved_at:%Y-%m-%d %H:%M} UTC"
        yield f"Solved {at} by model {record.model_version}, price version {record.version}."
        yield ""
        counted = "the most that the incentives can cost" if self.origin.by_hold else "expected cost"
        yield (
            f"Budget {campaign.budget.name}: {money(record.remaining)} in hand, {money(record.plan[-1])} planned, "
            f"{money(self.money)} used ({counted}). Expected cost {money(float(sums['expected_cost'].sum()))}, at most "
            f"{money(float(sums['held'].sum()))}."
        )
        if self.origin.judged:
            low, high = map(money, self.expected)
            yield (
                f"{self.origin.judged:,} rows that the model has not learned from correct the cost that its curves "
                f"expect by a factor of {record.spend_ratio:.3f}: it lies between {low} and {high} (95 % interval)."
            )
        else:
            yield "No row that the model has not learned from checks the expected cost: the real cost may be higher."
        if 0 <= record.remaining < self.origin.asked:
            yield f"The list was allowed {money(self.origin.asked)}, which is more than the campaign has in hand."
        prices = ", ".join(f"{name} {price:.6g}" for name, price in record.prices.items())
        yield f"Prices: {prices}; gap {record.gap:.1e}, violation {record.violation:.1e}."
        yield ""
        yield "| side | offer | accounts | expected responses | expected value | expected cost |"
        yield "|---|---|---|---|---|---|"
        for own in sums.groupby(["side", "level"], as_index=False)[list(SUMS)].sum().to_dict("records"):
            side, level = own["side"], own["level"]
            offer = "nothing" if level == NOTHING else campaign.terms(side).names(Currency.of(campaign.currency))[level]
            figures = f"{own['response']:,.1f} | {own['value'] * campaign.told_in:,.2f} | {money(own['expected_cost'])}"
            yield f"| {side} | {offer} | {int(own['accounts']):,} | {figures} |"
        for by in ("arm", "reason"):
            yield ""
            yield f"| {by} | accounts |"
            yield "|---|---|"
            for name, count in sums.groupby(by)["accounts"].sum().items():
                yield f"| {name} | {int(count):,} |"
        for count, text in (
            (self.origin.repeated, "rows repeat an account of an earlier row, which is decided once"),
            (self.origin.unknown, "accounts are new to the model; they are decided as the service decides them"),
        ):
            if count:
                yield ""
                yield f"{count:,} {text}."
