"""Decisions on requests of one side, and what is proposed to the ledger."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from serving.predictor.active import Active
from serving.predictor.context import logged_context, read_requests
from serving.predictor.features import Embeddings, Features
from serving.predictor.ledger.columns import Proposals
from serving.protocol import Requests
from shadowprice.arms import CANARY, Treatment
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.pacing.decision_log.basis import Bases
from shadowprice.policy import Decided, Policy
from shadowprice.responses.layers.heads import allowed_by, curves_of

Stage = Callable[[str], AbstractContextManager[None]]
"""Returns a context that times a stage of the answer."""


@dataclass(frozen=True, eq=False)
class Group:
    """Requests of one side that one pair of price and model decides for: their ``rows`` among all.

    stale  whether the price is past its expiry
    """

    side: Side
    pair: Active
    rows: list[int]
    stale: bool


def groups_of(
    active: Active, requests: Requests, rows: Iterable[int], treated: Treatment, stale: bool
) -> Iterator[Group]:
    """Yield the rows of each side and of each pair of price and model that decides for them; ``stale`` is the price."""
    pairs = (active,) if active.beside is None else (active, active.beside.pair)
    of = [0] * len(requests) if active.beside is None else (treated.arm == CANARY).tolist()
    by_group: dict[tuple[Side, int], list[int]] = {}
    for row in rows:
        by_group.setdefault((requests.side[row], of[row]), []).append(row)
    for (side, pair), own in by_group.items():
        yield Group(side, pairs[pair], own, stale and pair == 0)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Decisions on n requests of one side that may be given something.

    rows        of these requests among all
    read        embeddings of all requests that were asked about, eligible or not
    embeddings  of the n requests
    curves      (J, n), of the n requests
    decided     at the active price
    """

    rows: list[int]
    read: Embeddings
    embeddings: Embeddings
    curves: Curves
    decided: Decided


async def want(
    campaign: Campaign, coverage: Coverage, group: Group, requests: Requests, treated: Treatment, stage: Stage
) -> Wanted:
    """Read features of a group, compute curves, and ask the policy; ``treated`` are the arms of all ``requests``.

    ``stage`` takes times.
    """
    side, rows, model, price = group.side, group.rows, group.pair.model, group.pair.price
    asked = SideRequests(
        side,
        [requests.account_id[row] for row in rows],
        [requests.partner_id[row] for row in rows],
        {name: [values[row] for row in rows] for name, values in requests.context.items()},
    )
    with stage("features"):
        read, (coverage, failed) = await asyncio.gather(
            read_requests(model, asked), _complete(coverage, model.features, asked)
        )
        read = replace(read, failed=read.failed or failed)
    policy = Policy(campaign, coverage, price.of(campaign.priced), price.tie_share)
    eligible = policy.eligible(asked, allowed_by(model.heads[side], read.matrix))
    chosen = [rows[column] for column in eligible.rows.tolist()]
    embeddings = read if len(chosen) == len(rows) else read.take(eligible.rows)
    with stage("curve"):
        curves = curves_of(model.heads[side], embeddings.matrix)
    with stage("decide"):
        names = [requests.request_id[row] for row in chosen]
        decided = policy.answer(eligible, curves, names, treated.take(chosen), embeddings.known, stale=group.stale)
    return Wanted(chosen, read, embeddings, curves, decided)


async def _complete(coverage: Coverage, features: Features, asked: SideRequests) -> tuple[Coverage, bool]:
    """Return the coverage with the columns of accounts and partners that came after the predictor started.

    The second value says whether the store of such columns did not answer.
    """
    wanted = coverage.lacking(asked)
    if not wanted:
        return coverage, False
    answers = await asyncio.gather(*(features.profiles(*query) for query in wanted))
    newer = {
        of: Attributes.of(names, profiles.columns)
        for (of, names, _), profiles in zip(wanted, answers, strict=True)
        if profiles is not None
    }
    return replace(coverage, newer=newer), None in answers


def proposals_of(campaign: Campaign, group: Group, requests: Requests, wanted: Wanted, bases: Bases) -> Proposals:
    """Return the proposals of the rows of a group that may be given something; ``bases`` writes their receipts."""
    side, terms, rows = group.side, campaign.terms(group.side), wanted.rows
    decided, response = wanted.decided, wanted.curves.response
    decision, columns = decided.decision, np.arange(len(rows))
    level, free = decision.level, terms.unit_costs[0] == 0
    unpaid = np.where(decided.unpaid & free, response[0], np.float32(0.0))
    times = wanted.embeddings.computed_at.tolist()
    further: dict[str, Any] = {}
    if terms.segments:
        others = decided.choices.further(group.pair.price.of(campaign.priced), level)
        values = [response[own, column].tolist() for column, own in enumerate(others)]
        further = {"further_levels": others, "further_responses": values}
    return Proposals(
        request_id=[requests.request_id[row] for row in rows],
        account_id=[requests.account_id[row] for row in rows],
        side=[side] * len(rows),
        level=level.tolist(),
        incentive=np.asarray(terms.unit_costs)[level].tolist(),
        response=response[level, columns].tolist(),
        expected_cost=terms.cost(response, wanted.curves.amounts)[level, columns].tolist(),
        propensity=decision.propensity.tolist(),
        reason=decided.reasons.tolist(),
        response_unpaid=unpaid.tolist(),
        propensities=decision.policy.propensities().T.tolist(),
        features_at=[None if math.isnan(at) else at for at in times],
        arm=decided.treated.arm.tolist(),
        partner_id=[requests.partner_id[row] for row in rows],
        context=logged_context(requests, rows),
        groups=decided.groups,
        basis=bases.of(decided, response),
        unpaid_allowed=(decided.unpaid | (not free)).tolist(),
        **further,
    )


def with_versions(proposals: Proposals, pair: Active) -> Proposals:
    """Return the proposals with the versions that they were decided with, where others are in one message."""
    n = len(proposals.request_id)
    return replace(proposals, model_version=[pair.model.version] * n, price_version=[pair.price.version] * n)


def merged(proposed: Sequence[tuple[list[int], Proposals]]) -> tuple[list[int], Proposals]:
    """Rows and proposals of all sides, in the order of their rows: the first is authorized first."""
    if len(proposed) == 1:
        return proposed[0]
    rows = [row for mine, _ in proposed for row in mine]
    order = sorted(range(len(rows)), key=rows.__getitem__)
    names = [field.name for field in fields(Proposals)]
    complete = [name for name in names if all(getattr(proposals, name) is not None for _, proposals in proposed)]
    columns = {name: [value for _, proposals in proposed for value in getattr(proposals, name)] for name in complete}
    return sorted(rows), Proposals(**{name: [column[at] for at in order] for name, column in columns.items()})
