"""Response curves: the expected response of each account at each incentive level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shadowprice.errors import InvalidInput

AMOUNT = "amount"
"""Column with the amount of a row's response, and the worth of a response that is its expected amount."""
COLUMNS = ("response", "weight", "bits", "allowed", "owners", "granted", "worth", "amounts", "influence")
"""Arrays of :class:`Curves` whose last axis is that of the accounts."""


def expected_amounts(amounts: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """E[amount | response] = exp(mean + deviation²/2), minor units, of the log-normal laws of :attr:`Curves.amounts`.

    >>> expected_amounts(np.log([[[100.0]], [[np.e]]])).round(2).tolist()
    [[164.87]]
    """
    mean, deviation = np.asarray(amounts, dtype=np.float64)
    return np.asarray(np.exp(mean + 0.5 * deviation**2))


def check_levels(levels: ArrayLike, *, ordered: bool = True) -> NDArray[np.int64]:
    """Incentive levels as int64 minor units, refused unless non-negative and ascending.

    ``ordered`` levels are amounts of one thing and ascend strictly; offers without an order, such as vouchers for
    different goods, may have the same amount.
    """
    array = check_amounts(levels)
    if not ordered and np.any(np.diff(array) < 0):
        raise InvalidInput("must be ascending; sort the offers by amount", field="levels")
    if ordered and np.any(np.diff(array) <= 0):
        raise InvalidInput("must be strictly ascending; sort them and drop duplicates", field="levels")
    return array


def check_amounts(levels: ArrayLike) -> NDArray[np.int64]:
    """Amounts of levels in any order as int64 minor units, refused unless whole and not negative."""
    array = np.asarray(levels)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise InvalidInput("must be a non-empty list of amounts in minor units", field="levels")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array) & (array == np.rint(array))):
        raise InvalidInput("must be whole minor units (cents), not fractions", field="levels")
    if np.abs(array.astype(np.float64)).max() > 2**53:
        raise InvalidInput("must be below 2^53 minor units", field="levels")
    if array.min() < 0:
        raise InvalidInput("must not be negative", field="levels")
    return array.astype(np.int64)


