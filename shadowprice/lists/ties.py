"""The tie share at which a list uses its money: tied accounts take the dearer level in the order of their hashes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shadowprice.decision import Decision, uniform
from shadowprice.policy import Choices

SLACK = 1e-9
"""Minor units that sums may be above the money, relative to its size, for floating point."""


@dataclass
class Tied:
    """Accounts that tie: the number of each that the tie share is compared with, and what its step takes.

    drawn  (n,) in parts
    steps  (K, n) in parts, what the dearer level takes of each priced budget above the cheaper one
    """

    drawn: list[NDArray[np.float64]] = field(default_factory=list)
    steps: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, choices: Choices, chosen: Decision, request_id: Sequence[str], among: NDArray[np.bool_]) -> None:
        """Take the accounts of a part that tie, ``among`` some of them."""
        rows = np.flatnonzero(chosen.tied & among)
        cheap, dear = chosen.policy.cheap[rows], chosen.policy.dear[rows]
        charges = np.asarray(choices.charges)
        self.drawn.append(np.array([uniform(request_id[row]) for row in rows.tolist()]))
        self.steps.append(charges[:, dear, rows] - charges[:, cheap, rows])


def share_that_fits(share: float, room: NDArray[np.float64], tied: Tied) -> tuple[float, NDArray[np.float64]]:
    """Return the tie share nearest to ``share`` at which as many accounts take the dearer level as the money pays for.

    The second value is what they then take of each priced budget, (K,).

    Args:
        share: that uses the money in expectation.
        room: (K,), minor units that the steps may take of each priced budget; infinite where it is no upper limit.
        tied: the accounts.

    O(n log n).
    """
    drawn = np.concatenate(tied.drawn)
    order = np.argsort(drawn, kind="stable")
    paid = np.cumsum(np.concatenate(tied.steps, axis=1)[:, order], axis=1)
    over = (paid > (room + SLACK * np.maximum(1.0, np.abs(room)))[:, None]).any(axis=0)
    fits = int(over.argmax()) if over.any() else drawn.size
    # An account takes the dearer level where its number is below the share.
    least = np.nextafter(drawn[order[fits - 1]], 1.0) if fits else 0.0
    most = drawn[order[fits]] if fits < drawn.size else 1.0
    return float(min(max(share, least), most)), paid[:, fits - 1] if fits else np.zeros_like(room)
