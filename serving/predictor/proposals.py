"""Proposed decisions, as the predictor sends them to the ledger."""

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from serving.predictor.active import Active
from serving.predictor.context import logged_context
from serving.predictor.ledger.columns import Proposals
from serving.predictor.wanted import Group, Wanted
from serving.protocol import Requests
from shadowprice.campaign import Campaign
from shadowprice.pacing.decision_log.basis import Bases


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
