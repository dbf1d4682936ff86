"""Decisions to authorize, as columns. Written by ``python -m serving.generate``; do not edit."""

from serving.ledger.api.fields import (
    Basis,
    Column,
    Columns,
    Context,
    Finite,
    Identifier,
    Level,
    Levels,
    MinorUnits,
    Partner,
    Propensities,
    Propensity,
    Responses,
    Seconds,
    Version,
)
from serving.protocol import RecordedReason
from shadowprice.campaign import Side


class Items(Columns):
    """n decisions to authorize, as columns.

    incentive        unit cost of that level, minor units
    response         expected response, and expected_cost the money it is expected to cost
    response_unpaid  expected response if the money is refused; 0 where absent
    unpaid_allowed   whether each request may be given the level of no incentive if the money is refused; true where
                     absent
    propensities     probability of each level of the side; a nearly exhausted budget adds up those that do not fit
    partner_id       partner of each request; empty where it has none
    context          context values of each request as a JSON object; empty where it has none
    groups           names of the budgets with a condition that count each request, joined by commas
    basis            curve, charges and rules behind each decision; empty: there is no receipt of it
    model_version, price_version   those that each was decided with; those of the message where absent
    further_levels   of a delivery, levels to give in turn where the segment of the level is full
    further_responses  expected response of each of these
    features_at      when the features were computed, seconds since 1970 (UTC); null where there were none
    """

    request_id: Column[Identifier]
    account_id: Column[Identifier]
    side: Column[Side]
    level: Column[Level]
    incentive: Column[MinorUnits]
    response: Column[Finite]
    expected_cost: Column[Finite]
    propensity: Column[Propensity]
    propensities: Column[Propensities]
    reason: Column[RecordedReason]
    features_at: Column[Seconds | None] | None = None
    arm: Column[Identifier] | None = None
    partner_id: Column[Partner] | None = None
    context: Column[Context] | None = None
    groups: Column[Context] | None = None
    basis: Column[Basis] | None = None
    response_unpaid: Column[Finite] | None = None
    unpaid_allowed: Column[bool] | None = None
    model_version: Column[Identifier] | None = None
    price_version: Column[Version] | None = None
    further_levels: Column[Levels] | None = None
    further_responses: Column[Responses] | None = None
