"""Contexts of the requests to come, which are those of the newest requests."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Contexts = Mapping[str, list[Any]]
"""Name of a context value → (n,), None where a request has none."""


def context_columns(contexts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the context values of n requests from JSON objects or empty texts.

    >>> context_columns(['{"x_basket": 2.0}', "", '{"c_channel": "app"}'])
    {'x_basket': [2.0, None, None], 'c_channel': [None, None, 'app']}
    """
    parsed = [json.loads(text) if text else {} for text in contexts]
    names = dict.fromkeys(name for values in parsed for name in values)
    return {name: [values.get(name) for values in parsed] for name in names}


def joined_contexts(parts: Sequence[tuple[Contexts, int]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of some names of several groups of requests, joined in order; a group comes with its size.

    >>> joined_contexts([({"x_a": [1.0]}, 1), ({}, 2)], ["x_a"])
    {'x_a': [1.0, None, None]}
    """
    return {name: [value for columns, n in parts for value in columns.get(name, [None] * n)] for name in names}


def drawn_contexts(pool: Contexts, requests: int) -> Contexts | None:
    """Return contexts of n requests: each of the pool as often as the others, in an order that depends on n alone.

    None where the pool is empty. Contexts are taken to be independent of the requests. O(n).

    >>> sorted(drawn_contexts({"x_a": [1.0, 2.0]}, 4)["x_a"])
    [1.0, 1.0, 2.0, 2.0]
    """
    size = len(next(iter(pool.values()), []))
    if not size:
        return None
    place = (np.random.default_rng(requests).permutation(requests) % size).tolist()
    return {name: [values[at] for at in place] for name, values in pool.items()}
