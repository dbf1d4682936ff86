"""Campaigns that have money together: budgets, returns, a proposal, moves, and the lift of all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from operations.common.workspace import PRICES, campaign_files, read_campaign
from serving.console.state import TotalsSource
from serving.ledger.moves import MoveRow
from shadowprice.arms import WHOLE
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.documents import read_json
from shadowprice.errors import ShadowpriceError, Unavailable
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.price_store import PriceStore
from shadowprice.reports.headline import Tile
from shadowprice.reports.wording import number, percent, signed

PROPOSAL = "portfolio.json"
"""File in the folder of the workspaces that ``shadowprice portfolio --json`` prints."""
LIFT = "portfolio-lift.json"
"""File there that ``shadowprice portfolio lift --json`` prints."""
MOST_CAMPAIGNS = 100
MOST_MOVES = 30
FRESH_SECONDS = 5.0
"""Age of what was read up to which it is shown again: a page asks the ledger about every campaign."""
ENDS = {"sent": "under way", "taken": "done", "returned": "refused, the money is back", "refused": "refused"}


class MovesSource(TotalsSource, Protocol):
    """Ledger of one campaign, such as :class:`~serving.client.client.LedgerClient`."""

    def moves(self) -> Sequence[MoveRow]:
        """Return the newest halves of moves that it keeps."""


class Ledgers(Protocol):
    """Ledger of several campaigns, such as :class:`~serving.client.client.LedgerClient`."""

    def of(self, campaign: str) -> MovesSource:
        """Return the ledger of one of them."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One campaign; amounts in minor units.

    budget      with the money that moves brought
    paid        not taken back; None where the ledger does not tell
    returned    value of one more major unit, in major units or responses; without limits where there is no proposal
    proposed    budget of the proposal; None without one
    differs     the common return lies outside the interval
    floor, cap  None where nothing bounds the budget
    """

    campaign: Campaign
    currency: Currency
    budget: int
    paid: int | None
    returned: Estimate | None
    proposed: int | None
    differs: bool
    floor: int | None
    cap: int | None


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Move of money between two campaigns."""

    at: datetime
    amount: str
    source: str
    target: str
    reason: str
    end: str
    undoes: bool


@dataclass(frozen=True, kw_only=True)
class PortfolioState:
    """Portfolio at one moment.

    lines     the campaigns, the one whose last unit of money returns most first
    common    return of one more major unit at the proposal; None without one
    proposed_at, lift_at  when the files were written
    gained    value that the proposal brings more
    moves     the newest first
    lift      content of the file of the lift; None where there is none
    degraded  what is wrong, in words
    """

    now: datetime
    lines: tuple[Line, ...]
    common: float | None
    proposed_at: datetime | None
    gained: float | None
    moves: tuple[Moved, ...]
    lift: Mapping[str, Any] | None
    lift_at: datetime | None
    degraded: tuple[str, ...]

    @property
    def currency(self) -> Currency | None:
        """Currency of all campaigns; None where they differ."""
        known = {line.currency for line in self.lines}
        return known.pop() if len(known) == 1 else None

    @property
    def most(self) -> float:
        """Largest return of an interval, the end of the scale of the pictures."""
        ends = [line.returned.high for line in self.lines if line.returned is not None]
        return max([*ends, self.common or 0.0, 1e-12])


class PortfolioReader:
    """Reads the workspaces of a folder, and the ledger that keeps their campaigns. Safe to share between threads.

    ``names``, separated by commas, are the campaigns that are shown; empty: all.
    """

    def __init__(self, folder: Path, ledger: Ledgers, names: str = "") -> None:
        self._folder, self._ledger, self._names = folder, ledger, names
        self._lock = Lock()
        self._read: tuple[float, PortfolioState] | None = None

    def read(self) -> PortfolioState:
        """Return the state, at most :data:`FRESH_SECONDS` old; what fails is named in ``degraded``.

        Raises:
            InvalidInput: the folder has no workspace.
        """
        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] > FRESH_SECONDS:
                state = self._state()
                self._read = time.monotonic(), state
            return self._read[1]

    def _state(self) -> PortfolioState:
        degraded: list[str] = []
        proposal, proposed_at = _document(self._folder / PROPOSAL, ("price", "gained", "campaigns"), degraded)
        lift, lift_at = _document(self._folder / LIFT, ("lift", "by", "forgone", "saved"), degraded)
        files = campaign_files(Path(), self._folder, self._names)
        if len(files) > MOST_CAMPAIGNS:
            degraded.append(f"{len(files)} campaigns are in the folder; the first {MOST_CAMPAIGNS} are shown.")
        campaigns = [(file.parent, read_campaign(file)) for file in files[:MOST_CAMPAIGNS]]
        totals, moves = self._of_ledger([campaign for _, campaign in campaigns], degraded)
        known: Mapping[str, Any] = {} if proposal is None else proposal["campaigns"]
        lines = [
            _line(campaign, totals.get(campaign.name), known.get(campaign.name), folder / PRICES)
            for folder, campaign in campaigns
        ]
        lines.sort(key=lambda line: -line.returned.value if line.returned else 1.0)
        unit = next((_unit(line.campaign) for line in lines if line.campaign.name in known), 1.0)
        state = PortfolioState(
            now=datetime.now(UTC),
            lines=tuple(lines),
            common=None if proposal is None else unit * proposal["price"],
            proposed_at=proposed_at,
            gained=None if proposal is None else campaigns[0][1].told_in * proposal["gained"],
            moves=tuple(moves),
            lift=lift,
            lift_at=lift_at,
            degraded=(),
        )
        first, *others = state.lines
        degraded += [
            f"The holdout is not the same in {line.campaign.name} as in {first.campaign.name}: "
            "a campaign treats accounts that others hold out."
            for line in others
            if line.campaign.holdout != first.campaign.holdout
        ]
        if state.currency is None:
            degraded.append("The campaigns are in different currencies; their money cannot be added up.")
        return replace(state, degraded=tuple(degraded))

    def _of_ledger(
        self, campaigns: list[Campaign], degraded: list[str]
    ) -> tuple[dict[str, Mapping[str, Any]], list[Moved]]:
        """Return the totals of each campaign, and the newest moves; both are empty of a ledger that does not answer."""
        totals: dict[str, Mapping[str, Any]] = {}
        rows: list[tuple[MoveRow, Currency]] = []
        for campaign in campaigns:
            ledger = self._ledger.of(campaign.name)
            try:
                own = totals[campaign.name] = ledger.totals()
                # A giver and a receiver each keep their half; the giver's is shown.
                given = ledger.moves() if campaign.portfolio is not None or own["moved"] else ()
                rows += [(row, Currency.of(campaign.currency)) for row in given if row.half == "give"]
            except Unavailable as error:
                degraded.append(f"The ledger cannot be read: {error}.")
                break
            except ShadowpriceError as error:
                degraded.append(f"{campaign.name}: the ledger refused, {error}.")
        rows.sort(key=lambda row: row[0].recorded_at, reverse=True)
        return totals, [_moved(row, currency) for row, currency in rows[:MOST_MOVES]]


def _line(campaign: Campaign, totals: Mapping[str, Any] | None, own: Mapping[str, Any] | None, prices: Path) -> Line:
    """Return a campaign's line; its return is that of the proposal, or else of its newest price."""
    terms, budget = campaign.portfolio, campaign.budget
    returned, unit = None, _unit(campaign)
    if own is not None:
        returned = Estimate(*own["price"]).times(unit)
    elif (newest := PriceStore(prices).latest(campaign.name, verified_only=True)) and budget.name in newest.prices:
        price = unit * newest.prices[budget.name]
        returned = Estimate(price, price, price)
    floor, cap = (None, None) if own is None else (own.get("floor"), own.get("cap"))
    return Line(
        campaign=campaign,
        currency=Currency.of(campaign.currency),
        budget=int(budget.limit) + int(0 if totals is None else totals["moved"]),
        paid=None if totals is None else int(totals["net_spent"]),
        returned=returned,
        proposed=None if own is None else int(own["proposed"]),
        differs=own is not None and bool(own["beyond_noise"]),
        floor=floor if terms is None else terms.floor,
        cap=cap if terms is None else terms.cap,
    )


