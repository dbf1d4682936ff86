"""Response functions, one definition each, which training and serving both run.

A function takes the scores of a layer as torch tensors (training, rows of accounts (n, J)) or numpy arrays (serving,
rows of levels (J, N)) and gives the curve; ``axis`` is that of the levels.

A head is a function with its fitted weights, for the solver and a server without torch. It computes in float64 and
rounds only the result to float32, so that an embedding gives the same curve alone or in a batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.limits import OUTCOME
from shadowprice.responses.arrays import (
    RATE_SCALE,
    Array,
    affine,
    cumulative_hazard,
    library,
    line,
    redemption,
    sensitivity,
    sigmoid,
    softplus,
    two_towers,
)
from shadowprice.responses.layers.sides import Arrays, load_sides, save_sides

FILE, KINDS = "heads.safetensors", "kinds"
GUARDS = "guards"
LEAST_SPREAD, LARGEST_SPREAD = 1e-2, 3.0
"""Bounds of the deviation of a log amount: at 3 the mean is 90 times the median."""


class Head(Protocol):
    """A response head of one side; ``default_embedding`` is the population's mean, for accounts never seen."""

    kind: ClassVar[str]

    @property
    def levels(self) -> NDArray[np.int64]:
        """Minor units, (J,)."""

    @property
    def default_embedding(self) -> NDArray[np.float32]:
        """(D,)."""

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Expected response (J, N) of N accounts from their embeddings (N, D)."""

    @property
    def guards(self) -> Mapping[str, NDArray[np.float64]]:
        """Expected second outcomes (:attr:`Curves.guards`)."""

    def amounts(self, embedding: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Law (2, J, N) of the amount of a response (:attr:`Curves.amounts`); None where it was not learned."""


def spread(score: Array, floor: float) -> Array:
    """Standard deviation of the log amount from its score: ``floor`` + softplus(score), within the bounds."""
    value: Array = library(score).clip(cast(Any, softplus(score)) + floor, LEAST_SPREAD, LARGEST_SPREAD)
    return value


