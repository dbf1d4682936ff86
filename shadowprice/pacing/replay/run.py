"""Replaying a campaign day, slot by slot, in accelerated time."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.decision import NOTHING, uniform
from shadowprice.errors import Conflict, InvalidInput, NotCertified, PriceRejected, Unavailable
from shadowprice.pacing.replay.allowance import within_budget
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.outcomes import Columns, OutcomeModel, Outcomes
from shadowprice.pacing.resolve import Resolution
from shadowprice.progress import ProgressBar


@dataclass(frozen=True)
class Answers(Columns):
    """Decisions on a batch of n requests.

    level   int32 (n,), index into the levels of the request's side, or ``NOTHING``
    reason  str (n,), as in the inference contract
    propensity  float64 (n,), probability of that answer, given the arm and the remaining budget
    arm    str (n,), arm of the request's account
    """

    level: NDArray[np.int32]
    reason: NDArray[np.str_]
    propensity: NDArray[np.float64]
    arm: NDArray[np.str_]


DecideBatch = Callable[[Day], Answers]
"""Answers a batch; in production over HTTP, in a simulation in process."""
Settle = Callable[[Outcomes], None]
"""Takes the outcomes of a batch, so that the spend is known to the next solve."""
Reprice = Callable[[float, Mapping[Side, NDArray[np.int64]]], Resolution | None]
"""Given hours since the window opened and the requests (⌈at⌉,) of each side in the slots before, the one in
progress included, publishes a price and returns it; None keeps the price."""


@dataclass(frozen=True)
class System:
    """Parts of the system that a replay calls, in process or over HTTP."""

    decide_batch: DecideBatch
    settle: Settle
    reprice: Reprice


@dataclass(frozen=True)
class Replay:
    """A replayed day.

    outcomes  of every request, in order of arrival
    within    the same as a hard stop at the budget would have left them; equal where nothing was overspent
    answers   what each was given, in the same order
    prices    (hours since the window opened, price) of every new price, in order
    slots     one row per slot: requests; spend, planned and expected_spend (minor units); value and
              expected_value (weighted response, as drawn and in the mean); exhausted (requests the
              hard stop cut down); price, tie_share, version, gap, violation of the first active price; updated
              (whether it is of this slot); updates (new prices in the slot); resolve_seconds (of the first
              solve); call_ms_p50, call_ms_p99; note (why there is no new price, else empty)
    """

    outcomes: Outcomes
    within: Outcomes
    answers: Answers
    prices: list[tuple[float, Resolution]]
    slots: pd.DataFrame


def replay(
    day: Day,
    campaign: Campaign,
    outcomes: OutcomeModel,
    system: System,
    *,
    moments: Sequence[float] | None = None,
    delay: float = 0.0,
    batch: int = 128,
    progress: bool = True,
) -> Replay:
    """Run a day: at each moment first the price, then the requests until the next, in order of arrival.

    Args:
        day: the requests.
        campaign: whose they are.
        outcomes: what the answers lead to.
        system: answers the requests and prices the money.
        moments: hours since the window opened at which a price is asked for, ascending, each slot's
            start among them only if wanted; every slot's start when None.
        delay: mean hours, exponential by request, until an outcome is known. Without it every batch is
            settled before the next one; what is still open at the end is settled then.
        batch: most requests at a time.
        progress: whether to show it.

    Where a total budget runs low, batches shrink to what the money left can cover at the dearest level: one large batch
    would hold money that is never paid. A price that cannot be published (``NotCertified``, ``Unavailable``,
    ``Conflict``, ``PriceRejected``) keeps the last one and records it in ``note``; any other error ends the replay.

    Raises:
        InvalidInput: no requests, a batch size below 1, or answers that do not fit their batch.
    """
    if not len(day):
        raise InvalidInput("has no requests", field="day")
    if batch < 1:
        raise InvalidInput("must be at least 1", field="batch")
    asked = [float(slot) for slot in range(day.hours)] if moments is None else list(moments)
    dearest = max(max(terms.unit_costs) for terms in campaign.sides.values())
    has_total = campaign.budget.form == "total"
    left = campaign.budget.limit
    settled: list[Outcomes] = []
    answered: list[Answers] = []
    prices: list[tuple[float, Resolution]] = []
    rows: list[dict[str, object]] = []
    price: Resolution | None = None
    pending = Pending(system.settle, delay, outcomes.seed)
    with ProgressBar(f"replay {campaign.name}", len(day), "request", shown=progress) as shown:
        for slot in range(day.hours):
            inside = [at for at in asked if slot <= at < slot + 1]
            first: tuple[Resolution | None, Resolution | None] | None = None
            notes: list[str] = []
            calls: list[float] = []
            parts: list[Outcomes] = []
            exhausted, updates = 0, 0
            for since, until in pairwise([*([] if slot in inside else [float(slot)]), *inside, slot + 1.0]):
                resolution = None
                if since in inside:
                    pending.settle_until(since)
                    try:
                        resolution = system.reprice(since, day.arrivals_before(since))
                    except (NotCertified, Unavailable, Conflict, PriceRejected) as error:
                        notes.append(f"{type(error).__name__}: {error}")
                if resolution is not None:
                    price = resolution
                    prices.append((since, resolution))
                    updates += 1
                first = first or (price, resolution)
                requests, position = day.between(since, until), 0
                while position < len(requests):
                    size = int(np.clip(left // max(dearest, 1), 1, batch)) if has_total and left > 0 else batch
                    some = requests.take(slice(position, position + size))
                    pending.settle_until(float(some.at[0]))
                    started = time.perf_counter()
                    answers = system.decide_batch(some)
                    calls.append(time.perf_counter() - started)
                    _check(answers, some)
                    drawn = outcomes.draw(some, answers.level)
                    pending.add(drawn)
                    parts.append(drawn)
                    answered.append(answers)
                    exhausted += int(np.count_nonzero(answers.reason == "budget_exhausted"))
                    left -= float(drawn.cost.sum())
                    position += len(some)
                    shown.advance(len(some))
            at_first, own = first or (price, None)
            rows.append(
                {"slot": slot, **_sums(parts), "exhausted": exhausted, **_price(campaign, at_first, own)}
                | {"updates": updates, "resolve_seconds": own.seconds if own else np.nan}
                | {**_latency(calls), "note": "; ".join(notes)}
            )
            settled += parts
        pending.settle_until(np.inf)
    played = Outcomes.concatenate(settled)
    within = within_budget(campaign, played, outcomes)
    return Replay(played, within, Answers.concatenate(answered), prices, pd.DataFrame(rows))


class Pending:
    """Outcomes that are not known yet.

    Args:
        settle: receives an outcome when it is known.
        delay: mean hours until then, exponential by a hash of the request; 0 settles at once.
        seed: of the delays.
    """

    def __init__(self, settle: Settle, delay: float, seed: int) -> None:
        self._settle, self._delay, self._seed = settle, delay, seed
        self._open: Outcomes | None = None
        self._due: NDArray[np.float64] = np.zeros(0)

    def add(self, outcomes: Outcomes) -> None:
        """Take the outcomes of a batch."""
        if self._delay <= 0:
            self._settle(outcomes)
            return
        luck = np.array([uniform(f"{self._seed}/{name}", b"delay") for name in outcomes.request_id.tolist()])
        self._due = np.concatenate([self._due, outcomes.at - self._delay * np.log1p(-luck)])
        self._open = outcomes if self._open is None else Outcomes.concatenate([self._open, outcomes])

    def settle_until(self, at: float) -> None:
        """Settle what is known by ``at`` hours."""
        known = self._due <= at
        if self._open is not None and known.any():
            self._settle(self._open.take(known))
            self._open, self._due = self._open.take(~known), self._due[~known]


def _check(answers: Answers, batch: Day) -> None:
    for name in ("level", "reason", "propensity", "arm"):
        if np.shape(getattr(answers, name)) != (len(batch),):
            raise InvalidInput(f"needs one entry for each of {len(batch)} requests", field=f"answers.{name}")
    if np.any(answers.level < NOTHING):
        raise InvalidInput(f"must be an index or {NOTHING}", field="answers.level")


def _sums(settled: list[Outcomes]) -> dict[str, float]:
    sums = {"requests": 0, "spend": 0, "expected_spend": 0.0, "value": 0.0, "expected_value": 0.0}
    for part in settled:
        sums["requests"] += len(part)
        sums["spend"] += int(part.cost.sum())
        sums["expected_spend"] += float(part.expected_cost.sum())
        sums["value"] += float(part.worth @ part.response)
        sums["expected_value"] += float(part.worth @ part.expected_response)
    return sums


def _price(campaign: Campaign, price: Resolution | None, found: Resolution | None) -> dict[str, object]:
    record = price.record if price else None
    return {
        "planned": found.planned if found else np.nan,
        "price": record.prices[campaign.priced[0]] if record else np.nan,
        "tie_share": record.tie_share if record else np.nan,
        "version": record.version if record else 0,
        "gap": record.gap if record else np.nan,
        "violation": record.violation if record else np.nan,
        "updated": found is not None,
    }


def _latency(calls: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(calls, [50, 99]) * 1e3 if calls else (np.nan, np.nan)
    return {"call_ms_p50": float(p50), "call_ms_p99": float(p99)}
