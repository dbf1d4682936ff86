"""The rest of the money, too little for the next account at the price: one or two others take a dearer level for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.solution import pick
from shadowprice.campaign import Side
from shadowprice.policy import Choices

MOST = 512
"""Steps of which two are chosen."""
UNIT = 1.0
"""Minor units that may be left."""
Levels = Mapping[Side, Mapping[int, int]]
"""Side → place of an account among those of its side → its level."""


class _Steps(NamedTuple):
    """Steps to a dearer level of some accounts.

    place  int64 (n,), of the account among those of its side; ``level`` that it would get
    taken  (K, n), what the step takes of each priced budget
    gain   (n,), value of the step
    loss   (n,), score that it loses for each unit of the budget
    """

    place: NDArray[np.int64]
    level: NDArray[np.int64]
    taken: NDArray[np.float64]
    gain: NDArray[np.float64]
    loss: NDArray[np.float64]

    def take(self, rows: Any) -> _Steps:
        return _Steps(*(column[..., rows] for column in self))


@dataclass
class Rest:
    """Steps that the rest of the money pays for, the best :data:`MOST` of each side.

    room   (K,), minor units left of each priced budget; infinite where it is no upper limit
    least  value that a minor unit of the main budget must bring
    of     place of the budget whose rest is used
    """

    room: NDArray[np.float64]
    least: float
    of: int = 0
    steps: dict[Side, _Steps] = field(default_factory=dict)

    def add(
        self,
        side: Side,
        start: int,
        choices: Choices,
        prices: list[float],
        level: NDArray[np.int32],
        places: NDArray[np.intp],
        free: NDArray[np.bool_],
    ) -> None:
        """Take the steps of a part: m accounts, whose places are ``start`` + ``places``, of which ``free`` may step."""
        charges, scores = np.asarray(choices.charges), choices.scores(prices)
        taken = charges - np.stack([pick(charge, level) for charge in charges])[:, None]
        gain = choices.value - pick(choices.value, level)
        own = taken[self.of]
        fits = (own > 0) & free & (gain >= self.least * taken[0])
        fits &= (taken <= self.room[:, None, None]).all(axis=0)
        if choices.allowed is not None:
            fits &= choices.allowed
        to, rows = np.nonzero(fits)
        loss = (pick(scores, level)[rows] - scores[to, rows]) / own[to, rows]
        found = _Steps(start + places[rows], to, taken[:, to, rows], gain[to, rows], loss)
        if side in self.steps:
            found = _Steps(*(np.concatenate(pair, axis=-1) for pair in zip(self.steps[side], found, strict=True)))
        self.steps[side] = found.take(np.argsort(found.loss, kind="stable")[:MOST])

    def levels(self) -> Levels:
        """Return the levels of the one or two accounts whose steps leave least of the budget.

        Of those that leave less than :data:`UNIT` the most valuable. O(MOST²).
        """
        sides = [side for side, steps in self.steps.items() for _ in steps.place]
        if not sides:
            return {}
        every = _Steps(*(np.concatenate(columns, axis=-1) for columns in zip(*self.steps.values(), strict=True)))
        order = np.argsort(every.loss, kind="stable")[:MOST]
        steps, sides = every.take(order), [sides[row] for row in order.tolist()]
        n = len(sides)
        # The last one is no step, for a pair with a single one.
        taken = np.pad(steps.taken, ((0, 0), (0, 1)))
        gain = np.append(steps.gain, 0.0)
        names = [f"{side} {place}" for side, place in zip(sides, steps.place.tolist(), strict=True)]
        account = np.append(np.unique(names, return_inverse=True)[1], -1)
        both = taken[:, :, None] + taken[:, None, :]
        fits = (both <= self.room[:, None, None]).all(axis=0) & (account[:, None] != account[None])
        left = np.where(fits, self.room[self.of] - both[self.of], np.inf)
        if not fits.any():
            return {}
        score = np.where(left < UNIT, gain[:, None] + gain[None], -np.inf)
        pair = np.unravel_index(score.argmax() if np.isfinite(score).any() else left.argmin(), left.shape)
        lifted: dict[Side, dict[int, int]] = {}
        for row in {int(at) for at in pair if at < n}:
            lifted.setdefault(sides[row], {})[int(steps.place[row])] = int(steps.level[row])
        return lifted
