"""Boosting of trees with an early stop, and the log-normal law of amounts that trees learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray

from shadowprice.responses.layers.heads import LARGEST_SPREAD, LEAST_SPREAD

MONOTONE = ("monotone_constraints", "monotone_constraints_method")


@dataclass(frozen=True)
class Boosting:
    """Parameters of boosted trees.

    parameters  of LightGBM
    names       of the features
    categories  those of them that are codes of categories
    trees       at most
    patience    trees without a better loss of the held-out rows before stopping
    """

    parameters: Mapping[str, Any]
    names: Sequence[str]
    categories: Sequence[str]
    trees: int
    patience: int

    def fit(
        self,
        features: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        outside: NDArray[np.bool_],
        **changed: Any,
    ) -> lightgbm.Booster:
        """Boost on rows (n, F) until the loss of those ``outside`` has not fallen for ``patience`` trees.

        ``changed`` are parameters to replace; None leaves one out.
        """

        def rows(inside: NDArray[np.bool_], reference: lightgbm.Dataset | None = None) -> lightgbm.Dataset:
            return lightgbm.Dataset(
                features[inside],
                y[inside],
                weight=weight[inside],
                feature_name=list(self.names),
                categorical_feature=list(self.categories),
                reference=reference,
                free_raw_data=False,
            )

        parameters = {name: value for name, value in {**self.parameters, **changed}.items() if value is not None}
        train = rows(~outside)
        stop = [lightgbm.early_stopping(self.patience, verbose=False)] if outside.any() else []
        valid = [rows(outside, train)] if outside.any() else []
        # Without held-out accounts there is nothing to stop by; a tenth of the trees is a cautious guess.
        trees = self.trees if valid else max(1, self.trees // 10)
        return lightgbm.train(parameters, train, trees, valid_sets=valid, callbacks=stop)


@dataclass(frozen=True, eq=False)
class AmountTrees:
    """Mean log amount of a response by trees, in minor units, free in the level, and the deviation around it."""

    booster: lightgbm.Booster
    deviation: float

    @classmethod
    def fit(
        cls,
        boosting: Boosting,
        features: NDArray[np.float64],
        amount: NDArray[np.float64],
        weight: NDArray[np.float64],
        outside: NDArray[np.bool_],
    ) -> Self:
        """Learn from rows (n, F) that responded; the deviation is that of the held-out rows, where there are some."""
        outside = outside & (not outside.all())
        target = np.log(amount)
        free = dict.fromkeys(MONOTONE)
        booster = boosting.fit(features, target, weight, outside, objective="regression", **free)
        judged = outside if outside.any() else np.ones(outside.size, dtype=np.bool_)
        error = target[judged] - booster.predict(features[judged])
        deviation = float(np.sqrt(np.average(error**2, weights=weight[judged])))
        return cls(booster, float(np.clip(deviation, LEAST_SPREAD, LARGEST_SPREAD)))

    def law(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """(2, n): mean and standard deviation of the log amount of a response."""
        mean = np.asarray(self.booster.predict(features), dtype=np.float64)
        return np.stack([mean, np.full(mean.size, self.deviation)])


def as_bytes(booster: lightgbm.Booster) -> NDArray[np.uint8]:
    """LightGBM's text model, up to its best tree."""
    return np.frombuffer(booster.model_to_string(num_iteration=booster.best_iteration).encode(), dtype=np.uint8)


def from_bytes(text: NDArray[Any]) -> lightgbm.Booster:
    """Read what :func:`as_bytes` gave."""
    return lightgbm.Booster(model_str=text.tobytes().decode())
