"""The inference protocols: Open Inference V2 and KServe V1, decoded strictly and encoded fast."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from serving.http.limits import IDENTIFIER_RULE, MAX_CONTEXT, is_identifier
from serving.session import checked_sessions
from shadowprice.campaign import SIDES, Side
from shadowprice.campaign.session import SESSION
from shadowprice.errors import InvalidRequest

INPUTS = ("request_id", "account_id", "side")
OPTIONAL = ("partner_id",)
"""Inputs that a call may leave out."""
CONTEXT = "context"
ACCEPTED = (*INPUTS, *OPTIONAL)
CONTEXT_TYPES = {"x_": "FP64", "c_": "BYTES"}
"""Prefix of a context value's name → its data type: numbers and texts. The active model says which names it reads."""
OUTPUTS = {
    "incentive": "INT64",
    "level": "INT32",
    "offer_id": "BYTES",
    "response": "FP64",
    "expected_cost": "FP64",
    "propensity": "FP64",
    "reason": "BYTES",
    "repeat": "BOOL",
    "price_version": "INT64",
    "model_version": "BYTES",
    "arm": "BYTES",
    "limited_by": "BYTES",
}
RecordedReason = Literal[
    "optimal", "tie", "explored", "cold_start", "budget_exhausted", "capped", "stale_price", "holdout"
]
RECORDED_REASONS: tuple[RecordedReason, ...] = get_args(RecordedReason)
UnrecordedReason = Literal["ineligible", "outside_window"]
"""Reasons of answers that cost nothing: the ledger has nothing to authorize."""
UNRECORDED_REASONS: tuple[UnrecordedReason, ...] = get_args(UnrecordedReason)
Reason = RecordedReason | UnrecordedReason


