"""The rest of the money, too little for the next account at the price: one or two others change their level for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
    """Steps of some accounts to another level.

    place  int64 (n,), of the account among those of its side; ``level`` that it would get
    taken  (K, n), what the step takes of each priced budget
    gain   (n,), value of the step
    loss   (n,), score that it loses for each unit of the budget that it takes or gives back
    """

    place: NDArray[np.int64]
    level: NDArray[np.int64]
    taken: NDArray[np.float64]
    gain: NDArray[np.float64]
    loss: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> _Steps:
        return _Steps._make(column[..., rows] for column in self)

    @classmethod
    def joined(cls, parts: Iterable[_Steps]) -> _Steps:
        return cls._make(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True))


@dataclass
class Rest:
    """Steps that lose least at the price, :data:`MOST` of each side.

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
        fits = (own != 0) & free
        if choices.allowed is not None:
            fits &= choices.allowed
        to, rows = np.nonzero(fits)
        loss = (pick(scores, level)[rows] - scores[to, rows]) / np.abs(own[to, rows])
        found = _Steps(start + places[rows], to, taken[:, to, rows], gain[to, rows], loss)
        if side in self.steps:
            found = _Steps.joined([self.steps[side], found])
        self.steps[side] = found.take(np.argsort(found.loss, kind="stable")[:MOST])

    def levels(self) -> Levels:
        """Return the levels of the one or two accounts whose steps leave least of the budget, and bring enough for it.

        Of those that leave less than :data:`UNIT` the most valuable. O(MOST²).
        """
        sides = [side for side, steps in self.steps.items() for _ in steps.place]
        if not sides:
            return {}
        every = _Steps.joined(self.steps.values())
        order = np.argsort(every.loss, kind="stable")[:MOST]
        steps, sides = every.take(order), [sides[row] for row in order.tolist()]
        n = len(sides)
        # The last one is no step, for a pair with a single one.
        taken = np.pad(steps.taken, ((0, 0), (0, 1)))
        gain = np.append(steps.gain, 0.0)
        names = [f"{side} {place}" for side, place in zip(sides, steps.place.tolist(), strict=True)]
        account = np.append(np.unique(names, return_inverse=True)[1], -1)
        both = taken[:, :, None] + taken[:, None, :]
        value = gain[:, None] + gain[None]
        fits = (both <= self.room[:, None, None]).all(axis=0) & (account[:, None] != account[None])
        fits &= (both[self.of] > 0) & (value >= self.least * both[0]) & (value > 0)
        left = np.where(fits, self.room[self.of] - both[self.of], np.inf)
        if not fits.any():
            return {}
        score = np.where(left < UNIT, value, -np.inf)
        pair = np.unravel_index(score.argmax() if np.isfinite(score).any() else left.argmin(), left.shape)
        lifted: dict[Side, dict[int, int]] = {}
        for row in {int(at) for at in pair if at < n}:
            lifted.setdefault(sides[row], {})[int(steps.place[row])] = int(steps.level[row])
        return lifted
