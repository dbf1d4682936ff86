from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch

from research.data.misspecified import World
from research.models import make
from shadowprice.errors import InvalidInput
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.uplift.outcomes import OutcomeScale
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel, labeled_rows
from shadowprice.responses.weights import inverse_propensity

QUICK = TrainingConfig(learning_rate=2e-2, epochs=60, patience=20, decay=0.98)
PREDICTORS = ["s_learner", "t_learner", "dragonnet"]


@pytest.fixture(scope="module")
def drawn():
    return World(1, nuisance=0.0).trial(4000, 0)


@pytest.mark.parametrize("name", PREDICTORS)
def test_both_outcomes_are_learned_at_every_level(name: str, drawn) -> None:
    new = World(1, nuisance=0.0).trial(2000, 1)
    model = make(name, levels=drawn.levels, hidden=16, training=QUICK).fit(drawn.frame)
    value, cost = model.curve(new.frame).response, model.cost(new.frame)
    assert value.shape == cost.shape == (4, 2000)
    assert cost.dtype == np.float32
    for found, truth in ((value, new.value), (cost, new.cost)):
        error = np.mean((found - truth) ** 2) / truth.var()
        assert error < 0.2


def test_the_mean_of_networks_is_that_of_its_members_which_differ(drawn) -> None:
    few = drawn.frame.head(300)
    model = make("s_learner_mean", levels=drawn.levels, hidden=4, members=3, training=QUICK).fit(few)
    outputs = []
    for member in model.network.members:
        one = make("s_learner", levels=drawn.levels, hidden=4)
        one.inputs, one.network, one.kinds = model.inputs, member, model.kinds
        outputs.append(one.curve(few).response)
    np.testing.assert_allclose(np.mean(outputs, axis=0), model.curve(few).response, atol=1e-4)
    assert min(np.abs(outputs[0] - other).max() for other in outputs[1:]) > 0.05


def test_without_a_cost_the_cost_of_a_level_is_the_level(drawn) -> None:
    few = drawn.frame.drop(columns="cost").head(300)
    model = make("t_learner", levels=drawn.levels, hidden=4, training=QUICK).fit(few)
    np.testing.assert_array_equal(model.cost(few.head(3)), np.repeat(np.array(drawn.levels)[:, None], 3, axis=1))


def test_a_model_that_is_restored_has_the_same_costs(drawn) -> None:
    few = drawn.frame.head(300)
    model = make("s_learner", levels=drawn.levels, hidden=4, training=QUICK).fit(few)
    again = make("s_learner", levels=drawn.levels, hidden=4)
    again.restore(model.state())
    np.testing.assert_array_equal(again.cost(few), model.cost(few))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cost": np.nan}, "cost"),
        ({"cost": np.inf}, "cost"),
        ({"exploration": 0.5}, "exploration"),
        ({"propensity": 0.0}, "propensity"),
    ],
)
def test_a_trial_that_cannot_be_is_refused(change: dict, field: str, drawn) -> None:
    few = drawn.frame.head(20).copy()
    few["exploration"] = few["exploration"].astype(object)
    few.loc[3, list(change)] = list(change.values())
    with pytest.raises(InvalidInput, match=rf"{field}.*rows: 3"):
        make("s_learner", levels=drawn.levels).fit(few)


def test_a_propensity_counts_once_whether_logged_or_in_a_balancing_weight() -> None:
    random = np.random.default_rng(0)
    chance = random.dirichlet([2.0, 2.0, 2.0], 3000)
    level = (random.random(3000)[:, None] > chance.cumsum(axis=1)).sum(axis=1)
    propensity = np.maximum(chance[np.arange(3000), level], 0.05)
    frame = pd.DataFrame({"level": level, "propensity": propensity, "weight": random.integers(1, 3, 3000)})
    balanced = frame.assign(balancing_weight=inverse_propensity(level, propensity, 3).values)
    inputs = fit_tabular(frame, ("x_",))
    logged, twice = (labeled_rows(each, inputs, frame[["level"]].to_numpy(float), 3) for each in (frame, balanced))
    expected = (frame["weight"] / propensity).to_numpy()
    np.testing.assert_allclose(logged.importance, expected, rtol=1e-5)
    # Up to a factor: the shares of the levels among the rows are those of this sample.
    ratio = twice.importance.numpy() / expected
    assert ratio.std() / ratio.mean() < 0.03
    # In the loss of predictions every level still counts alike, and rows within it by their inverse propensity.
    for j in range(3):
        assert float(twice.weight[level == j].sum()) == pytest.approx(float(twice.weight.sum()) / 3, rel=1e-4)
        within = twice.weight.numpy()[level == j] / expected[level == j]
        np.testing.assert_allclose(within, within[0], rtol=1e-4)


def test_rows_of_which_none_was_drawn_are_refused(drawn) -> None:
    with pytest.raises(InvalidInput, match="exploration"):
        make("end_to_end", levels=drawn.levels).fit(drawn.frame.head(20).assign(exploration=False))


@pytest.mark.parametrize("mean", [0.01, 0.3, 0.99])
def test_a_shift_puts_the_mean_right(mean: float) -> None:
    raw = torch.randn(500, generator=torch.Generator().manual_seed(0))
    share = torch.rand(500, generator=torch.Generator().manual_seed(1))
    share = share / share.sum()
    for kind in (OutcomeScale(binary=True), OutcomeScale(False, 5.0, 2.0)):
        shifted = kind.expected(raw + kind.shift(raw, torch.tensor(mean), share))
        assert float((share * shifted).sum()) == pytest.approx(mean, abs=1e-4)


class _Loss(torch.nn.Module):
    """A loss of a network's weights, as a module whose weights can be given."""

    def __init__(self, network: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> None:
        super().__init__()
        self.network, self.loss = network, loss

    def forward(self) -> torch.Tensor:
        return self.loss()


def _is_that_of_finite_differences(network: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> bool:
    # Intercepts that are still 0 leave units at the kink of their ReLU, where there is no gradient to compare.
    generator = torch.Generator().manual_seed(0)
    weights = {
        f"network.{name}": each.detach() + 0.1 * torch.randn(each.shape, dtype=each.dtype, generator=generator)
        for name, each in network.named_parameters()
    }

    def of(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(_Loss(network, loss), dict(zip(weights, values, strict=True)), ())

    return torch.autograd.gradcheck(of, tuple(each.requires_grad_() for each in weights.values()))


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_gradient_of_the_loss_in_all_weights_is_that_of_finite_differences(name: str, drawn) -> None:
    few = drawn.frame.head(40)
    once = TrainingConfig(learning_rate=1e-2, epochs=1)
    model = make(name, levels=drawn.levels, hidden=3, training=once).fit(few)
    assert isinstance(model, TwoOutcomeModel)
    assert model.network is not None
    rows = labeled_rows(few, model.inputs, few[["response", "cost"]].to_numpy(), len(drawn.levels))
    rows = LabeledRows(**{key: part.double() if part.is_floating_point() else part for key, part in vars(rows).items()})
    network = model.network.double()
    assert _is_that_of_finite_differences(network, lambda: model.loss(network, rows, 0))