@dataclass(frozen=True, eq=False, kw_only=True)
class AmountHead:
    """log amount ~ N(w_j·h + b_j, spread(u·h + c)) given a response at level j; free in the level, rising or falling.

    amount_weight w (J, D), amount_bias b (J,), spread_weight u (D,), spread_bias c; None where a model has learned no
    amounts. Then all responses of the side have the mean and the deviation ``side_amounts``, float32 (2,), of the log
    amount; None where amounts are not modeled. O(N·J·D). ``guards``: name → (J,), expected second outcome of a request
    of the side at each level.
    """

    levels: NDArray[np.int64]
    side_amounts: NDArray[np.float32] | None = None
    amount_weight: NDArray[np.float32] | None = None
    amount_bias: NDArray[np.float32] | None = None
    spread_weight: NDArray[np.float32] | None = None
    spread_bias: float | None = None
    spread_floor: float | None = None
    guards: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def amounts(self, embedding: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """float32 (2, J, N): mean and standard deviation of the log amount of a response, in minor units."""
        if self.amount_weight is None or self.amount_bias is None or self.spread_weight is None:
            if self.side_amounts is None:
                return None
            return np.broadcast_to(self.side_amounts[:, None, None], (2, self.levels.size, len(embedding)))
        mean = affine(embedding, self.amount_weight, self.amount_bias)
        score: NDArray[Any] = affine(embedding, self.spread_weight[None], np.array([self.spread_bias]))
        deviation = np.broadcast_to(spread(score, self.spread_floor or 0.0), mean.shape)
        return np.stack([mean, deviation]).astype(np.float32)


def curves_of(head: Head, embedding: NDArray[np.float32]) -> Curves:
    """Return the curves of N accounts from their embeddings (N, D)."""
    return Curves(head.levels, head.response(embedding), amounts=head.amounts(embedding), guards=head.guards)


Allows = Callable[[NDArray[np.float32]], NDArray[np.bool_]]


def learns_amounts(head: Head) -> bool:
    """Return whether the amounts of a head differ by account."""
    return getattr(head, "amount_weight", None) is not None


def rule_of(head: Head) -> Allows | None:
    """Return the rule of a head, embeddings (N, D) → bool (J, N), the levels that may be given; None without one."""
    return getattr(head, "allowed", None)


def allowed_by(head: Head, embedding: NDArray[np.float32]) -> NDArray[np.bool_] | None:
    """bool (J, N): levels that may be given to the accounts, or None where a head has no rule."""
    rule = rule_of(head)
    return None if rule is None else rule(embedding)


@dataclass(frozen=True, eq=False, kw_only=True)
class HazardHead(AmountHead):
    """f_j = 1 − exp(−Λ_j), Λ_j = Λ_0 + Σ_{k≤j} (r_k − r_{k−1})·exp(w_k·h + b_k)  (S0 eq. 8–10).

    weight (J, D), bias (J,); base_weight (D,) and base_bias of Λ_0 = exp(w·h + b) where 0 is a level.
    O(N·J·D).
    """

    kind: ClassVar[str] = "hazard"
    levels: NDArray[np.int64]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    default_embedding: NDArray[np.float32]
    base_weight: NDArray[np.float32] | None = None
    base_bias: float | None = None

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Redemption probability (J, N), non-decreasing in the level."""
        base = None
        if self.base_weight is not None and self.base_bias is not None:
            base = affine(embedding, self.base_weight[None], np.array([self.base_bias]))
        width = self.levels.copy()
        width[1:] -= self.levels[:-1]
        score = affine(embedding, self.weight, self.bias)
        return _float32(redemption(cumulative_hazard(score, (width / RATE_SCALE)[:, None], base, axis=0)))


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearHead(AmountHead):
    """f(r) = max(0, softplus(w_g·h + b_g)·r + w_i·h + b_i): a share ratio cannot be negative (S0, merchants).

    slope_weight (D,), base_weight (D,). O(N·(J + D)).
    """

    kind: ClassVar[str] = "linear"
    levels: NDArray[np.int64]
    slope_weight: NDArray[np.float32]
    slope_bias: float
    base_weight: NDArray[np.float32]
    base_bias: float
    default_embedding: NDArray[np.float32]

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Expected response (J, N), non-decreasing in the level."""
        terms = affine(
            embedding, np.stack([self.slope_weight, self.base_weight]), np.array([self.slope_bias, self.base_bias])
        )
        return _float32(np.maximum(line(softplus(terms[:1]), self.levels[:, None] / RATE_SCALE, terms[1:]), 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class LogitHead(AmountHead):
    """f(r) = sigmoid(s·r + w_i·h + b_i): a logistic demand curve with a sensitivity s > 0 of each account.

    With K segments s = Σ_k softmax(V·h + c)_k · segment_slope_k (semi-black-box model); without ``segment_slope``,
    K = 1 and s = softplus(V·h + c) (S0 eq. 21). slope_weight V (K, D), slope_bias c (K,), segment_slope (K,) positive,
    base_weight (D,). O(N·(J + K·D)).
    """

    kind: ClassVar[str] = "logit"
    levels: NDArray[np.int64]
    slope_weight: NDArray[np.float32]
    slope_bias: NDArray[np.float32]
    base_weight: NDArray[np.float32]
    base_bias: float
    default_embedding: NDArray[np.float32]
    segment_slope: NDArray[np.float32] | None = None

    def sensitivity(self, embedding: NDArray[np.float32]) -> NDArray[np.float64]:
        """s of each account (N,), per ``RATE_SCALE`` minor units."""
        slope: NDArray[np.float64] = self._slope(embedding)[0]
        return slope

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Redemption probability (J, N), non-decreasing in the level."""
        base = affine(embedding, self.base_weight[None], np.array([self.base_bias]))
        return _float32(sigmoid(line(self._slope(embedding), self.levels[:, None] / RATE_SCALE, base)))

    def _slope(self, embedding: NDArray[np.float32]) -> NDArray[np.float64]:
        segments = None if self.segment_slope is None else self.segment_slope.astype(np.float64)
        return sensitivity(affine(embedding, self.slope_weight, self.slope_bias), segments, axis=0)


@dataclass(frozen=True, eq=False, kw_only=True)
class DssmHead(AmountHead):
    """f_j = sigmoid(u/‖u‖·level_weight_j + level_bias_j), u = out(relu(hidden(h))): the account's tower against levels.

    hidden_weight (T, D), out_weight (T, T), level_weight (J, T) with its scale, level_bias (J,). O(N·T·(D + J)).
    """

    kind: ClassVar[str] = "dssm"
    levels: NDArray[np.int64]
    hidden_weight: NDArray[np.float32]
    hidden_bias: NDArray[np.float32]
    out_weight: NDArray[np.float32]
    out_bias: NDArray[np.float32]
    level_weight: NDArray[np.float32]
    level_bias: NDArray[np.float32]
    default_embedding: NDArray[np.float32]

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Redemption probability (J, N)."""
        logit = two_towers(
            embedding,
            lambda h: affine(h, self.hidden_weight, self.hidden_bias),
            lambda hidden: affine(hidden.T, self.out_weight, self.out_bias),
            lambda tower: affine(tower.T, self.level_weight, self.level_bias),
            axis=0,
        )
        return _float32(sigmoid(logit))


@dataclass(frozen=True, eq=False, kw_only=True)
class PerLevelHead(AmountHead):
    """f_j = sigmoid(w_j·h + b_j), or max(0, w_j·h + b_j) where the response is no probability: levels in any order.

    weight (J, D), bias (J,). O(N·J·D).
    """

    kind: ClassVar[str] = "per_level"
    levels: NDArray[np.int64]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]
    default_embedding: NDArray[np.float32]
    probability: bool

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Expected response (J, N)."""
        score = affine(embedding, self.weight, self.bias)
        return _float32(sigmoid(score) if self.probability else np.maximum(score, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredHead(AmountHead):
    """The embedding is the curve: its first J numbers are the responses, whatever model computed them. O(N·J)."""

    kind: ClassVar[str] = "stored"
    levels: NDArray[np.int64]
    default_embedding: NDArray[np.float32]

    def response(self, embedding: NDArray[np.float32]) -> NDArray[np.float32]:
        """Expected response (J, N)."""
        return np.ascontiguousarray(embedding[:, : self.levels.size].T, dtype=np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeliveryHead(StoredHead):
    """The embedding holds the worth of each of J offers for the account, and behind it the account's risk tolerance.

    risk_level (J,), the least tolerance at which an offer may be given; −inf where anybody may. O(N·J).
    """

    kind: ClassVar[str] = "delivery"
    risk_level: NDArray[np.float64]

    def allowed(self, embedding: NDArray[np.float32]) -> NDArray[np.bool_]:
        """bool (J, N): offers that are not too risky for the account."""
        return np.asarray(self.risk_level[:, None] <= embedding[:, self.levels.size])


HEADS: dict[str, type[Head]] = {
    head.kind: head for head in (HazardHead, LinearHead, LogitHead, DssmHead, PerLevelHead, StoredHead, DeliveryHead)
}
"""Heads by name; a new one is a class with ``kind`` and an entry here."""
LAYERS = {
    "hazard": "shadowprice.responses.layers.hazard:HazardLayer",
    "cox": "shadowprice.responses.layers.hazard:CoxLayer",
    "sbbm": "shadowprice.responses.layers.sbbm:SbbmLayer",
    "dssm_c": "shadowprice.responses.layers.dssm_c:DssmLayer",
    "gradient_logit": "shadowprice.responses.layers.gradient_logit:GradientLogitLayer",
    "linear": "shadowprice.responses.layers.linear:LinearLayer",
    "per_level": "shadowprice.responses.layers.per_level:PerLevelLayer",
    "per_level_ratio": "shadowprice.responses.layers.per_level:PerLevelRatioLayer",
}
"""Response layers by name; a new one is a file here and an entry."""


def save_heads(heads: Mapping[Side, Head], folder: Path) -> None:
    """Write the heads of all sides to ``heads.safetensors`` in ``folder``, atomically."""
    parts = {side: (_arrays(head), head.kind) for side, head in heads.items()}
    save_sides(parts, folder / FILE, key=KINDS)


def _arrays(head: Head) -> Arrays:
    own = {name: value for name, value in vars(head).items() if value is not None and name != GUARDS}
    own |= {f"{OUTCOME}{name}": value for name, value in head.guards.items()}
    return {name: np.asarray(value) for name, value in own.items()}


def load_heads(folder: Path) -> dict[Side, Head]:
    """Read what :func:`save_heads` wrote.

    Raises:
        NotFound: there is no such file.
        InvalidInput: it is not a file of heads.
    """
    return load_sides(folder / FILE, _head, key=KINDS, kind="response heads")


def _head(arrays: Arrays, kind: str) -> Head:
    values: dict[str, Any] = {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()}
    guards = {name.removeprefix(OUTCOME): values.pop(name) for name in arrays if name.startswith(OUTCOME)}
    return HEADS[kind](**values, **({GUARDS: guards} if guards else {}))


def _float32(response: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(response, dtype=np.float32)
