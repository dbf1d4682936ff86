"""YAML of a mapping, read strictly: plain texts, lists and keys, in bounded time and memory."""

from pathlib import Path
from typing import Any

import yaml

from shadowprice.documents import read_document
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.mapping.keys import Kinds

MOST_BYTES = 1 << 18
"""Bytes of a mapping at most."""
MOST_VALUES = 20_000
"""Values of a mapping at most, counted again at each alias."""
DEEPEST = 20
"""Lists and mappings within each other at most."""
_STRUCTURE = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the keys of a YAML file; every scalar is text.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is not YAML, or has a tag, a key twice, or too many values; the message names the line.
    """
    try:
        root = yaml.compose(read_document(path, MOST_BYTES).decode("utf-8-sig"), Loader=yaml.BaseLoader)
        return {} if root is None else Kinds.mapping(_Values().of(root, 1), str(path))
    except FileNotFoundError as error:
        raise NotFound(f"{path}: there is no such mapping") from error
    except RecursionError as error:
        raise InvalidInput("cannot be read: it is nested too deeply", field=str(path)) from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"cannot be read: {' '.join(str(error).split())}", field=str(path)) from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(path)) from error


class _Values:
    """Plain values of nodes; raises :class:`ValueError` about what a mapping does not have."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def of(self, node: yaml.Node, depth: int) -> Any:
        """Return the value of a node at a depth."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_VALUES} values; aliases count each time")
        if depth > DEEPEST:
            raise ValueError(f"line {_line(node)} is nested too deeply; a mapping has at most {DEEPEST} levels")
        if isinstance(node, yaml.ScalarNode):
            if not node.tag.startswith("tag:yaml.org,2002:str"):
                raise ValueError(f"line {_line(node)}: {node.tag} is a tag, which a mapping has not; remove it")
            return node.value
        if node.tag not in _STRUCTURE:
            raise ValueError(f"line {_line(node)}: {node.tag} is a tag, which a mapping has not; remove it")
        if isinstance(node, yaml.SequenceNode):
            return [self.of(item, depth + 1) for item in node.value]
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"line {_line(key)}: a key must be a single value")
            if key.value in mapping:
                raise ValueError(f"line {_line(key)}: the key {key.value[:60]!r} stands twice; keep one of them")
            mapping[key.value] = self.of(value, depth + 1)
        return mapping


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
