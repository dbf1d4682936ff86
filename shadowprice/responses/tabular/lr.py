"""Logistic regression on the features and the level: the linear baseline of S1 and S3.

    logit f(x, d_j) = b + β·x + Σ_k E_jk w_k

where row j of E stands for level j. With a row of its own for each level but the first the levels have no order. With
the isotonic embedding and w ≥ 0 the curve never falls (S1, section 5, a baseline): one curve for all in logits, shifted
by the features. That fit is convex; without features it is the pooled adjacent violators' solution, because both are
the maximum of the same likelihood over monotone curves.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.state import State
from shadowprice.responses.tabular.isotonic import isotonic_embedding
from shadowprice.responses.tabular.network import check_probabilities, mean_by_level
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.weights import row_weights

Array = NDArray[np.float64]


class LogisticRegression(ResponseModel):
    """Weighted maximum likelihood with an L2 penalty on β; every level has an intercept of its own.

    Options:
        l2: half of it times |β|² is added to the mean log loss; intercept and level weights are free.

    O(iterations · rows · features).
    """

    ordered = False
    lowest_weight = -30.0
    """Bound of the level weights; a weight of 30 is a response of 1 to the last digit."""

    def embedding(self) -> Array:
        """(J, J − 1): what stands for each level."""
        return np.eye(self.levels.size)[:, 1:]

    def start(self, logits: Array) -> Array:
        """(J,): where b + E·w starts, from the logits of the levels' mean responses."""
        return logits

    def __init__(self, levels: Sequence[int], seed: int = 0, *, l2: float = 1e-4) -> None:
        super().__init__(levels, seed)
        require(l2 >= 0, "l2", "must not be negative")
        self.l2 = l2
        self.inputs: TabularInputs | None = None
        self.coefficient: Array = np.zeros(0)
        self.intercept = 0.0
        self.weight: Array = np.zeros(0)

    def fit(self, frame: pd.DataFrame) -> Self:
        """Fit by L-BFGS-B with bounds."""
        self.check_frame(frame)
        check_probabilities(frame)
        weight = row_weights(frame, self.levels.size)
        weight = weight / weight.sum()
        inputs = fit_tabular(frame)
        features = inputs.dense(frame)
        level, y = frame["level"].to_numpy(dtype=np.int64), frame["response"].to_numpy(dtype=np.float64)
        embedding = self.embedding()
        size, width = self.levels.size, features.shape[1]

        def objective(value: Array) -> tuple[float, Array]:
            curve, beta = value[0] + embedding @ value[1:size], value[size:]
            score = curve[level] + features @ beta
            loss = weight @ (np.logaddexp(0.0, score) - y * score) + 0.5 * self.l2 * beta @ beta
            error = weight * (expit(score) - y)
            by_level = np.bincount(level, error, minlength=size)
            return float(loss), np.concatenate(
                [[by_level.sum()], embedding.T @ by_level, features.T @ error + self.l2 * beta]
            )

        start = self.start(logit(mean_by_level(frame, weight, size)))
        slopes = np.linalg.lstsq(embedding, start - start[0], rcond=None)[0]
        solution = minimize(
            objective,
            np.concatenate([start[:1], slopes, np.zeros(width)]),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-30.0, 30.0)] + [(self.lowest_weight, 30.0)] * (size - 1) + [(None, None)] * width,
            options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-9},
        )
        self.inputs = inputs
        self.intercept, self.weight = float(solution.x[0]), solution.x[1:size]
        self.coefficient = solution.x[size:]
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the rows."""
        if self.inputs is None:
            raise InvalidInput("fit the model before asking for curves", field="model")
        # Summed column by column: a matrix product may add in another order for another number of rows.
        shift = np.einsum("nd,d->n", self.inputs.dense(frame), self.coefficient, optimize=False)
        base = self.intercept + self.embedding() @ np.maximum(self.weight, self.lowest_weight)
        return Curves(self.levels, expit(base[:, None] + shift).astype(np.float32))

    def state(self) -> State:
        """Coefficients and features."""
        if self.inputs is None:
            raise InvalidInput("fit the model before saving it", field="model")
        arrays = {"intercept": np.array(self.intercept), "weight": self.weight, "coefficient": self.coefficient}
        return State(arrays, {"inputs": self.inputs.to_dict()})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``."""
        self.inputs = TabularInputs.from_dict(state.meta["inputs"])
        self.intercept = float(state.arrays["intercept"])
        self.weight, self.coefficient = state.arrays["weight"], state.arrays["coefficient"]


class IsotonicLogisticRegression(LogisticRegression):
    """:class:`LogisticRegression` whose curves never fall in the level."""

    monotone = True
    ordered = True
    lowest_weight = 0.0

    def embedding(self) -> Array:
        """(J, J − 1): a 1 for every level up to and with the row's, the lowest left out."""
        return isotonic_embedding(self.levels.size)

    def start(self, logits: Array) -> Array:
        """(J,): never falling."""
        return np.asarray(np.maximum.accumulate(logits))
