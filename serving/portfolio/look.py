"""Look at the campaigns of a portfolio: their limits now, what they may give, and what their last unit returns."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from operations.common.workspace import MODEL, PRICES, watch_alarms
from operations.questions.propose import divide
from operations.questions.question import open_what_if
from serving.ledger.moves import MoveRow
from shadowprice.allocation.portfolio.moves import Band, Standing, bands
from shadowprice.campaign import Campaign, PortfolioTerms
from shadowprice.errors import Conflict, NotFound
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.questions import Change
from shadowprice.pacing.what_if import SAMPLE_ROWS, WhatIf

NOTHING = Band(0.0, 0.0, 0.0)
"""Return of money that buys nothing more: the window is over, or no request is expected."""
Measure = Callable[[Path, Path], None]
"""Workspace of a campaign, and the file that gets its state (:class:`operations.measure.MeasureJob`)."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A campaign of the portfolio in one run; amounts in minor units.

    limit       as moves have left it
    may_give    most that it can give now: unspent, unheld, above its floor, one move at most
    may_take    most that it can receive now
    solver      answers for the rest of its window; None where its money buys nothing more
    """

    campaign: Campaign
    limit: int
    may_give: int
    may_take: int
    solver: WhatIf | None

    @property
    def terms(self) -> PortfolioTerms:
        """Terms of the portfolio."""
        assert self.campaign.portfolio is not None
        return self.campaign.portfolio


def look_at(
    workspace: Path,
    campaign: Campaign,
    totals: Mapping[str, Any],
    rows: list[MoveRow],
    measure: Measure,
    now: datetime,
    sample: int = SAMPLE_ROWS,
) -> Member:
    """Look at one campaign.

    Raises:
        ShadowpriceError: no money of it is moved now, with the reason: its curves are stale, in doubt or not
            identified, a move is under way, or something cannot be read.
    """
    terms = campaign.portfolio
    assert terms is not None
    limit = int(campaign.budget.limit) + int(totals["moved"])
    late = sum(totals["late_by_side"].values())
    free = limit - int(totals["net_spent"]) - int(totals["outstanding"]) - campaign.set_aside(late)
    given = max((row.recorded_at for row in rows if row.half == "give"), default=None)
    waits = given is not None and now.timestamp() - given / 1e6 < terms.hours_between * 3600
    may_give = 0 if waits else max(min(terms.largest_move, free, limit - terms.floor), 0)
    may_take = max(min(terms.largest_move, terms.cap - limit), 0)
    solver = None if now >= campaign.ends_at else _solver(workspace, campaign, measure, now, sample)
    if solver is not None and may_give and solver.ask(Change(budget=float(limit - may_give))).status != "optimal":
        may_give = 0
    return Member(campaign=campaign, limit=limit, may_give=may_give, may_take=may_take, solver=solver)


def _solver(workspace: Path, campaign: Campaign, measure: Measure, now: datetime, sample: int) -> WhatIf | None:
    """Return the solver of a campaign whose curves can be trusted; None where no request is expected any more."""
    meta = read_meta((workspace / MODEL).resolve())
    newest = PriceStore(workspace / PRICES).latest(campaign.name, verified_only=True)
    if newest is None or newest.stale(now):
        raise Conflict("its price is missing or has expired")
    if not dict(meta.get("gate") or {}).get("passed"):
        raise Conflict("its model has not passed the gate: what its money returns is not identified")
    if watch_alarms(workspace, campaign.name, str(meta["model_version"])):
        raise Conflict("the watch alarms on its model")
    with tempfile.TemporaryDirectory(prefix="portfolio-") as scratch:
        state = Path(scratch) / "state.json"
        measure(workspace, state)
        try:
            return open_what_if(workspace, state, sample).solver
        except NotFound:
            return None


def stand(members: Mapping[str, Member]) -> list[Standing]:
    """Divide the money that may move, and return what each campaign gives or needs.

    Raises:
        InvalidInput: the campaigns' money or values cannot be added up.
    """
    ended = {name: member for name, member in members.items() if member.solver is None}
    running = {name: member.solver for name, member in members.items() if member.solver is not None}
    found = [Standing(name=name, price=NOTHING, surplus=member.may_give) for name, member in ended.items()]
    if not running or len(members) < 2:
        return []
    if len(running) == 1:
        # Nothing is to be divided, and what others do not need goes there.
        (name,) = running
        price = running[name].ask().price
        return [
            *found,
            Standing(name=name, price=Band(price.value, price.low, price.high), need=members[name].may_take),
        ]
    own = {name: members[name] for name in running}
    total = sum(member.limit for member in own.values()) + sum(member.may_give for member in ended.values())
    proposed = divide(
        running,
        total,
        {name: member.limit - member.may_give for name, member in own.items()},
        {name: member.limit + member.may_take for name, member in own.items()},
        {name: member.terms.weight for name, member in own.items() if member.terms.weight != 1},
    )
    prices = [proposed.of[name].now.price for name in own]
    errors = [member.terms.curve_error for member in own.values()]
    value, low, high = ([getattr(price, end) for price in prices] for end in ("value", "low", "high"))
    lows, highs = bands(value, low, high, prices[0].level, errors)
    for (name, proposal), least, most in zip(proposed.of.items(), lows.tolist(), highs.tolist(), strict=True):
        band, moved = Band(proposal.now.price.value, least, most), int(proposal.moved)
        found.append(Standing(name=name, price=band, surplus=max(-moved, 0), need=max(moved, 0)))
    return found
