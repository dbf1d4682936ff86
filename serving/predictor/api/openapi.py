"""The bodies of the prediction endpoints, as the service's OpenAPI describes them."""

from typing import Any

from serving.http.limits import MAX_BEHAVIORS, MAX_CONTEXT, MAX_ID_LENGTH, MAX_ITEMS
from serving.protocol import ACCEPTED, CONTEXT, INPUTS, OPTIONAL, OUTPUTS
from serving.session import LEVELS, NEEDED, TEXTS
from shadowprice.campaign import SIDES
from shadowprice.campaign.session import SESSION, SESSION_ACTIONS

_IDENTIFIER = {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH}
_COLUMNS: dict[str, Any] = {
    name: {"type": "string", "enum": list(SIDES)} if name == "side" else _IDENTIFIER for name in INPUTS
} | {name: {"type": "string", "maxLength": MAX_ID_LENGTH} for name in OPTIONAL}
_CONTEXT = {
    "type": "object",
    "description": "what is known of the request; the model's metadata lists the names that it reads",
    "maxProperties": MAX_CONTEXT,
    "patternProperties": {
        "^x_": {"type": ["number", "null"]},
        "^c_": {"type": ["string", "null"], "maxLength": MAX_ID_LENGTH},
    },
    "additionalProperties": False,
}
_SESSION = {
    "type": ["array", "null"],
    "description": "carts and orders before the voucher, for models that read them",
    "maxItems": MAX_BEHAVIORS,
    "items": {
        "type": "object",
        "required": list(NEEDED),
        "properties": {
            **{name: {"type": ["string", "null"], "maxLength": MAX_ID_LENGTH} for name in TEXTS},
            "item_id": _IDENTIFIER,
            "action": {"type": "string", "enum": list(SESSION_ACTIONS)},
            "ts": {"type": "string", "format": "date-time"},
            "price_level": {"type": ["integer", "null"], "minimum": LEVELS[0], "maximum": LEVELS[-1]},
        },
        "additionalProperties": False,
    },
}


def _body(properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if name not in ("id", "outputs")]
    schema = {"type": "object", "required": required, "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _tensor(name: dict[str, Any], datatype: str, value: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["name", "datatype", "shape", "data"],
        "properties": {
            "name": {"type": "string", **name},
            "datatype": {"type": "string", "enum": [datatype]},
            "shape": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "integer"}},
            "data": {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": {"type": value}},
        },
    }


V1_BODY = _body(
    {
        "instances": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_ITEMS,
            "items": {
                "type": "object",
                "required": list(INPUTS),
                "properties": {**_COLUMNS, SESSION: _SESSION, CONTEXT: _CONTEXT},
                "additionalProperties": False,
            },
        }
    }
)
V2_BODY = _body(
    {
        "id": _IDENTIFIER,
        "outputs": {
            "type": "array",
            "maxItems": len(OUTPUTS),
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"enum": list(OUTPUTS)}}},
        },
        "inputs": {
            "type": "array",
            "minItems": len(INPUTS),
            "maxItems": len(ACCEPTED) + MAX_CONTEXT,
            "items": {
                "anyOf": [
                    _tensor({"enum": list(ACCEPTED)}, "BYTES", "string"),
                    _tensor({"enum": [SESSION]}, "BYTES", ["string", "null"]),
                    _tensor({"pattern": "^x_"}, "FP64", ["number", "null"]),
                    _tensor({"pattern": "^c_"}, "BYTES", ["string", "null"]),
                ]
            },
        },
    }
)
OWN_ERRORS = {
    400: "A field is missing or malformed",
    404: "There is no model of this name",
    409: "A request id stands for another account or side",
    422: "The model does not read this context",
}
"""Status → cause of the errors of a call that was read."""
