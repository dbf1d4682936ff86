"""Best curves of ``world``'s accounts given their own trial outcomes besides features and graph."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.world.information import NODES, Belief
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.datasets.world import customer_response, merchant_response
from shadowprice.datasets.world.graph import TRAITS
from shadowprice.learning.training_set import TrainingSet
from shadowprice.tables import Tables

Array = NDArray[np.float64]


def posterior_curves(
    data: TrainingSet, tables: Tables, account_id: NDArray[np.str_], known: Belief, *, own_outcomes: bool
) -> Mapping[Side, Curves]:
    """Mean curves (J, N) of the accounts that are served under the law of their strengths, by quadrature.

    Args:
        data: what is served and the trial rows; tables: what they were made of.
        account_id: of the accounts of ``known``.
        known: law of the strengths before any outcome.
        own_outcomes: whether an account's own trial rows add what they tell: redemptions, and counts of shares.
    """
    found: dict[Side, Curves] = {}
    point, mass = np.polynomial.hermite_e.hermegauss(NODES)
    grid = np.stack(np.meshgrid(point, point, indexing="ij"), axis=-1).reshape(-1, TRAITS)
    prior = np.log(np.outer(mass, mass).ravel() / mass.sum() ** 2)
    for side in data.serving:
        respond = customer_response if side == "customer" else merchant_response
        accounts = data.serving[side]["account_id"].to_numpy(dtype=str)
        node = pd.Index(account_id).get_indexer(pd.Index(accounts))
        root = np.linalg.cholesky(known.covariance[node] + 1e-12 * np.eye(TRAITS))
        curves = [respond(known.mean[node] + root @ place) for place in grid]
        log_mass = np.repeat(prior[:, None], node.size, axis=1)
        if own_outcomes:
            log_mass += np.stack([_log_likelihood(data.rows[side], tables, accounts, each, side) for each in curves])
        weight = np.exp(log_mass - log_mass.max(axis=0))
        weight /= weight.sum(axis=0)
        mean = sum(w * curve for w, curve in zip(weight, curves, strict=True))
        found[side] = Curves(np.asarray(data.levels[side]), np.asarray(mean, dtype=np.float32))
    return found


def _log_likelihood(rows: pd.DataFrame, tables: Tables, accounts: NDArray[np.str_], curves: Array, side: Side) -> Array:
    """(N,): log-likelihood of each account's own trial rows under curves (J, N), up to a constant."""
    column = pd.Index(accounts).get_indexer(pd.Index(rows["account_id"]))
    hits, tries = hits_and_tries(rows, tables, side)
    mean = curves[rows["level"].to_numpy(dtype=np.int64), column]
    each = hits * np.log(mean) + ((tries - hits) * np.log1p(-mean) if side == "customer" else -tries * mean)
    return np.bincount(column, weights=each, minlength=accounts.size).astype(np.float64)


def hits_and_tries(rows: pd.DataFrame, tables: Tables, side: Side) -> tuple[Array, Array]:
    """Redemptions of customers and 1, or shares of merchants and shares before, of each trial row (n,)."""
    if side == "customer":
        return np.asarray(rows["response"] > 0.5, dtype=np.float64), np.ones(len(rows))
    outcome = tables.outcome.set_index("request_id").loc[rows["request_id"]]
    before = np.maximum(outcome["share_count_before"].to_numpy(dtype=np.float64), 1.0)
    return outcome["share_count"].to_numpy(dtype=np.float64), before
