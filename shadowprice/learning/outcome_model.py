"""Outcomes of replayed requests: the known truth, or a fitted outcome model where there is none."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import SIDES, Side
from shadowprice.curves import Curves
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.truth import true_curves
from shadowprice.decision import uniform
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.train import train
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.pacing.replay.outcomes import NamedCurves
from shadowprice.progress import ProgressBar
from shadowprice.responses.training import TrainingConfig

SEED_OFFSET = 1000
"""Keeps the outcome model's random numbers apart from those of the model it judges."""
HELD_OUT = 0.25
"""Share of the test accounts on which the outcome model is stopped and calibrated."""
RECIPE = "joint_dnn_h"
SESSION_RECIPE = "wdl"
"""Recipe of sessions: it reads profile and voucher, and no graph."""
MOST_ACCOUNTS, MOST_EPOCHS, PATIENCE = 20_000, 100, 20
"""Accounts of each side that the outcome model learns from, and epochs of its training: what it takes depends
neither on the size of a population nor on the model that is rehearsed."""


def outcome_rows(data: TrainingSet) -> TrainingSet:
    """Return the rows that an outcome model may learn from: the test split, dealt into training and validation.

    The served model is fitted on the training split, and stopped, calibrated and repaired on the validation split, so
    these are the rows that it has not seen. They are dealt by account, by a hash that depends on the account alone; so
    are the accounts chosen where there are more than :data:`MOST_ACCOUNTS` of a side. A side with one test account has
    its rows in both.
    """
    rows = {}
    for side, test in data.part("test").items():
        names, place = np.unique(test["account_id"].to_numpy(dtype=str), return_inverse=True)
        draw = np.array([uniform(f"outcome/{account}") for account in names])
        taken = np.argsort(draw, kind="stable")[:: -(-names.size // MOST_ACCOUNTS) or 1]
        held_out = draw < HELD_OUT
        if names.size > 1:
            # Chance may deal all of a few accounts alike.
            held_out[taken[0]], held_out[taken[-1]] = True, False
        kept = np.isin(place, taken)
        split = np.where(held_out[place], "validation", "train")
        rows[side] = test.assign(split=split)[kept].reset_index(drop=True)
        if names.size == 1:
            rows[side] = pd.concat([rows[side].assign(split=part) for part in ("train", "validation")])
    return replace(data, rows=rows)


def fit_outcome_model(data: TrainingSet, seed: int, epochs: int = 0) -> Mapping[Side, Curves]:
    """Curves (J, n) of the accounts in ``data.serving``, by a model that shares no labeled row with the one served.

    The model has another recipe and another seed, and is fitted on :func:`outcome_rows`. It shares the served model's
    features and assumptions: figures measured against it are simulated. It reads no ties, so its training takes as
    many nodes as its rows name: at most :data:`MOST_EPOCHS` epochs of :data:`MOST_ACCOUNTS` accounts of each side.

    Args:
        data: the training set.
        seed: of the run.
        epochs: at most, as for the model that is served; 0: :data:`MOST_EPOCHS`.
    """
    own = outcome_rows(data)
    if data.inputs.sessions is not None:
        return train(own, SESSION_RECIPE, TrainingConfig(seed=seed + SEED_OFFSET))[0].curves(data.inputs, data.serving)
    asked = data.seeing([_alone(snapshot) for snapshot in data.snapshots])
    named = np.unique(np.concatenate([_named(rows) for rows in own.rows.values()]))
    learnt = own.seeing([_alone(snapshot, named) for snapshot in data.snapshots])
    most = min(epochs or MOST_EPOCHS, MOST_EPOCHS)
    config = TrainingConfig(epochs=most, patience=PATIENCE, seed=seed + SEED_OFFSET)
    with ProgressBar("outcome model", most, "epoch") as shown:
        model, _ = train(learnt, RECIPE, config, report=shown.epoch)
    model.calibrate(learnt.inputs, learnt.part("validation"))
    return model.curves(asked.inputs, data.serving)


def _named(rows: pd.DataFrame) -> NDArray[np.str_]:
    """Accounts and partners of some requests."""
    return np.concatenate([rows[name].dropna().to_numpy(dtype=str) for name in ("account_id", "partner_id")])


def _alone(snapshot: GraphSnapshot, accounts: NDArray[np.str_] | None = None) -> GraphSnapshot:
    """Return a snapshot without ties, and of some accounts alone where they are given."""
    nodes = np.arange(snapshot.nodes) if accounts is None else snapshot.find(accounts)
    nodes = nodes[nodes >= 0]
    return GraphSnapshot(
        account_id=np.asarray(snapshot.account_id[nodes]),
        is_side=np.asarray(snapshot.is_side[:, nodes]),
        names=snapshot.names,
        features={side: np.asarray(snapshot.features[side][nodes]) for side in SIDES if side in snapshot.features},
        edge_index=np.zeros((2, 0), dtype=np.int64),
        edge_names=(),
        edge_features=np.zeros((0, 0), dtype=np.float32),
        at=snapshot.at,
    )


def truth_of(dataset: Dataset, data: TrainingSet, seed: int, epochs: int = 0) -> dict[Side, Curves]:
    """Curves of the accounts in ``data.serving`` that outcomes are drawn from; see :func:`truth_note`.

    They are the generator's, or those of an outcome model that is fitted with ``seed`` and ``epochs``.
    """
    if dataset.truth is None:
        return dict(fit_outcome_model(data, seed, epochs))
    return {
        side: Curves(
            np.asarray(data.levels[side]),
            true_curves(dataset.truth, side, serving["account_id"], len(data.levels[side])).astype(np.float32),
        )
        for side, serving in data.serving.items()
    }


def populations(data: TrainingSet, curves: Mapping[Side, Curves], coverage: Coverage) -> dict[Side, NamedCurves]:
    """Name the accounts of the curves of :func:`truth_of`, with their worth and the amounts of the test rows."""
    named: dict[Side, NamedCurves] = {}
    for side, curve in with_amounts(data, curves, ("test",)).items():
        names = data.serving[side]["account_id"].to_numpy(dtype=str)
        worth = coverage.worth(SideRequests(side, names.tolist()), curve.amounts)
        named[side] = NamedCurves(names, replace(curve, worth=worth))
    return named


def truth_note(dataset: Dataset) -> str:
    """Name the source of a replay's outcomes."""
    if dataset.truth is not None:
        return "drawn from the generator's known truth"
    return (
        "drawn from a fitted outcome model (another recipe and seed, on test rows that the served model has not seen)"
    )
