"""Records of the decision log: the one list of the fields of each.

The log's schema, the tables of the ledger's stores and the messages are made from these classes by :func:`columns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from shadowprice.arms import UNASSIGNED
from shadowprice.campaign import Side

CorrectionKind = Literal["reversal", "refund", "clawback"]
CORRECTION_KINDS: tuple[CorrectionKind, ...] = get_args(CorrectionKind)
LONGEST_BASIS = 3 * 1024
"""Characters of the basis of a decision: some ten levels and thirty budgets."""


@dataclass(frozen=True)
class Field:
    """Properties of a field besides its type.

    sql       constraint of its sqlite column
    bits      size of its integers in the log
    time      whether it is a time: microseconds since 1970 (UTC)
    sent      whether the predictor sends it to the ledger with each decision
    returned  whether the ledger returns it to the predictor
    """

    sql: str = ""
    bits: int = 64
    time: bool = False
    sent: bool = True
    returned: bool = False


@dataclass(frozen=True)
class Column:
    """One field of a record: its name, Python type, whether it may be None, how it is kept, and its default.

    earlier   value in records that were written before the field existed, or ``REQUIRED``
    """

    name: str
    type: type
    optional: bool
    field: Field
    earlier: Any


REQUIRED: Any = object()
"""Default of a field that every record has."""


def columns(record: type) -> tuple[Column, ...]:
    """Return the fields of a record class in their order.

    >>> [column.name for column in columns(Decision) if not column.field.sent]
    ['model_version', 'price_version', 'decided_at', 'most_units', 'limited_by']
    """
    defaults: Mapping[str, Any] = getattr(record, "_field_defaults", MappingProxyType(vars(record)))
    return tuple(
        _column(name, hint, defaults.get(name, REQUIRED))
        for name, hint in get_type_hints(record, include_extras=True).items()
    )


def _column(name: str, hint: Any, earlier: Any) -> Column:
    field = Field()
    if get_origin(hint) is Annotated:
        hint, field = get_args(hint)
    options = get_args(hint)
    optional = NoneType in options
    if optional:
        hint = options[0]
    origin = get_origin(hint)
    return Column(name, str if origin is Literal else origin or hint, optional, field, earlier)


class Decision(NamedTuple):
    """Decision for one request; money in minor units.

    This class is the one list of a decision's fields. The log's columns, the sqlite table, the rows in Redis and the
    messages between predictor and ledger are made from it. A new field is the last one and has a default: its value
    in older records.

    incentive     unit cost of the level: its value in money, where the offer has no other cost
    propensity    probability of this answer when it was given, conditional on the arm
    propensities  (J,), probability of each level, likewise; the rest up to 1 is the probability of no incentive
    features_at   when the features were computed, microseconds since 1970 (UTC); None where there were none
    most_units    most incentives that may be paid for the decision
    arm           arm of the account; ``unassigned`` without an experiment
    partner_id    partner of the request; empty where it has none
    limited_by    limit that replaced the wanted level: a budget or cap by its name; empty where none did
    context       context values of the request as a JSON object, names in order; empty where it has none
    groups        names of the budgets with a condition that count the request, joined by commas
    basis         curve, charges and rules behind the decision (:mod:`shadowprice.pacing.decision_log.basis`); empty in
                  records from before it was kept
    """

    request_id: Annotated[str, Field(sql="UNIQUE", returned=True)]
    account_id: str
    side: Side
    level: Annotated[int, Field(bits=32, returned=True)]
    incentive: Annotated[int, Field(sql="CHECK (incentive >= 0)", returned=True)]
    response: Annotated[float, Field(returned=True)]
    expected_cost: Annotated[float, Field(returned=True)]
    propensity: Annotated[float, Field(returned=True)]
    propensities: Annotated[tuple[float, ...], Field(sql="DEFAULT '[]'")]
    reason: Annotated[str, Field(returned=True)]
    model_version: Annotated[str, Field(sent=False, returned=True)]
    price_version: Annotated[int, Field(sent=False, returned=True)]
    features_at: Annotated[int | None, Field(time=True)]
    decided_at: Annotated[int, Field(sent=False, time=True)]
    most_units: Annotated[int, Field(sent=False)] = 1
    arm: Annotated[str, Field(returned=True)] = UNASSIGNED
    partner_id: str = ""
    limited_by: Annotated[str, Field(sent=False, returned=True)] = ""
    context: str = ""
    groups: str = ""
    basis: str = ""

    @property
    def reserved(self) -> int:
        """Minor units held back while the authorization is open: the most that it can cost."""
        return self.incentive * self.most_units


@dataclass(frozen=True)
class OutcomeRow:
    """Captured outcome as it is kept; times in microseconds since 1970 (UTC).

    caller  name of the token that the ledger admitted
    amount  minor units of the response, such as the order before the discount; None where it was not reported
    """

    request_id: str
    side: Side
    response: float
    cost: int
    late: bool
    observed_at: Annotated[int, Field(time=True)]
    recorded_at: Annotated[int, Field(time=True)]
    misdated: bool = False
    caller: str = ""
    amount: int | None = None


class CorrectionRow(NamedTuple):
    """Correction as it is kept; times in microseconds since 1970 (UTC).

    response, cost    of the request from then on; previous_response and previous_cost until then
    caller            name of the token that the ledger admitted
    amount            of the response from then on, minor units; None: the correction does not change it
    """

    source: str
    event_id: str
    request_id: str
    side: Side
    kind: CorrectionKind
    response: float
    cost: int
    previous_response: float
    previous_cost: int
    override: bool
    content: str
    observed_at: Annotated[int, Field(time=True)]
    recorded_at: Annotated[int, Field(time=True)]
    misdated: bool = False
    caller: str = ""
    amount: int | None = None
