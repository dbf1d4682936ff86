"""An ensemble of small calibrated lattices, monotone in the level (S1's baseline).

Each lattice reads the level and a few features drawn at random. A calibrator turns each input into a number in [0, 1];
that of the level never falls. The lattice interpolates between values at the 2^D corners of the cube; those at level 1
are those at level 0 plus something not negative. The logit is the sum of the lattices.

Source: Canini, Cotter, Gupta, Milani Fard and Pfeifer (2016).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from shadowprice.checks import require
from shadowprice.responses.arrays import inverse_softplus
from shadowprice.responses.tabular.network import LevelNetwork, TabularNetwork
from shadowprice.responses.tabular.rows import TabularInputs

KEYPOINTS = 8
"""Keypoints of a numeric calibrator, evenly spaced over ±``REACH`` standard deviations, flat beyond."""
REACH = 2.5


class LatticeEnsemble(LevelNetwork):
    """T lattices over the level and ``rank`` features each.

    A calibrator's value is a sigmoid of its parameters, so it stays in [0, 1] and trains without projection.
    """

    def __init__(
        self, inputs: TabularInputs, levels: NDArray[np.int64], lattices: int, rank: int, random: np.random.Generator
    ) -> None:
        super().__init__()
        numbers, sizes = inputs.numbers.width, inputs.sizes
        count = numbers + len(sizes)
        rank = min(rank, count)
        chosen = np.stack([random.permutation(count)[:rank] for _ in range(lattices)]).reshape(lattices, rank)
        self.numbers, self.rank, self.lattices = numbers, rank, lattices
        self.chosen: Tensor
        self.offset: Tensor
        self.register_buffer("chosen", torch.tensor(chosen, dtype=torch.int64))
        # One table of keypoint values per input and lattice: a number's keypoints, a category's values.
        width = [KEYPOINTS] * numbers + list(sizes)
        self.register_buffer("offset", torch.tensor(np.cumsum([0, *width])[:count], dtype=torch.int64))
        self.keypoint = nn.Parameter(torch.zeros(max(1, sum(width)), lattices))
        self.step = nn.Parameter(torch.zeros(lattices, max(0, len(levels) - 1)))
        corners = 2**rank
        self.low = nn.Parameter(torch.zeros(lattices, corners))
        self.rise = nn.Parameter(torch.zeros(lattices, corners))
        self.intercept = nn.Parameter(torch.zeros(()))
        nn.init.normal_(self.keypoint)
        nn.init.normal_(self.low, std=0.1)

    def calibrated_level(self) -> Tensor:
        """(T, J): from 0 at the lowest level to 1 at the highest."""
        share = torch.softmax(self.step, dim=1)
        return nn.functional.pad(torch.cumsum(share, dim=1), (1, 0))

    def corners(self, numeric: Tensor, category: Tensor) -> Tensor:
        """(n, T, 2^rank): weights of the corners of each lattice's features; they sum to 1."""
        table = torch.sigmoid(self.keypoint)
        inputs = []
        if self.numbers:
            place = ((numeric.clamp(-REACH, REACH) + REACH) / (2 * REACH) * (KEYPOINTS - 1)).clamp(0, KEYPOINTS - 1.001)
            below = place.floor()
            index = below.long() + self.offset[: self.numbers]
            between = (place - below)[:, :, None]
            inputs.append((1 - between) * table[index] + between * table[index + 1])
        if category.shape[1]:
            inputs.append(table[category + self.offset[self.numbers :]])
        weight = numeric.new_ones(numeric.shape[0], self.lattices, 1)
        if not inputs:
            return weight
        calibrated = torch.cat(inputs, dim=1)
        for k in range(self.rank):
            index = self.chosen[:, k].expand(calibrated.shape[0], 1, -1)
            value = calibrated.gather(1, index).squeeze(1)[:, :, None]
            weight = torch.cat([weight * (1 - value), weight * value], dim=2)
        return weight

    def ends(self, numeric: Tensor, category: Tensor) -> tuple[Tensor, Tensor]:
        """(n, T) twice: each lattice at level 0 and its rise to level 1, not negative."""
        corner = self.corners(numeric, category)
        return (corner * self.low).sum(dim=2), (corner * softplus(self.rise)).sum(dim=2)

    def forward(self, numeric: Tensor, category: Tensor) -> Tensor:
        """Logits (n, J)."""
        low, rise = self.ends(numeric, category)
        return self.intercept + low.sum(dim=1, keepdim=True) + rise @ self.calibrated_level()

    def at(self, numeric: Tensor, category: Tensor, level: Tensor) -> Tensor:
        """Logits (n,) at one level of each row."""
        low, rise = self.ends(numeric, category)
        found: Tensor = self.intercept + (low + rise * self.calibrated_level().T[level]).sum(dim=1)
        return found

    @torch.no_grad()
    def start(self, share: NDArray[np.float64]) -> None:
        """From the lowest level's mean to the highest one's, in equal parts."""
        logit = np.log(share / (1 - share))
        self.intercept.fill_(float(logit[0]))
        rise = max(float(logit[-1] - logit[0]), 0.1) / self.lattices
        self.rise.fill_(inverse_softplus(rise))


class LatticeModel(TabularNetwork[LatticeEnsemble]):
    """Options beside those of :class:`TabularNetwork`: ``lattices`` and ``rank``, features of a lattice."""

    monotone = True

    def __init__(
        self, levels: Sequence[int], seed: int = 0, *, lattices: int = 12, rank: int = 3, **options: Any
    ) -> None:
        super().__init__(levels, seed, **options)
        require(lattices > 0 and 0 < rank <= 8, "lattices", "needs at least one lattice, of 1 to 8 features")
        self.lattices, self.rank = lattices, rank

    def build(self, inputs: TabularInputs) -> LatticeEnsemble:
        return LatticeEnsemble(inputs, self.levels, self.lattices, self.rank, np.random.default_rng(self.seed))