@dataclass(frozen=True)
class Requests:
    """n requests of one call; lists of length n.

    partner_id  account on the other side, such as the merchant whose code is scanned; empty where there is none
    context     name → value of each request, a float of x_…, a text of c_…, behaviors of ``session``; None where a
                request has none
    """

    request_id: list[str]
    account_id: list[str]
    side: list[Side]
    partner_id: list[str] = field(default_factory=list)
    context: Mapping[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.partner_id:
            object.__setattr__(self, "partner_id", [""] * len(self.request_id))

    def __len__(self) -> int:
        return len(self.request_id)

    @classmethod
    def joined(cls, calls: Sequence[Requests]) -> Requests:
        """Return the requests of all calls, in order."""
        names = dict.fromkeys(name for call in calls for name in call.context)
        context = {
            name: [value for call in calls for value in call.context.get(name, [None] * len(call))] for name in names
        }
        columns: dict[str, Any] = {name: [item for call in calls for item in getattr(call, name)] for name in ACCEPTED}
        return cls(**columns, context=context)


@dataclass(frozen=True)
class Answers:
    """Answers to the n requests of one call, in their order; arrays (n,).

    incentive in minor units, 0 of an offer without a value in money; unit_cost that of the level; level an index into
    the side's levels, or ``NOTHING``; offer_id that level's offer, empty for nothing;
    propensity the probability of that answer, given the arm, the price, the exploration and the remaining budget;
    repeat whether the request was answered before; price_version, model_version and arm are those of that decision;
    limited_by the budget or cap that the wanted incentive did not fit, empty where it fitted;
    active_price_version and active_model_version are those in use now.
    """

    incentive: NDArray[np.int64]
    unit_cost: NDArray[np.int64]
    level: NDArray[np.int32]
    offer_id: list[str]
    response: NDArray[np.float64]
    expected_cost: NDArray[np.float64]
    propensity: NDArray[np.float64]
    reason: list[str]
    repeat: NDArray[np.bool_]
    price_version: NDArray[np.int64]
    model_version: list[str]
    arm: list[str]
    limited_by: list[str]
    active_price_version: int
    active_model_version: str
    price_age_seconds: float
    degraded: bool

    @property
    def authorized(self) -> int:
        """Minor units that these answers authorized; repeats authorize nothing."""
        return int(self.unit_cost[~self.repeat].sum())


def decode_v1(body: Any, max_items: int) -> Requests:
    """Requests of ``{"instances": [{"request_id", "account_id", "side", "partner_id"?, "session"?, "context"?}, …]}``.

    Raises:
        InvalidRequest: anything else; names the field and the first offending instances.
    """
    instances = _member(body, "instances", "an object with the list 'instances'")
    check_count(instances, max_items, "instances")
    required, accepted = set(INPUTS), {*ACCEPTED, SESSION, CONTEXT}
    wrong = [
        row for row, item in enumerate(instances) if not isinstance(item, dict) or not required <= set(item) <= accepted
    ]
    if wrong:
        reason = f"each needs the fields {list(INPUTS)} and may have {[*OPTIONAL, SESSION, CONTEXT]}"
        raise InvalidRequest(reason, field="instances", rows=wrong[:5])
    columns = {name: [item[name] for item in instances] for name in INPUTS}
    columns |= {name: [item.get(name, "") for item in instances] for name in OPTIONAL}
    contexts = [item.get(CONTEXT) or {} for item in instances]
    wrong = [row for row, context_row in enumerate(contexts) if not isinstance(context_row, dict)]
    if wrong:
        raise InvalidRequest("must be an object of names and values", field=CONTEXT, rows=wrong[:5])
    wrong = [row for row, context_row in enumerate(contexts) if SESSION in context_row]
    if wrong:
        reason = f"is a field of the instance, beside {CONTEXT!r}"
        raise InvalidRequest(reason, field=f"{CONTEXT}.{SESSION}", rows=wrong[:5])
    names = dict.fromkeys(name for context_row in contexts for name in context_row)
    context = {name: [context_row.get(name) for context_row in contexts] for name in names}
    if any(SESSION in item for item in instances):
        context[SESSION] = [item.get(SESSION) for item in instances]
    return _checked(columns, context)


def decode_v2(body: Any, max_items: int) -> Requests:
    """Requests of an Open Inference V2 body with the inputs of :data:`ACCEPTED` and context, of shape [n].

    Raises:
        InvalidRequest: anything else; names the field and the first offending rows.
    """
    inputs = _member(body, "inputs", "an object with the list 'inputs'")
    columns: dict[str, list[Any]] = {}
    for position, tensor in enumerate(inputs):
        where = f"inputs[{position}]"
        if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
            raise InvalidRequest("must be an object with a name", field=where)
        name = tensor["name"]
        datatype = type_of(name, f"{where}.name")
        if name in columns:
            raise InvalidRequest(f"{name!r} is given twice", field=f"{where}.name")
        columns[name] = _tensor(tensor, name, datatype, max_items)
    return checked_columns(columns)


def type_of(name: str, field: str) -> str:
    """Return the data type of an input, or raise :class:`InvalidRequest` about what is none."""
    datatype = "BYTES" if name in (*ACCEPTED, SESSION) else CONTEXT_TYPES.get(name[:2])
    if datatype is None:
        taken = f"it takes {[*ACCEPTED, SESSION]} and context named x_… (FP64) or c_… (BYTES)"
        raise InvalidRequest(f"is not an input of this model; {taken}", field=field)
    return datatype


def checked_columns(columns: Mapping[str, list[Any]]) -> Requests:
    """Requests of the inputs of :data:`ACCEPTED`, of sessions as JSON, and of context, by name.

    Raises:
        InvalidRequest: one is missing, they differ in length, or values are not what they should be.
    """
    missing = [name for name in INPUTS if name not in columns]
    if missing:
        raise InvalidRequest(f"is missing {missing}", field="inputs")
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise InvalidRequest(f"must all have one shape, got {sizes}", field="inputs")
    return _checked(columns, {name: values for name, values in columns.items() if name not in ACCEPTED})


def request_name(body: Mapping[str, Any]) -> str | None:
    """The optional ``id`` of a V2 request, echoed in its answer."""
    name = body.get("id")
    if name is not None and not is_identifier(name):
        raise InvalidRequest(IDENTIFIER_RULE, field="id")
    return cast("str | None", name)


def requested_outputs(body: Mapping[str, Any]) -> Sequence[str]:
    """Return the outputs that a V2 request asks for; all where it names none.

    Raises:
        InvalidRequest: there is no such output, or one is named twice.
    """
    outputs = body.get("outputs")
    if outputs is None:
        return tuple(OUTPUTS)
    if not isinstance(outputs, list):
        raise InvalidRequest("must be a list of objects with a name", field="outputs")
    return checked_outputs([output.get("name") if isinstance(output, dict) else None for output in outputs])


def checked_outputs(names: Sequence[Any]) -> Sequence[str]:
    """Return the names of outputs, all where there are none; raises as :func:`requested_outputs` does."""
    for position, name in enumerate(names):
        if not isinstance(name, str) or name not in OUTPUTS:
            reason = f"is not an output of this model; it gives {list(OUTPUTS)}"
            raise InvalidRequest(reason, field=f"outputs[{position}].name")
        if name in names[:position]:
            raise InvalidRequest(f"{name!r} is given twice", field=f"outputs[{position}].name")
    return names or tuple(OUTPUTS)


def encode_v1(answers: Answers) -> dict[str, Any]:
    """``{"predictions": [{…}, …], …}`` with the names of the V2 outputs, and the parameters of the V2 answer."""
    columns = [
        values.tolist() if isinstance(values, np.ndarray) else values
        for values in (getattr(answers, name) for name in OUTPUTS)
    ]
    predictions = [dict(zip(OUTPUTS, row, strict=True)) for row in zip(*columns, strict=True)]
    return {"predictions": predictions, **parameters(answers)}


def parameters(answers: Answers) -> dict[str, Any]:
    """Return what holds for all answers of a call."""
    return {
        "price_version": answers.active_price_version,
        "model_version": answers.active_model_version,
        "price_age_seconds": answers.price_age_seconds,
        "degraded": answers.degraded,
    }


def encode_v2(
    answers: Answers, model_name: str, name: str | None, outputs: Sequence[str] = tuple(OUTPUTS)
) -> dict[str, Any]:
    """The V2 answer with some outputs, in their order; numpy arrays are left for the JSON writer."""
    shape = [len(answers.reason)]
    return {
        "model_name": model_name,
        "model_version": answers.active_model_version,
        **({} if name is None else {"id": name}),
        "parameters": parameters(answers),
        "outputs": [
            {"name": output, "datatype": OUTPUTS[output], "shape": shape, "data": getattr(answers, output)}
            for output in outputs
        ],
    }


def _member(body: Any, name: str, expected: str) -> list[Any]:
    if not isinstance(body, dict):
        raise InvalidRequest(f"must be {expected}", field="body")
    value = body.get(name)
    if not isinstance(value, list):
        raise InvalidRequest("is missing or not a list", field=name)
    return value


def _tensor(tensor: Mapping[str, Any], name: str, datatype: str, max_items: int) -> list[Any]:
    field = f"inputs.{name}"
    if tensor.get("datatype") != datatype:
        raise InvalidRequest(f"must be {datatype}", field=f"{field}.datatype")
    data, shape = tensor.get("data"), tensor.get("shape")
    if not isinstance(data, list):
        raise InvalidRequest("is missing or not a list; binary tensors are not read", field=f"{field}.data")
    if not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int:
        raise InvalidRequest("must be [n]", field=f"{field}.shape")
    if shape[0] != len(data):
        raise InvalidRequest(f"says {shape[0]} but there are {len(data)} values", field=f"{field}.shape")
    check_count(data, max_items, f"{field}.data")
    return data


def check_count(items: Sequence[Any], max_items: int, field: str) -> None:
    """Refuse an empty call, or one of more requests than are taken."""
    if not 1 <= len(items) <= max_items:
        raise InvalidRequest(f"must hold 1 to {max_items} requests, got {len(items)}", field=field)


def _checked(columns: Mapping[str, list[Any]], context: Mapping[str, list[Any]]) -> Requests:
    for name in ("request_id", "account_id"):
        wrong = [row for row, value in enumerate(columns[name]) if not is_identifier(value)]
        if wrong:
            raise InvalidRequest(IDENTIFIER_RULE, field=name, rows=wrong[:5])
    wrong = [row for row, value in enumerate(columns["side"]) if value not in SIDES]
    if wrong:
        raise InvalidRequest(f"must be one of {list(SIDES)}", field="side", rows=wrong[:5])
    partners = columns.get("partner_id", [])
    wrong = [row for row, value in enumerate(partners) if value != "" and not is_identifier(value)]
    if wrong:
        raise InvalidRequest(
            f"{IDENTIFIER_RULE}; leave it empty where there is none", field="partner_id", rows=wrong[:5]
        )
    checked = {name: _context(name, values) for name, values in context.items()}
    if len(checked) > MAX_CONTEXT:
        raise InvalidRequest(f"has {len(checked)} values; at most {MAX_CONTEXT} are taken", field=CONTEXT)
    return Requests(columns["request_id"], columns["account_id"], columns["side"], list(partners), checked)


def _context(name: str, values: Sequence[Any]) -> list[Any]:
    """Values of one context column; None, NaN and the empty text stand for none."""
    if name == SESSION:
        return checked_sessions(values)
    if name[:2] not in CONTEXT_TYPES:  # no model reads it: the predictor refuses it with the names that are read
        return list(values)
    kind: type[float] | type[str]
    if CONTEXT_TYPES[name[:2]] == "FP64":
        wrong = [row for row, value in enumerate(values) if value is not None and not _is_number(value)]
        rule = "must be a finite number; leave it out or send null where it is unknown"
        # Whole numbers too: JavaScript cannot write 200.0.
        kind = float
    else:
        wrong = [row for row, value in enumerate(values) if value not in (None, "") and not is_identifier(value)]
        rule = f"{IDENTIFIER_RULE}; leave it out or send null where it is unknown"
        kind = str
    if wrong:
        raise InvalidRequest(rule, field=f"{CONTEXT}.{name}", rows=wrong[:5])
    return [None if value in (None, "") or value != value else kind(value) for value in values]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != math.inf
