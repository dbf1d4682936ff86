"""``misspecified``: simulated trials with known truth, on which a small predictor fits the wrong effect.

    x ~ N(0, I),   value_j = nuisance·m(x) + effect_j(x) + noise,   cost_j = r_j·(½ + σ(1.5·a·x)) + noise

The effect of the levels, concave in the level and different from account to account, has standard deviation 1;
the main effect m(x), three folds |w_k·x|, has ``nuisance`` (20) times that and is the same at every level. A
network just wide enough for the folds spends itself on them, and its squared error hardly notices the effect,
which is all that a decision needs. With ``nuisance`` 0 the same network is well specified.

Logged rows are observational. Accounts that seemed likely to gain were given more. So were accounts that did well for
reasons that no feature shows (``hidden``), so the outcome of a level is partly its cause.

Everything here is simulated. The paper's own generator (S4) is not public; this one is ours.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.errors import InvalidInput

LEVELS = (0, 100, 200, 300)
"""Minor units."""
FOLDS = 3
NOISE = 1.0
COST_NOISE = 0.2
"""Standard deviation of a cost, as a share of its mean."""


@dataclass(frozen=True, eq=False)
class SimulatedTrial:
    """N rows, and what every level would have done.

    frame        account_id, level, response (the value), cost (minor units), propensity, exploration, x_0 …; the
                 propensity of a logged row is NaN: it is unknown
    levels       minor units, (J,)
    value, cost  float64 (J, N), the expectations
    """

    frame: pd.DataFrame
    levels: tuple[int, ...]
    value: NDArray[np.float64]
    cost: NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Complete truth of a population.

    seed      of its coefficients
    nuisance  standard deviation of the main effect, that of the levels' effect being 1
    features  number of them
    hidden    size of the unobserved cause in logged rows
    """

    seed: int = 0
    nuisance: float = 20.0
    features: int = 8
    hidden: float = 1.0

    def __post_init__(self) -> None:
        if self.features < 1:
            raise InvalidInput("must be at least 1", field="features")
        if self.nuisance < 0 or self.hidden < 0:
            raise InvalidInput("must not be negative", field="nuisance" if self.nuisance < 0 else "hidden")

    def trial(self, rows: int, seed: int = 0) -> SimulatedTrial:
        """Rows whose level was drawn evenly."""
        return self._draw(rows, [seed, 0], logged=False)

    def logged(self, rows: int, seed: int = 0) -> SimulatedTrial:
        """Rows whose level a targeting policy chose."""
        return self._draw(rows, [seed, 1], logged=True)

    def expectations(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """True value and cost (J, N) of accounts with features x (N, D)."""
        gain, spend, folds = self._coefficients()
        amount = np.array(LEVELS)[:, None] / LEVELS[-1]
        # The effect's standard deviation over accounts and levels is 1 up to sampling.
        effect = 2.2 * (np.tanh(x @ gain) + 0.2) * amount**0.7
        main = np.abs(x @ folds.T).sum(axis=1)
        center, spread = np.sqrt(2 / np.pi) * FOLDS, np.sqrt((1 - 2 / np.pi) * FOLDS)
        value = self.nuisance * (main - center) / spread + effect
        cost = np.array(LEVELS)[:, None] * (0.5 + 1 / (1 + np.exp(-1.5 * (x @ spend))))
        return value, cost

    def _coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        random = np.random.default_rng([self.seed, 2])
        vectors = random.normal(size=(2 + FOLDS, self.features))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors[0], vectors[1], vectors[2:]

    def _draw(self, rows: int, seed: list[int], *, logged: bool) -> SimulatedTrial:
        if rows < 1:
            raise InvalidInput("must be at least 1", field="rows")
        random = np.random.default_rng([self.seed, *seed])
        x = random.normal(size=(rows, self.features))
        value, cost = self.expectations(x)
        index, size = np.arange(rows), len(LEVELS)
        cause = random.normal(size=rows)
        if logged:
            push = np.tanh(x @ self._coefficients()[0]) + self.hidden * cause
            odds = np.exp(push * np.linspace(-1, 1, size)[:, None])
            chance = odds / odds.sum(axis=0)
            level = (random.random(rows) > chance.cumsum(axis=0)).sum(axis=0).clip(max=size - 1)
        else:
            level = random.integers(0, size, rows)
        noise = NOISE * random.normal(size=rows) + (self.hidden * cause if logged else 0.0)
        paid = cost[level, index] * (1 + COST_NOISE * random.normal(size=rows))
        kind = "logged" if logged else "trial"
        frame = pd.DataFrame(
            {
                "account_id": [f"{kind}-{seed[0]}-{i}" for i in index],
                "level": level,
                "response": value[level, index] + noise,
                "cost": np.maximum(paid, 0).round(),
                "propensity": np.nan if logged else 1 / size,
                "exploration": not logged,
                **{f"x_{k}": x[:, k] for k in range(self.features)},
            }
        )
        return SimulatedTrial(frame, LEVELS, value, cost)
