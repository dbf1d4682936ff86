"""Answers of the ledger, as its OpenAPI describes them; no answer is checked against them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from serving.ledger.api.usage import LimitUse
from serving.ledger.moves import Half, State
from serving.ledger.traffic import Traffic
from shadowprice.campaign import Budget, Side
from shadowprice.pacing.decision_log.records import Decision, columns


class Answer(BaseModel):
    """Base of the models of this file."""

    model_config = ConfigDict(protected_namespaces=())


_COLUMNS: dict[str, Any] = {
    column.name: (list[column.type], ...)  # type: ignore[name-defined]
    for column in columns(Decision)
    if column.field.returned
}
_ABOUT = "Decisions that stand, as columns; ``repeat`` tells which stood before."
Decisions: Any = create_model("Decisions", __base__=Answer, __doc__=_ABOUT, repeat=(list[bool], ...), **_COLUMNS)


class Authorized(Answer):
    """Answer to ``POST /v1/authorizations``.

    decisions  items of accepted calls, then the known requests that have a decision
    known      positions of the latter in the message
    errors     reason why a call is refused, or null, for each call
    """

    decisions: Decisions
    known: list[int]
    errors: list[str | None]


class MoveTaken(Answer):
    """State of this ledger's half of a move after a step."""

    campaign: str
    id: str
    state: State


class MoveNow(Answer):
    """Half of a move that a ledger keeps: see :class:`serving.ledger.moves.Move`; amounts in minor units.

    half   ``give``: taken off this campaign's limit; ``take``: added to it
    state  ``sent``: in no limit; ``taken``: with the receiver; ``returned`` or ``refused``: with the giver
    """

    half: Half
    state: State
    recorded_at: datetime
    id: str
    source: str
    target: str
    amount: int
    planned_at: datetime
    source_price: tuple[float, float, float]
    target_price: tuple[float, float, float]
    reason: str
    undoes: str


class MovesNow(Answer):
    """Newest moves of a campaign and all that are under way, the oldest first."""

    campaign: str
    moves: list[MoveNow]


class TotalsNow(Answer):
    """Sums over the campaign since its first request; money in minor units.

    hard_stop           whether money beyond the limits is refused
    net_spent           spent and not taken back
    overridden_by_side  booked by overrides, whatever the limit
    outstanding         held for open authorizations
    moved               by which moves of a portfolio have changed the budget's limit; money_left has it in
    money_left          earned part of the budget that is not spent; negative when overspent
    late_by_side        paid after the authorization had expired
    limits              use of the further budgets in their current periods
    places              accounts that each segment of a delivery has
    """

    campaign: str
    observed_at: datetime
    budget: Budget
    hard_stop: bool
    spent: int
    spent_by_side: dict[Side, int]
    refunded_by_side: dict[Side, int]
    net_spent: int
    overridden_by_side: dict[Side, int]
    authorized: int
    outstanding: int
    moved: int
    money_left: float
    requests: dict[Side, int]
    responses: dict[Side, float]
    withdrawn_by_side: dict[Side, float]
    outcomes: dict[Side, int]
    corrections_by_side: dict[Side, int]
    late_by_side: dict[Side, int]
    authorized_by_side: dict[Side, int]
    limits: list[LimitUse]
    places: dict[str, int]


@dataclass(frozen=True)
class TrafficNow(Traffic):
    """Traffic of a campaign."""

    campaign: str


class Alive(Answer):
    """The process answers."""

    status: str


class ReadyCampaign(Answer):
    """A campaign whose ledger is ready; ``levels`` are the incentives of each side in minor units."""

    campaign: str
    levels: dict[Side, list[int]]


class Ready(Alive):
    """The ledger is ready: of one campaign its name and levels, of several the list of them."""

    campaign: str = ""
    levels: dict[Side, list[int]] = {}
    campaigns: list[ReadyCampaign] = []
