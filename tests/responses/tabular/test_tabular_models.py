"""What S1's models share: features, weights, seeds, files; and what each claims."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import approx_fprime
from sklearn.isotonic import IsotonicRegression

from shadowprice.evaluation import metrics
from shadowprice.responses import make
from shadowprice.responses.tabular.network import weighted_logloss
from shadowprice.responses.tabular.rows import TabularInputs, fit_tabular
from shadowprice.responses.training import TrainingConfig
from shadowprice.testing import assert_monotone, assert_permutation_equivariant

LEVELS = [0, 30, 100]
QUICK = TrainingConfig(learning_rate=1e-2, epochs=12, patience=12)
NETWORKS = ["dipn", "dnn_level"]
ALL = [*NETWORKS, "isotonic_lr"]


def options(name: str) -> dict:
    return {} if name == "isotonic_lr" else {"training": QUICK}


def frame(rows: int = 1500, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x, kind = random.normal(size=rows), random.integers(0, 2, rows)
    level = random.integers(0, 3, rows)
    logit = x + kind + np.array([-1.5, 0.0, 1.0])[level]
    return pd.DataFrame(
        {
            "account_id": [f"a{i}" for i in range(rows)],
            "x_trait": np.where(random.random(rows) < 0.1, np.nan, x),
            "c_kind": np.array(["u", "v"])[kind],
            "level": level,
            "response": (random.random(rows) < 1 / (1 + np.exp(-logit))).astype(float),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> dict:
    return {name: make(name, levels=LEVELS, seed=1, **options(name)).fit(frame()) for name in ALL}


@pytest.mark.parametrize("name", ALL)
def test_the_curves_follow_the_features_and_the_level(name: str, fitted) -> None:
    new = frame(4000, seed=9)
    curves = fitted[name].curve(new).response
    level, y = new["level"].to_numpy(), new["response"].to_numpy()
    assert metrics.auc(y, curves[level, np.arange(4000)].astype(float)) > 0.72
    if fitted[name].monotone:
        assert_monotone(curves)


def test_a_model_tells_the_losses_of_its_own_training_and_of_the_one_before(fitted) -> None:
    first, last = fitted["dipn"].results
    assert fitted["dipn"].figures() == {
        "validation_loss": last.validation_loss,
        "epochs": last.epochs,
        "pretraining_validation_loss": first.validation_loss,
        "pretraining_epochs": first.epochs,
    }
    assert fitted["isotonic_lr"].figures() == {}


@pytest.mark.parametrize("name", ALL)
def test_training_leaves_the_callers_random_numbers_alone(name: str) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    make(name, levels=LEVELS, seed=1, **options(name)).fit(frame(100))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ALL)
def test_an_account_has_the_same_curve_alone_and_in_any_order(name: str, fitted) -> None:
    rows = frame(64)
    whole = fitted[name].curve(rows).response
    np.testing.assert_array_equal(fitted[name].curve(rows.iloc[7:8]).response[:, 0], whole[:, 7])
    assert_permutation_equivariant(lambda order: fitted[name].curve(rows.iloc[order]).response.T, 64, atol=0.0)


@pytest.mark.parametrize("name", ALL)
def test_values_never_seen_and_columns_that_are_absent_are_unknown(name: str, fitted) -> None:
    strange = frame(5).assign(c_kind=["new", None, "u", "v", "new"])
    curves = fitted[name].curve(strange.drop(columns=["x_trait", "level", "response"])).response
    assert np.isfinite(curves).all()
    np.testing.assert_array_equal(curves[:, 0], curves[:, 1])


@pytest.mark.parametrize("name", ALL)
def test_what_rows_without_weight_say_changes_nothing(name: str) -> None:
    rows = frame(500)
    weight = np.random.default_rng(2).integers(0, 3, len(rows))
    lies = np.where(weight == 0, 1 - rows["response"], rows["response"])
    quick = {} if name == "isotonic_lr" else {"training": TrainingConfig(learning_rate=1e-2, epochs=4)}
    one, two, flat = (
        make(name, levels=LEVELS, **quick).fit(each).curve(rows).response
        for each in (
            rows.assign(weight=weight),
            rows.assign(weight=weight, response=lies),
            rows.assign(response=lies),
        )
    )
    np.testing.assert_array_equal(one, two)
    assert np.abs(one - flat).max() > 0.01


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    rows = frame(40).dropna().reset_index(drop=True)
    model = make("dnn_level", levels=LEVELS, training=QUICK).fit(rows)
    network = model.network.float()
    weight = np.random.default_rng(2).integers(1, 3, len(rows))
    doubled = rows.loc[np.repeat(np.arange(len(rows)), weight)]
    weighted = float(weighted_logloss(network, model._rows(rows, weight.astype(float))).detach())
    copied = float(weighted_logloss(network, model._rows(doubled, np.ones(len(doubled)))).detach())
    assert weighted == pytest.approx(copied, rel=1e-6)


def test_training_stops_when_patience_ends_and_keeps_the_best_epoch() -> None:
    rows, training = frame(300), TrainingConfig(learning_rate=3e-2, epochs=60, patience=5)
    model = make("dnn_level", levels=LEVELS, training=training).fit(rows)
    (found,) = model.results
    losses = [row["validation_loss"] for row in found.history]
    assert found.epochs == len(losses) == found.best_epoch + 1 + 5 < 60
    assert losses[found.best_epoch] == min(losses) < losses[-1]
    held = model._held_out(rows)
    now = weighted_logloss(model.network.float(), model._rows(rows[held], np.ones(int(held.sum()))))
    assert float(now.detach()) == pytest.approx(min(losses), rel=1e-5)


def test_logistic_regression_without_features_is_pooled_adjacent_violators() -> None:
    random = np.random.default_rng(3)
    level = random.integers(0, 6, 3000)
    y = (random.random(3000) < np.array([0.3, 0.2, 0.4, 0.6, 0.5, 0.55])[level]).astype(float)
    rows = pd.DataFrame({"account_id": np.arange(3000).astype(str), "level": level, "response": y})
    share = np.array([y[level == j].mean() for j in range(6)])
    pava = IsotonicRegression().fit(np.arange(6), share, sample_weight=np.bincount(level)).predict(np.arange(6))
    assert np.any(np.diff(share) < 0)
    found = make("isotonic_lr", levels=[0, 1, 2, 3, 4, 5]).fit(rows).curve(rows.head(1)).response[:, 0]
    np.testing.assert_allclose(found, pava, atol=1e-5)


def test_logistic_regression_on_rising_data_is_that_of_statsmodels() -> None:
    from statsmodels.api import Logit

    rows = frame(3000).dropna().reset_index(drop=True)
    design = np.column_stack(
        [np.ones(len(rows)), rows["level"] >= 1, rows["level"] >= 2, rows["x_trait"], rows["c_kind"] == "v"]
    ).astype(float)
    theirs = Logit(rows["response"].to_numpy(), design).fit(disp=0)
    ours = make("isotonic_lr", levels=LEVELS, l2=1e-10).fit(rows).curve(rows).response
    own = ours[rows["level"], np.arange(len(rows))]
    np.testing.assert_allclose(own, theirs.predict(design), atol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_of_the_loss_is_that_of_finite_differences(name: str) -> None:
    rows = frame(20)
    model = make(name, levels=LEVELS)
    inputs = fit_tabular(rows)
    torch.manual_seed(0)
    network = model.build(inputs).double()
    parameters = list(network.parameters())
    numeric, category = torch.from_numpy(inputs.numeric(rows)).double(), torch.from_numpy(inputs.category(rows))
    level, y = torch.from_numpy(rows["level"].to_numpy()), torch.from_numpy(rows["response"].to_numpy())

    def loss() -> torch.Tensor:
        return torch.nn.functional.binary_cross_entropy_with_logits(network.at(numeric, category, level), y)

    start = torch.nn.utils.parameters_to_vector(parameters).detach().clone()
    gradient = torch.autograd.grad(loss(), parameters, allow_unused=True)
    exact = torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(parameters, gradient, strict=True)]
    )
    some = np.random.default_rng(0).choice(start.numel(), 60, replace=False)

    def at(values: np.ndarray) -> float:
        moved = start.clone()
        moved[some] = torch.from_numpy(values)
        torch.nn.utils.vector_to_parameters(moved, parameters)
        with torch.no_grad():
            return float(loss())

    numerical = approx_fprime(start[some].numpy(), at, 1e-6)
    np.testing.assert_allclose(exact[some].detach().numpy(), numerical, atol=2e-6)


def test_inputs_survive_json_and_count_values_in_an_order_that_rows_do_not_change() -> None:
    rows = frame(300)
    inputs = fit_tabular(rows)
    assert TabularInputs.from_dict(inputs.to_dict()).to_dict() == inputs.to_dict()
    assert fit_tabular(rows.sample(frac=1.0, random_state=0)).categories == inputs.categories
    dense = inputs.dense(rows)
    assert dense.shape == (300, inputs.indicators)
    assert set(dense[:, -2:].sum(axis=1)) == {1.0}
