"""The row baseline of a goal is a control variate: it does not depend on the row's own outcome."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from torch import Tensor

from research.data.misspecified import LEVELS, World
from shadowprice.errors import InvalidInput
from shadowprice.responses import make
from shadowprice.responses.goal.baseline import row_baselines
from shadowprice.responses.goal.bi_dfcl import BiDfclModel
from shadowprice.responses.goal.dfcl import DfclPolicyModel
from shadowprice.responses.goal.end_to_end import EndToEndModel
from shadowprice.responses.goal.goals import Goal
from shadowprice.responses.goal.model import GoalModel
from shadowprice.responses.goal.trial import GoalRows
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.uplift.two_outcome import held_out_rows

QUICK = TrainingConfig(learning_rate=2e-2, epochs=10, patience=10)
NO_ROUNDS = TrainingConfig(learning_rate=2e-2, epochs=1)


def recording(kind: type[GoalModel]) -> tuple[type[GoalModel], list[GoalRows]]:
    """The model class with a goal that keeps the trial it receives."""
    kept: list[GoalRows] = []

    class Recording(kind):  # type: ignore[misc,valid-type]
        def goal(self, value: Tensor, cost: Tensor, trial: GoalRows) -> Goal:
            kept.append(trial)
            return super().goal(value, cost, trial)

    return Recording, kept


@pytest.mark.parametrize("kind", [EndToEndModel, DfclPolicyModel, BiDfclModel])
def test_an_outlier_does_not_change_its_own_baseline_and_changes_those_of_other_rows(kind) -> None:
    frame = World(0, nuisance=3.0).trial(300).frame
    row = int(np.flatnonzero(~held_out_rows(frame, 0))[7])
    outlying = frame.copy()
    outlying.loc[row, "response"] += 1e4
    found = {}
    for name, rows in (("before", frame), ("after", outlying)):
        recorded, kept = recording(kind)
        model = recorded(LEVELS, 0, hidden=4, training=QUICK, fine_tuning=NO_ROUNDS, baseline=True, folds=4)
        model.fit(rows)
        found[name] = kept[0]
    place = int(found["after"].value.argmax())
    assert float(found["before"].value[place]) == pytest.approx(frame.loc[row, "response"], rel=1e-5)
    assert float(found["before"].value_baseline[place]) == float(found["after"].value_baseline[place])
    moved = (found["before"].value_baseline - found["after"].value_baseline).abs()
    # The row's own fold, a quarter of the accounts, keeps its baselines; every other fold was fitted on the outlier.
    assert float((moved > 0).float().mean()) == pytest.approx(0.75, abs=0.08)


def test_a_cross_fitted_baseline_leaves_noise_in_the_outcome_where_a_memorised_one_would_absorb_it() -> None:
    random = np.random.default_rng(0)
    rows = 200
    noise = random.normal(size=rows)
    frame = pd.DataFrame(
        {
            "account_id": [f"a{i}" for i in range(rows)],
            "level": random.integers(0, 2, rows),
            "response": noise,
            **{f"x_{k}": random.normal(size=rows) for k in range(12)},
        }
    )
    training = TrainingConfig(learning_rate=2e-2, epochs=60, patience=60)
    found = row_baselines(frame, (0, 100), network="s_learner", hidden=32, training=training, folds=4, seed=0)
    # Covariance with the row's own noise: 0 for a control variate, up to its error over 200 rows.
    slope = float(np.cov(found[:, 0], noise)[0, 1] / noise.var())
    assert abs(slope) < 4 * found[:, 0].std() / np.sqrt(rows)


def test_the_baseline_is_the_mean_over_levels_and_takes_most_of_the_nuisance_away() -> None:
    drawn = World(1, nuisance=20.0).trial(1500)
    longer = TrainingConfig(learning_rate=2e-2, epochs=60, patience=20)
    found = row_baselines(drawn.frame, LEVELS, network="s_learner", hidden=16, training=longer, folds=3, seed=0)
    assert found.shape == (1500, 2)
    left = drawn.frame["response"].to_numpy() - found[:, 0]
    assert left.var() < 0.5 * drawn.frame["response"].var()
    assert np.corrcoef(found[:, 1], drawn.cost.mean(axis=0))[0, 1] > 0.5


def test_without_a_cost_the_baseline_of_the_cost_is_the_mean_level() -> None:
    few = World(1).trial(60).frame.drop(columns="cost")
    found = row_baselines(few, LEVELS, network="t_learner", hidden=2, training=QUICK, folds=2, seed=0)
    np.testing.assert_allclose(found[:, 1], np.mean(LEVELS))


def test_a_single_account_has_no_baseline_and_few_drawn_rows_are_enough() -> None:
    frame = World(0).trial(40).frame
    alone = make("end_to_end", levels=LEVELS, hidden=2, training=QUICK, fine_tuning=NO_ROUNDS)
    assert np.isfinite(alone.fit(frame.assign(account_id="a")).curve(frame).response).all()
    both = pd.concat([frame.head(4), World(0).logged(60).frame], ignore_index=True)
    model = make("bi_dfcl", levels=LEVELS, hidden=2, training=QUICK, fine_tuning=NO_ROUNDS)
    assert np.isfinite(model.fit(both).curve(both).response).all()


@pytest.mark.parametrize("name", ["end_to_end", "dfcl_difference", "bi_dfcl"])
def test_a_trial_without_held_out_accounts_is_learned_from_and_one_of_these_alone_is_refused(name: str) -> None:
    frame, progress = World(0).trial(60).frame, list[Mapping[str, float]]()
    held_out = held_out_rows(frame, seed=0)
    model = make(name, levels=LEVELS, hidden=2, training=QUICK, fine_tuning=NO_ROUNDS, progress=progress.append)
    model.fit(frame.assign(exploration=~held_out))
    # Both stages of training report; the loss of the second is minus a goal.
    assert progress[-1]["epochs"] == 1
    with pytest.raises(InvalidInput, match="exploration"):
        model.fit(frame.assign(exploration=held_out))


def test_the_first_stages_of_the_baseline_report_their_epochs() -> None:
    told: list[float] = []
    make(
        "end_to_end",
        levels=LEVELS,
        hidden=2,
        training=QUICK,
        fine_tuning=NO_ROUNDS,
        progress=lambda row: told.append(row["epoch"]),
    ).fit(World(0).trial(60).frame)
    # Three folds, the first stage itself, and the goal.
    assert told.count(0.0) == 5


def test_one_fold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="folds"):
        make("end_to_end", levels=LEVELS, folds=1)
