"""Decisions on requests of one side, before the ledger is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from serving.predictor.active import Active
from serving.predictor.context import read_requests
from serving.predictor.features import Embeddings, Features
from serving.protocol import Requests
from shadowprice.arms import Treatment
from shadowprice.campaign import Campaign, Side
from shadowprice.decision import Decision, decide
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Context, Coverage
from shadowprice.responses.layers.heads import allowed_by

Stage = Callable[[str], AbstractContextManager[None]]
"""Gives the block that a stage of the answer is timed in."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """Decisions on n requests of one side that may be given something.

    rows        of these requests among all
    read        embeddings of all requests that were asked about, eligible or not
    embeddings  of the n requests
    treated     arms of the n requests
    response    float32 (J, n), the curves
    value, charges  (J, n) worth, and (K, J, n) what each level takes of each priced budget
    allowed     bool (J, n), or None where every level is
    decision    at the active price
    groups      names of the budgets with a condition that count each request, joined by commas
    unpaid      bool (n,), whether model and rules allow the lowest level, whatever the arm
    """

    rows: list[int]
    read: Embeddings
    embeddings: Embeddings
    treated: Treatment
    response: NDArray[np.float32]
    value: NDArray[np.float64]
    charges: NDArray[np.float64]
    allowed: NDArray[np.bool_] | None
    decision: Decision
    groups: list[str]
    unpaid: NDArray[np.bool_]


async def want(
    campaign: Campaign,
    coverage: Coverage,
    active: Active,
    side: Side,
    rows: Sequence[int],
    requests: Requests,
    treated: Treatment,
    stage: Stage,
) -> Wanted:
    """Read features, compute curves, and decide by the one rule.

    Args:
        campaign: terms and arms.
        coverage: tells which budgets count a request, and what rules allow.
        active: price and model.
        side: of the requests.
        rows: of the requests among ``requests``.
        requests: all requests.
        treated: arms of all requests.
        stage: timer.
    """
    model, price, chosen = active.model, active.price, list(rows)
    asked = _asked(side, requests, chosen)
    with stage("features"):
        read, (coverage, failed) = await asyncio.gather(
            read_requests(model, side, requests, chosen), _complete(coverage, model.features, asked)
        )
        read = replace(read, failed=read.failed or failed)
    embeddings, allowed = read, allowed_by(model.heads[side], read.matrix)
    by_rules = coverage.allowed(*asked)
    if by_rules is not None:
        allowed = by_rules if allowed is None else allowed & by_rules
    if allowed is not None:
        # An account that may be given nothing is left out: no score overrules a condition.
        able = np.flatnonzero(allowed.any(axis=0))
        chosen = [chosen[column] for column in able]
        embeddings, allowed, asked = embeddings.take(able), allowed[:, able], _asked(side, requests, chosen)
    mine = treated.take(chosen)
    with stage("curve"):
        response = model.heads[side].response(embeddings.matrix)
    with stage("decide"):
        bits = coverage.bits(*asked) if coverage.budgets else None
        value, charges = campaign.terms(side).value(response), campaign.charges(side, response, bits)
        possible = mine.allowed(len(response), allowed)
        decision = decide(
            value,
            charges,
            price.of(campaign.priced),
            price.tie_share,
            [requests.request_id[row] for row in chosen],
            possible,
            exploration=mine.exploration,
        )
    groups = [""] * len(chosen) if bits is None else coverage.named(bits)
    unpaid = np.ones(len(chosen), dtype=np.bool_) if allowed is None else allowed[0]
    return Wanted(chosen, read, embeddings, mine, response, value, charges, possible, decision, groups, unpaid)


async def _complete(
    coverage: Coverage, features: Features, asked: tuple[Side, list[str], list[str], Context]
) -> tuple[Coverage, bool]:
    """Return the coverage with the columns of accounts and partners that came after the predictor started.

    The second value says whether the store of such columns did not answer.
    """
    wanted = coverage.lacking(*asked[:3])
    if not wanted:
        return coverage, False
    found = await asyncio.gather(*(features.profiles(*each) for each in wanted))
    newer = {
        of: Attributes.of(names, profiles.columns)
        for (of, names, _), profiles in zip(wanted, found, strict=True)
        if profiles is not None
    }
    return replace(coverage, newer=newer), None in found


def _asked(side: Side, requests: Requests, rows: Sequence[int]) -> tuple[Side, list[str], list[str], Context]:
    """Return what conditions read of requests of one side."""
    return (
        side,
        [requests.account_id[row] for row in rows],
        [requests.partner_id[row] for row in rows],
        {name: [values[row] for row in rows] for name, values in requests.context.items()},
    )


def reasons_of(wanted: Wanted, stale: bool) -> list[str]:
    """Return why each level is wanted: of a holdout that, else stale_price, cold_start, explored, tie or optimal."""
    found = wanted.treated.reasons(wanted.decision).astype(object)
    # The answer of a holdout depends neither on the curve nor on the price.
    found[~wanted.embeddings.known & ~wanted.treated.held] = "cold_start"
    if stale:
        found[~wanted.treated.held] = "stale_price"
    return [str(each) for each in found]
