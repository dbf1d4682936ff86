"""State of a campaign at one moment, read from the ledger and the price store."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Protocol

from shadowprice.campaign import Campaign
from shadowprice.errors import ShadowpriceError
from shadowprice.pacing.outlook import Outlook, outlook
from shadowprice.reports.budgets import BINDS, FurtherBudget, further_budgets
from shadowprice.reports.prices import Change, PriceHistory, changes

HOUR = timedelta(hours=1)


class TotalsSource(Protocol):
    """Source of the ledger's totals, such as :class:`~serving.client.client.LedgerClient`."""

    def totals(self) -> dict[str, Any]:
        """Return the answer of ``GET /v1/totals``."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A campaign at one moment.

    totals    answer of the ledger's ``GET /v1/totals``; None where it does not answer
    history   every price that is kept, of earlier windows too, with the reason of its change, the oldest first
    degraded  what is wrong, in words; empty where all is well
    """

    campaign: Campaign
    now: datetime
    totals: Mapping[str, Any] | None
    history: tuple[Change, ...]
    degraded: tuple[str, ...]

    @property
    def newest(self) -> Change | None:
        """Newest price of the window, None before the first."""
        return self.window[-1] if self.window else None

    @cached_property
    def window(self) -> tuple[Change, ...]:
        """Prices of the campaign's window: those of an earlier one hold what was paid in it."""
        return tuple(change for change in self.history if change.record.window in (None, self.campaign.starts_at))

    @property
    def paid(self) -> int | None:
        """Minor units paid and not taken back: of the ledger, or else as of the newest price."""
        if self.totals is not None:
            return int(self.totals["net_spent"])
        return None if self.newest is None else self.newest.record.spent

    @cached_property
    def budgets(self) -> tuple[FurtherBudget, ...]:
        """Further budgets by the newest price; their use is NaN where the ledger does not answer."""
        if self.newest is None:
            return ()
        used = dict.fromkeys((budget.name for budget in self.campaign.limits.budgets), math.nan)
        if self.totals is not None:
            used = {limit["budget"]: limit["used"] for limit in self.totals.get("limits", ())}
        shown = further_budgets(self.campaign, self.newest.record, used)
        return tuple(replace(budget, price=self.campaign.told_in * budget.price) for budget in shown)

    @property
    def binding(self) -> tuple[str, ...]:
        """Names of the further budgets that bind by the newest price."""
        return tuple(budget.name for budget in self.budgets if budget.status == BINDS)

    @property
    def planned(self) -> float:
        """Minor units that the newest plan expects to be paid by now; NaN without a plan."""
        return float("nan") if self.newest is None else self.newest.record.planned(self.hours)

    @cached_property
    def outlook(self) -> Outlook | None:
        """Spend of the rest of the window at today's price; None before there are enough prices, and afterwards."""
        if not self.window or self.phase == "ended":
            return None
        budget = self.campaign.budget
        limit = float(budget.limit) if budget.form == "total" else math.inf
        return outlook([change.record for change in self.window], limit)

    @property
    def hours(self) -> float:
        """Hours since the window opened, within the window. A window that is over, or replayed, has all its hours."""
        return min(max((self.now - self.campaign.starts_at) / HOUR, 0.0), float(self.campaign.hours))

    @property
    def phase(self) -> str:
        """Return whether the window is to come, open or over."""
        if self.now < self.campaign.starts_at:
            return "not started"
        return "running" if self.now < self.campaign.ends_at else "ended"


def read_state(campaign: Campaign, ledger: TotalsSource, prices: PriceHistory, now: datetime | None = None) -> State:
    """Read the ledger and the price store; what fails is named in ``degraded``, and the rest is still returned."""
    at = now or datetime.now(UTC)
    degraded: list[str] = []
    totals = None
    try:
        totals = ledger.totals()
    except ShadowpriceError as error:
        degraded.append(f"The ledger's totals cannot be read: {error}.")
    history: list[Change] = []
    try:
        history = changes(campaign, prices.records())
        degraded += [f"A price file is passed over: {fault}." for fault in prices.faults()]
    except ShadowpriceError as error:
        degraded.append(f"The price store cannot be read: {error}.")
    moved = 0 if totals is None else int(totals.get("moved", 0))
    state = State(campaign=campaign.moved_by(moved), now=at, totals=totals, history=tuple(history), degraded=())
    newest = state.newest
    if newest is None:
        degraded.append("There is no price of this window; answers have the reason stale_price.")
    else:
        if newest.record.stale(at) and state.phase != "ended":
            degraded.append(
                f"The price expired at {newest.record.expires_at:%Y-%m-%d %H:%M} UTC and no newer one is there."
            )
        if not newest.certificate.startswith("certified"):
            degraded.append(f"The newest price is {newest.certificate}.")
    if totals is not None and totals["money_left"] < 0:
        degraded.append("More was paid than the budget has earned.")
    return replace(state, degraded=tuple(degraded))
