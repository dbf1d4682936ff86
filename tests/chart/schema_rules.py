"""Every rule of the chart's schema with a value that breaks it, made from the schema itself."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rendering import CHART

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
SAYS_NOTHING = {"$schema", "title", "description", "properties"}
OTHER_TYPE = {"string": [], "object": "text", "array": "text", "integer": "text", "number": "text", "boolean": "yes"}
# For patterns: what people write where something else is meant.
TYPOS = (
    "has space",
    "/absolute",
    "Upper",
    "text",
    "sha256:short",
    "has:tag",
    "a/b",
    "ftp://host",
    "hourly",
    "1,5Gi",
    "",
)
# What the engines say of a rule; both name the place.
SAYS = {
    "type": "got .*want",
    "enum": "value must be one of",
    "pattern": "does not match pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusiveMinimum",
    "exclusiveMaximum": "exclusiveMaximum",
    "minLength": "minLength",
    "minItems": "minItems",
    "not": "'not' failed",
    "required": "missing propert(y|ies)",
    "additionalProperties": "additional properties? 'surprise'",
}


@dataclass(frozen=True)
class Case:
    """A value that breaks one rule.

    path     of keys from the root, to where the value is put
    keyword  of the rule
    value    breaks it and, as far as can be, no other rule of its place; None removes the default
    told     the place that the refusal names
    """

    path: tuple[str, ...]
    keyword: str
    value: Any
    told: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}-{self.keyword}"

    def into(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values with this one put in its place."""
        result: dict[str, Any] = json.loads(json.dumps(values))
        place = result
        for key in self.path[:-1]:
            place = place.setdefault(key, {})
        place[self.path[-1]] = self.value
        return result


def cases(schema: dict[str, Any] = SCHEMA, path: tuple[str, ...] = ()) -> Iterator[Case]:
    """One case for every rule of the schema below a place.

    Raises:
        LookupError: for a keyword or a pattern that nothing here breaks.
    """
    for keyword, rule in schema.items():
        if keyword in SAYS_NOTHING:
            continue
        match keyword:
            case "type":
                kinds = [rule] if isinstance(rule, str) else rule
                if path:
                    wrong = True if len(kinds) > 1 else OTHER_TYPE[rule]
                    yield Case(path, keyword, wrong, path)
            case "required":
                yield from (Case((*path, name), keyword, None, path) for name in rule)
            case "additionalProperties" if rule is False:
                yield Case((*path, "surprise"), keyword, 1, path)
            case "additionalProperties":
                yield from cases(rule, (*path, "key"))
            case "items":
                yield from (Case(path, c.keyword, _inside(c, len(path)), (*path, "0", *c.told[len(path):]))
                            for c in cases(rule, path) if len(c.path) >= len(path))  # fmt: skip
            case "enum":
                yield Case(path, keyword, "no such", path)
            case "pattern":
                yield Case(path, keyword, _typo(rule, path), path)
            case "minimum":
                yield Case(path, keyword, rule - 1, path)
            case "maximum":
                yield Case(path, keyword, rule + 1, path)
            case "exclusiveMinimum" | "exclusiveMaximum":
                yield Case(path, keyword, rule, path)
            case "minLength" if rule == 1:
                yield Case(path, keyword, "", path)
            case "minItems" if rule == 1:
                yield Case(path, keyword, [], path)
            case "not" if set(rule) == {"const"}:
                yield Case(path, keyword, rule["const"], path)
            case "not" if set(rule) == {"enum"}:
                yield from (Case(path, keyword, taken, path) for taken in rule["enum"])
            case _:
                raise LookupError(f"{'.'.join(path)}: nothing here breaks {keyword}: {rule}")
    for name, below in schema.get("properties", {}).items():
        yield from cases(below, (*path, name))


def _inside(case: Case, depth: int) -> list[Any]:
    """The value of a case about an element, as a list of one element."""
    value = case.value
    rest = case.path[depth:]
    if rest and value is None:
        return [{}]
    for key in reversed(rest):
        value = {key: value}
    return [value]


def _typo(pattern: str, path: tuple[str, ...]) -> str:
    for text in TYPOS:
        if not re.search(pattern, text):
            return text
    raise LookupError(f"{'.'.join(path)}: no typo breaks {pattern}")


def objects(schema: dict[str, Any] = SCHEMA, path: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema with its dotted place."""
    kinds = schema.get("type", [])
    if kinds == "object" or "object" in kinds:
        yield ".".join(path), schema
    below = [
        *schema.get("properties", {}).items(),
        ("[]", schema.get("items")),
        ("*", schema.get("additionalProperties")),
    ]
    for name, each in below:
        if isinstance(each, dict):
            yield from objects(each, (*path, name))