@dataclass(frozen=True)
class Curves:
    """Expected response of N accounts at J incentive levels.

    levels    int64 (J,), minor units, ascending; equal ones are different offers of one amount
    response  float32 (J, N), level-major and C-contiguous: probability of redemption for a
              customer, expected ratio of shares for a merchant
    weight    float64 (N,), requests of each account relative to the others'; None: all equal
    path      ``.npy`` file that ``response`` is mapped from, for other processes; None where it is in memory
    bits      uint32 (N,), the further budgets that count the requests of each (:meth:`Campaign.coverage`); None: those
              of its side alone
    allowed   bool (J, N), the levels that rules allow; None: all
    owners    uint64 (2, N), hashes of account and partner of each column, 0 where there is no partner; None where no
              cap reads them
    granted   float32 (J, N), share of the requests that caps let a level be given to; None: all of them
    worth     float64 (N,), worth of a unit of each account's response, or (J, N) where it differs by level; None: the
              same for all
    influence  float64 (N,), value for the partners of each account of a minor unit that it is given; None: 0
    amounts   float32 (2, N) or (2, J, N), mean and standard deviation of the logarithm of the amount, in minor units,
              that a response of each account is about, or a unit of a merchant's; None where amounts are not modeled
    guards    name → float64 (J,), expected second outcome of a request at each level, the same for all accounts
    """

    levels: NDArray[np.int64]
    response: NDArray[np.float32]
    weight: NDArray[np.float64] | None = None
    path: Path | None = None
    bits: NDArray[np.uint32] | None = None
    allowed: NDArray[np.bool_] | None = None
    owners: NDArray[np.uint64] | None = None
    granted: NDArray[np.float32] | None = None
    worth: NDArray[np.float64] | None = None
    amounts: NDArray[np.float32] | None = None
    guards: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    influence: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        levels = check_levels(self.levels, ordered=False)
        response = np.ascontiguousarray(self.response, dtype=np.float32)
        if response.ndim != 2 or response.shape[0] != levels.size:
            raise InvalidInput(
                f"must have shape (levels, accounts) = ({levels.size}, N), got {response.shape}", field="response"
            )
        if self.weight is not None and self.weight.shape != response.shape[1:]:
            raise InvalidInput(f"must have shape {response.shape[1:]}, got {self.weight.shape}", field="weight")
        one = response.shape[1:]
        of_columns = (("bits", one), ("influence", one), ("owners", (2, *one)))
        for name, shape in (*of_columns, ("allowed", response.shape), ("granted", response.shape)):
            values = getattr(self, name)
            if values is not None and values.shape != shape:
                raise InvalidInput(f"must have shape {shape}, got {values.shape}", field=name)
        if self.worth is not None and self.worth.shape not in (response.shape[1:], response.shape):
            raise InvalidInput(f"must have shape {response.shape[1:]}, got {self.worth.shape}", field="worth")
        if self.amounts is not None and self.amounts.shape not in ((2, response.shape[1]), (2, *response.shape)):
            raise InvalidInput(f"must have shape {(2, *response.shape)}, got {self.amounts.shape}", field="amounts")
        for name, expected in self.guards.items():
            if expected.shape != levels.shape:
                raise InvalidInput(f"must have shape {levels.shape}, got {expected.shape}", field=name)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "response", response)

    @property
    def accounts(self) -> int:
        """Number of accounts N."""
        return int(self.response.shape[1])

    def take(self, index: ArrayLike) -> Curves:
        """The curves of the accounts at ``index`` (positions or a mask), in that order."""
        chosen = np.asarray(index)
        chosen = chosen if chosen.dtype == np.bool_ else chosen.astype(np.intp)
        return Curves(
            self.levels,
            self.response[:, chosen],
            None if self.weight is None else self.weight[chosen],
            bits=None if self.bits is None else self.bits[chosen],
            allowed=None if self.allowed is None else self.allowed[:, chosen],
            owners=None if self.owners is None else self.owners[:, chosen],
            granted=None if self.granted is None else self.granted[:, chosen],
            worth=None if self.worth is None else self.worth[..., chosen],
            amounts=None if self.amounts is None else self.amounts[..., chosen],
            guards=self.guards,
            influence=None if self.influence is None else self.influence[chosen],
        )

    def between(self, rows: slice) -> Curves:
        """Return the curves of accounts beside each other; their responses alone are copied."""
        parts: dict[str, Any] = {
            name: None if (values := getattr(self, name)) is None else values[..., rows] for name in COLUMNS
        }
        return Curves(self.levels, **parts, guards=self.guards)

    def mean(self) -> Curves:
        """Return one account that responds, and is worth at each level, as all do in the mean.

        Its amounts have the mean and deviation of the log amounts of all responses.
        """
        response = self.response.mean(axis=1, keepdims=True, dtype=np.float64)

        def of_one(each: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
            total = np.asarray((each * self.response).mean(axis=1, keepdims=True, dtype=np.float64))
            return np.asarray(np.divide(total, response, where=response > 0, out=np.zeros_like(total)))

        amounts = None
        if self.amounts is not None:
            log, deviation = self.amounts.astype(np.float64)
            mean = of_one(log)
            amounts = np.stack([mean, np.sqrt(of_one(deviation**2 + (log - mean) ** 2))]).astype(np.float32)
        worth = None if self.worth is None else of_one(self.worth)
        passed_on = None if self.influence is None else self.influence.mean(keepdims=True)
        return Curves(self.levels, response, worth=worth, amounts=amounts, guards=self.guards, influence=passed_on)

    def shares(self) -> NDArray[np.float64]:
        """float64 (N,): share of the requests that comes from each account.

        Raises:
            InvalidInput: weights that are negative or not finite, or no positive one.
        """
        if self.weight is None:
            return np.full(self.accounts, 1.0 / self.accounts)
        total = float(self.weight.sum())
        if not (np.isfinite(total) and total > 0 and self.weight.min() >= 0):
            raise InvalidInput("must be finite and not negative, and some positive", field="weight")
        return np.asarray(self.weight / total, dtype=np.float64)

    def sample(self, rows: int) -> Curves:
        """Return at most ``rows`` accounts, evenly spaced, with their weights; all of them where there are no more."""
        return self if self.accounts <= rows else self.take(np.linspace(0, self.accounts - 1, rows).astype(np.intp))

    @classmethod
    def concatenate(cls, parts: Sequence[Curves]) -> Curves:
        """Curves of several groups of accounts that share their levels; all of them are marked, or none is."""
        if not parts:
            raise InvalidInput("needs at least one part", field="parts")
        if any(not np.array_equal(part.levels, parts[0].levels) for part in parts):
            raise InvalidInput("all parts must share one list of levels", field="levels")
        weighted = any(part.weight is not None for part in parts)
        weights = [np.ones(part.accounts) if part.weight is None else part.weight for part in parts]
        response = np.concatenate([part.response for part in parts], axis=1)
        bits = [part.bits for part in parts if part.bits is not None]
        allowed = [part.allowed for part in parts if part.allowed is not None]
        owners = [part.owners for part in parts if part.owners is not None]
        worth = [part.worth for part in parts if part.worth is not None]
        amounts = [part.amounts for part in parts if part.amounts is not None]
        influence = [part.influence for part in parts if part.influence is not None]
        return cls(
            parts[0].levels,
            response,
            np.concatenate(weights) if weighted else None,
            bits=np.concatenate(bits) if bits else None,
            allowed=np.concatenate(allowed, axis=1) if allowed else None,
            owners=np.concatenate(owners, axis=1) if owners else None,
            worth=np.concatenate(worth, axis=-1) if worth else None,
            amounts=np.concatenate(amounts, axis=-1) if amounts else None,
            guards=parts[0].guards,
            influence=np.concatenate(influence) if influence else None,
        )
