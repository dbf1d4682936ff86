"""Decisions as columns, between predictor and ledger. Written by ``python -m serving.generate``; do not edit."""

from dataclasses import dataclass

from shadowprice.campaign import Side


@dataclass(frozen=True)
class Proposals:
    """Proposed decisions of n requests; lists of length n.

    response_unpaid               expected response without money
    model_version, price_version  those that each was decided with; None: those of the message
    unpaid_allowed                whether each may be given the level of no incentive; None: all may
    further_levels                of a delivery, levels to give in turn where the segment of the level is full
    further_responses             expected response of each of these
    """

    request_id: list[str]
    account_id: list[str]
    side: list[Side]
    level: list[int]
    incentive: list[int]
    response: list[float]
    expected_cost: list[float]
    propensity: list[float]
    propensities: list[list[float]]
    reason: list[str]
    features_at: list[float | None]
    response_unpaid: list[float]
    arm: list[str] | None = None
    partner_id: list[str] | None = None
    context: list[str] | None = None
    groups: list[str] | None = None
    basis: list[str] | None = None
    model_version: list[str] | None = None
    price_version: list[int] | None = None
    unpaid_allowed: list[bool] | None = None
    further_levels: list[list[int]] | None = None
    further_responses: list[list[float]] | None = None


@dataclass(frozen=True)
class Authorized:
    """Decisions that the ledger holds for n requests; lists of length n. ``repeat``: decided before."""

    request_id: list[str]
    level: list[int]
    incentive: list[int]
    response: list[float]
    expected_cost: list[float]
    propensity: list[float]
    reason: list[str]
    model_version: list[str]
    price_version: list[int]
    arm: list[str]
    limited_by: list[str]
    repeat: list[bool]
