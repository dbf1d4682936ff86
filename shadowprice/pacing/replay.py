"""Replaying a campaign day, slot by slot, in accelerated time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from shadowprice.campaign import Campaign, Side
from shadowprice.errors import Conflict, InvalidInput, NotCertified, PriceRejected, Unavailable
from shadowprice.pacing.day import Day
from shadowprice.pacing.outcomes import NOTHING, OutcomeModel, Outcomes
from shadowprice.pacing.resolve import Resolution


@dataclass(frozen=True)
class Answers:
    """What a batch of n requests was given.

    level   int32 (n,), index into the levels of the request's side, or ``NOTHING``
    reason  str (n,), as in the inference contract
    propensity  float64 (n,), probability with which the policy chooses that level
    """

    level: NDArray[np.int32]
    reason: NDArray[np.str_]
    propensity: NDArray[np.float64]

    @classmethod
    def concatenate(cls, parts: list[Answers]) -> Answers:
        """Answers of several batches in a row."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


DecideBatch = Callable[[Day], Answers]
"""Answers a batch; in production over HTTP, in a simulation in process."""
Settle = Callable[[Outcomes], None]
"""Takes the outcomes of a batch, so that the spend is known to the next solve."""
ResolveSlot = Callable[[int, Mapping[Side, NDArray[np.int64]]], Resolution | None]
"""Given a slot and the requests (slot,) of each side in the slots before, publishes the slot's price
and returns it; None keeps the price."""


@dataclass(frozen=True)
class Replay:
    """A replayed day.

    outcomes  of every request, in order of arrival
    answers   what each was given, in the same order
    slots     one row per slot: requests; spend, planned and expected_spend (minor units); value and
              expected_value (weighted response, as drawn and in the mean); exhausted (requests the
              hard stop cut down); price, tie_share, version, gap, violation of the price in force;
              updated (whether it is of this slot); resolve_seconds (of the solve); call_ms_p50, call_ms_p99; note
              (why there is no new price, else empty)
    """

    outcomes: Outcomes
    answers: Answers
    slots: pd.DataFrame


def replay(
    day: Day,
    campaign: Campaign,
    outcomes: OutcomeModel,
    decide_batch: DecideBatch,
    settle: Settle,
    resolve_slot: ResolveSlot,
    *,
    batch: int = 128,
    progress: bool = True,
) -> Replay:
    """Run a day: in each slot first the price, then its requests in order of arrival.

    Every batch is decided, its outcomes drawn, and settled before the next one. Where a total
    budget runs low, batches shrink to what the money left can cover at the dearest level: in real
    time earlier requests are settled before later ones are authorised, and one large batch would
    reserve money that is never paid.

    A slot whose price cannot be published (``NotCertified``, ``Unavailable``, ``Conflict``,
    ``PriceRejected``) keeps the last one and says so in ``note``; any other error, and Ctrl-C, ends
    the replay at once, and what was settled until then stays settled.

    Raises:
        InvalidInput: no requests, a batch size below 1, or answers that do not fit their batch.
    """
    if not len(day):
        raise InvalidInput("has no requests", field="day")
    if batch < 1:
        raise InvalidInput("must be at least 1", field="batch")
    arrivals = day.counts()
    dearest = max(terms.levels[-1] for terms in campaign.sides.values())
    has_total = campaign.budget.form == "total"
    left = campaign.budget.limit
    parts: list[Outcomes] = []
    given: list[Answers] = []
    rows: list[dict[str, object]] = []
    price: Resolution | None = None
    with tqdm(total=len(day), disable=not progress, unit="request", desc=f"replay {campaign.name}") as bar:
        for slot in range(day.hours):
            found, note = None, ""
            try:
                found = resolve_slot(slot, {side: counts[:slot] for side, counts in arrivals.items()})
            except (NotCertified, Unavailable, Conflict, PriceRejected) as error:
                note = f"{type(error).__name__}: {error}"
            price = found or price
            requests, position = day.slot(slot), 0
            calls: list[float] = []
            settled: list[Outcomes] = []
            exhausted = 0
            while position < len(requests):
                size = int(np.clip(left // max(dearest, 1), 1, batch)) if has_total and left > 0 else batch
                some = requests.take(slice(position, position + size))
                started = time.perf_counter()
                answers = decide_batch(some)
                calls.append(time.perf_counter() - started)
                _check(answers, some)
                drawn = outcomes.draw(some, answers.level)
                settle(drawn)
                settled.append(drawn)
                given.append(answers)
                exhausted += int(np.count_nonzero(answers.reason == "budget_exhausted"))
                left -= float(drawn.cost.sum())
                position += len(some)
                bar.update(len(some))
            rows.append(
                {"slot": slot, **_sums(campaign, settled), "exhausted": exhausted, **_price(price, found)}
                | {"resolve_seconds": found.seconds if found else np.nan, **_latency(calls), "note": note}
            )
            parts += settled
    return Replay(Outcomes.concatenate(parts), Answers.concatenate(given), pd.DataFrame(rows))


def weighted(campaign: Campaign, outcomes: Outcomes, response: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,): the worth of each response, by the weight of its side."""
    weight = np.zeros(len(outcomes))
    for side, terms in campaign.sides.items():
        weight[outcomes.side == side] = terms.weight
    return weight * response


def _check(answers: Answers, batch: Day) -> None:
    for name in ("level", "reason", "propensity"):
        if np.shape(getattr(answers, name)) != (len(batch),):
            raise InvalidInput(f"needs one entry for each of {len(batch)} requests", field=f"answers.{name}")
    if np.any(answers.level < NOTHING):
        raise InvalidInput(f"must be an index or {NOTHING}", field="answers.level")


def _sums(campaign: Campaign, settled: list[Outcomes]) -> dict[str, float]:
    sums = {"requests": 0, "spend": 0, "expected_spend": 0.0, "value": 0.0, "expected_value": 0.0}
    for part in settled:
        sums["requests"] += len(part)
        sums["spend"] += int(part.cost.sum())
        sums["expected_spend"] += float(part.expected_cost.sum())
        sums["value"] += float(weighted(campaign, part, part.response).sum())
        sums["expected_value"] += float(weighted(campaign, part, part.expected_response).sum())
    return sums


def _price(price: Resolution | None, found: Resolution | None) -> dict[str, object]:
    record = price.record if price else None
    return {
        "planned": found.planned if found else np.nan,
        "price": next(iter(record.prices.values())) if record else np.nan,
        "tie_share": record.tie_share if record else np.nan,
        "version": record.version if record else 0,
        "gap": record.gap if record else np.nan,
        "violation": record.violation if record else np.nan,
        "updated": found is not None,
    }


def _latency(calls: list[float]) -> dict[str, float]:
    p50, p99 = np.percentile(calls, [50, 99]) * 1e3 if calls else (np.nan, np.nan)
    return {"call_ms_p50": float(p50), "call_ms_p99": float(p99)}
