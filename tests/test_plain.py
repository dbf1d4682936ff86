"""Dataclasses of arrays survive JSON, with infinity and NaN."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shadowprice.documents import Plain


@dataclass(frozen=True, eq=False)
class Inner(Plain):
    weight: NDArray[np.float32]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Outer(Plain):
    parts: Mapping[str, Inner]
    maps: Sequence[Inner | None]
    known: NDArray[np.bool_]
    cap: float = math.inf
    mean: float | None = None


def test_a_dataclass_of_arrays_is_rebuilt_from_json() -> None:
    inner = Inner(np.array([[0.1, 2.0]], dtype=np.float32), ("a", "b"))
    outer = Outer({"x": inner}, (inner, None), np.array([True, False]), mean=math.nan)
    again = Outer.from_dict(json.loads(json.dumps(outer.to_dict(), allow_nan=False)))
    assert again.parts["x"].weight.dtype == np.float32
    np.testing.assert_array_equal(again.parts["x"].weight, inner.weight)
    assert again.parts["x"].names == ("a", "b")
    assert isinstance(again.maps[0], Inner)
    assert again.maps[1] is None
    assert (again.known.tolist(), again.cap) == ([True, False], math.inf)
    assert again.mean is not None
    assert math.isnan(again.mean)


def test_a_field_that_is_not_given_takes_its_default() -> None:
    found = Outer.from_dict({"parts": {}, "maps": [], "known": []})
    assert (found.cap, found.mean) == (math.inf, None)