def _unit(campaign: Campaign) -> float:
    """Factor from a price to the return of one major unit that a person reads."""
    return Currency.of(campaign.currency).unit * campaign.told_in


def _moved(row: MoveRow, currency: Currency) -> Moved:
    move = row.move
    return Moved(
        at=datetime.fromtimestamp(row.recorded_at / 1e6, UTC),
        amount=currency.write(move.amount),
        source=move.source,
        target=move.target,
        reason=move.reason,
        end=ENDS.get(row.state, row.state),
        undoes=bool(move.undoes),
    )


def _document(path: Path, names: tuple[str, ...], degraded: list[str]) -> tuple[Any, datetime | None]:
    """Return a file that a command printed and when, None where there is none."""
    if not path.exists():
        return None, None
    try:
        content = read_json(path)
        return {name: content[name] for name in names}, datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, ValueError, KeyError, TypeError) as error:
        degraded.append(f"{path.name} cannot be read ({error!r}); print it again.")
        return None, None


def facts_of(state: PortfolioState) -> list[Tile]:
    """Return the sums of the campaigns as tiles; without those of money where currencies differ."""
    currency, tiles = state.currency, []
    if currency is not None:
        budget = sum(line.budget for line in state.lines)
        known = [line for line in state.lines if line.paid is not None]
        paid, of = sum(line.paid or 0 for line in known), sum(line.budget for line in known)
        tiles.append(Tile("Budget of all", currency.write(budget), f"{len(state.lines)} campaigns"))
        if known:
            aside = f"of {currency.write(of)} in {len(known)} campaigns"
            tiles.append(Tile("Paid", currency.write(paid), aside, paid / of if of else None))
        if state.common is not None and state.gained is not None:
            moved = sum(max((line.proposed or line.budget) - line.budget, 0) for line in state.lines)
            aside = f"for the last {currency.one}, in every campaign without a bound"
            tiles.append(Tile("Return at the proposal", number(state.common, 3), aside))
            aside = f"of value, by moving {currency.write(moved)}"
            tiles.append(Tile("The proposal gains", signed(state.gained), aside))
    holdout = state.lines[0].campaign.holdout
    if holdout is not None:
        tiles.append(Tile("Held out of all campaigns", percent(holdout.share / WHOLE), "of the accounts"))
    return tiles


def together_of(state: PortfolioState) -> list[Tile]:
    """Return the lift of all campaigns and the cost of the holdout as tiles."""
    if state.lift is None:
        return []
    currency, factor = state.currency or Currency(), state.lines[0].campaign.told_in
    value, cost = state.lift["lift"]["value"], state.lift["lift"]["cost"]
    forgone = dict(zip(("value", "low", "high"), state.lift["forgone"], strict=True))
    return [
        Tile("The campaigns add", number(factor * value["value"], 3), _between(value, factor, "per account")),
        Tile("They cost", currency.write(cost["value"]), "more per account"),
        Tile("The holdout forgoes", number(factor * forgone["value"], 3), _between(forgone, factor, "of value")),
        Tile("The holdout saves", currency.write(state.lift["saved"][0]), "that its accounts were not paid"),
    ]


def _between(found: Mapping[str, Any], factor: float, of: str) -> str:
    ends = [found["low"], found["high"]]
    return of if None in ends else f"[{', '.join(number(factor * end, 3) for end in ends)}] {of}"
