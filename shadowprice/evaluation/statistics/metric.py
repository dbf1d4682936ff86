"""Metric: a weighted statistic of rows, with checks and an interval option on top.

A new metric is one function that takes float64 arrays whose last axis is the rows and returns a
:data:`~shadowprice.evaluation.statistics.intervals.Statistic`; :func:`metric` adds the rest, and a line in
``metrics.py`` registers it.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, Statistic, bootstrap, point

Array = NDArray[np.float64]

EXTRA = ("weight", "interval")
"""Keyword arguments that every metric has."""
MATRICES = ("response", "expense")
"""Arrays that are matrices (levels, N): the value and cost curves of a model."""


class Metric(Protocol):
    """``metric(*arrays, weight=None, interval=None, **options)``: a float, or an Estimate with ``interval``.

    ``response`` and ``expense`` are matrices (levels, N), every other array a vector (N,); ``weight`` (N,) is
    non-negative, with a positive sum. A metric that is undefined on its rows (an AUC of one class) is NaN.

    Raises:
        InvalidInput: shapes that do not agree, missing or infinite entries (with their rows).
    """

    __name__: str

    @overload
    def __call__(
        self, *arrays: ArrayLike, weight: ArrayLike | None = None, interval: None = None, **options: Any
    ) -> float: ...
    @overload
    def __call__(
        self, *arrays: ArrayLike, weight: ArrayLike | None = None, interval: Interval, **options: Any
    ) -> Estimate: ...

    def statistic(self, *arrays: ArrayLike, **options: Any) -> Statistic:
        """The metric as a function of the rows' weights, for differences and the bootstrap."""


def metric(prepare: Callable[..., Statistic], *, basic: bool = False) -> Metric:
    """Make a :class:`Metric` of a function from arrays (and keyword options) to a Statistic.

    Positional parameters are the arrays, keyword-only ones the options. ``basic`` asks for the
    reversed bootstrap interval.
    """
    signature = inspect.signature(prepare)
    arrays_of = {
        name for name, parameter in signature.parameters.items() if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    }

    def bind(arrays: tuple[ArrayLike, ...], options: dict[str, Any]) -> tuple[dict[str, Any], int]:
        arguments = signature.bind(*arrays, **options).arguments
        columns = as_rows({name: column for name, column in arguments.items() if name in arrays_of})
        return arguments | columns, next(iter(columns.values())).shape[-1]

    def statistic(*arrays: ArrayLike, **options: Any) -> Statistic:
        return prepare(**bind(arrays, options)[0])

    @wraps(prepare)
    def call(
        *arrays: ArrayLike, weight: ArrayLike | None = None, interval: Interval | None = None, **options: Any
    ) -> float | Estimate:
        arguments, rows = bind(arrays, options)
        prepared, weights = prepare(**arguments), as_weights(weight, rows)
        if interval is None:
            return point(prepared, weights)
        return bootstrap(prepared, weights, interval, basic=basic)

    extra = [
        parameter
        for name, parameter in inspect.signature(call, follow_wrapped=False).parameters.items()
        if name in EXTRA
    ]
    shown = signature.replace(parameters=[*signature.parameters.values(), *extra], return_annotation="float | Estimate")
    vars(call).update(statistic=statistic, __signature__=shown)
    return cast(Metric, call)


def as_rows(columns: dict[str, ArrayLike]) -> dict[str, Array]:
    """The arrays as float64, refused unless finite and of one number of rows.

    All are vectors (N,) but those named in ``MATRICES``, which are (levels, N).
    """
    arrays: dict[str, Array] = {}
    length = None
    for name, column in columns.items():
        try:
            array = np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("must be numbers, none missing", field=name) from None
        if array.ndim != (2 if name in MATRICES else 1):
            shape = "(levels, rows)" if name in MATRICES else "(rows,)"
            raise InvalidInput(f"must have shape {shape}, got {array.shape}", field=name)
        require(array.size != 0, name, "needs at least one row")
        length = array.shape[-1] if length is None else length
        if array.shape[-1] != length:
            raise InvalidInput(f"has {array.shape[-1]} rows where the first argument has {length}", field=name)
        missing = "must be finite; drop or fill the missing entries"
        InvalidInput.refuse_rows(~np.isfinite(array), missing, field=name)
        arrays[name] = array
    return arrays


def as_weights(weight: ArrayLike | None, rows: int) -> Array:
    """Row weights as float64 (rows,): ones by default, never negative, with a positive sum."""
    if weight is None:
        return np.ones(rows)
    weights = as_rows({"weight": weight})["weight"]
    require(weights.shape == (rows,), "weight", f"must have shape ({rows},), got {weights.shape}")
    InvalidInput.refuse_rows(weights < 0, "must not be negative", field="weight")
    require(weights.any(), "weight", "at least one must be positive")
    return weights


def as_binary(y: Array, field: str = "y") -> NDArray[np.bool_]:
    """Entries (N,) as booleans, refused unless each is 0 or 1."""
    InvalidInput.refuse_rows((y != 0) & (y != 1), "must be 0 or 1", field=field)
    return np.asarray(y != 0)


def as_probability(p: Array, field: str = "p") -> Array:
    """Probabilities (N,) as they are, refused unless each lies in [0, 1]."""
    InvalidInput.refuse_rows((p < 0) | (p > 1), "must lie in [0, 1]", field=field)
    return p


def mean_of(values: Array) -> Statistic:
    """The statistic of a weighted mean of ``values`` (N,)."""
    return lambda weight: ratio(weight @ values, weight.sum(axis=1))


def ratio(numerator: Array, denominator: Array) -> Array:
    """Quotient, NaN where the denominator is 0."""
    quotient = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient
