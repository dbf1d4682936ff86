"""Row baselines: the mean of a row's predictions over the levels, by models that have not seen the row's outcome."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.evaluation.policy.off_policy import cross_fitted
from shadowprice.responses.training.config import Progress, TrainingConfig
from shadowprice.responses.uplift.two_outcome import TwoOutcomeModel


def row_baselines(
    frame: pd.DataFrame,
    levels: Sequence[int],
    *,
    network: str,
    hidden: int,
    training: TrainingConfig,
    progress: Progress | None = None,
    folds: int = 3,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Predict the value and the cost of each row, averaged over the levels; (n, 2).

    Every fold of accounts, of which there are two at least, is predicted by a first stage with the given ``network``,
    ``hidden`` and ``training``, fitted on the other folds (Chernozhukov et al. 2018). A row's baseline depends on
    neither its level nor its outcome, so that the expectation of a goal stays as it is.
    """
    # A first stage reads neither column, and the rows outside a fold need not include one whose level was drawn.
    plain = frame.drop(columns=["exploration", "propensity"], errors="ignore")

    def fit_predict(train: NDArray[np.bool_], test: NDArray[np.bool_]) -> NDArray[np.float64]:
        model = FirstStage(levels, seed, network=network, hidden=hidden, training=training)
        model.progress = progress
        model.fit(plain[train])
        rows = plain[test]
        return np.stack([curves.mean(axis=0) for curves in (model.curve(rows).response, model.cost(rows))])

    account = frame["account_id"].to_numpy(dtype=str)
    return cross_fitted(fit_predict, account, folds=min(folds, np.unique(account).size), seed=seed).T


class FirstStage(TwoOutcomeModel):
    """Two-outcome model with the network of a given name."""

    def __init__(self, levels: Sequence[int], seed: int, *, network: str, hidden: int, training: TrainingConfig):
        super().__init__(levels, seed, hidden=hidden, training=training)
        self.network_name = network  # type: ignore[misc]
