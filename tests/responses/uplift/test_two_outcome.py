from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import optimize, stats

from research.data.misspecified import World
from research.models import make
from research.models.uplift.cfrnet import squared_mmd, wasserstein
from research.models.uplift.direct_ranking import DirectRankingModel, RankingNetwork
from shadowprice.errors import InvalidInput
from shadowprice.evaluation import metrics
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.uplift.outcomes import OutcomeScale
from shadowprice.responses.uplift.two_outcome import LabeledRows, TwoOutcomeModel, labeled_rows
from shadowprice.responses.weights import inverse_propensity

QUICK = TrainingConfig(learning_rate=2e-2, epochs=60, patience=20, decay=0.98)
PREDICTORS = ("s_learner", "t_learner", "cfrnet", "dragonnet")


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


def test_the_discrepancy_is_unbiased_and_grows_with_the_distance() -> None:
    random = torch.Generator().manual_seed(0)
    same = [float(squared_mmd(*torch.randn(2, 60, 3, generator=random))) for _ in range(200)]
    assert stats.ttest_1samp(same, 0.0).pvalue > 0.01
    a, b = torch.randn(2, 400, 3, generator=random)
    apart = [float(squared_mmd(a, b + shift)) for shift in (0.0, 0.5, 2.0)]
    assert apart == sorted(apart)
    assert apart[2] > 0.3


def test_the_wasserstein_cost_is_that_of_the_best_assignment() -> None:
    random = torch.Generator().manual_seed(1)
    a, b = torch.randn(40, 2, generator=random), torch.randn(40, 2, generator=random) + 1.0
    squares = ((a[:, None] - b[None]) ** 2).sum(2).numpy()
    exact = squares[optimize.linear_sum_assignment(squares)].mean()
    assert float(wasserstein(a, b, rounds=500, smoothing=0.005)) == pytest.approx(exact, rel=0.05)


def test_balancing_brings_the_arms_representations_together() -> None:
    logged = World(1, nuisance=0.0, hidden=0.0).logged(1500, 0).frame.drop(columns=["exploration", "propensity"])
    x = [column for column in logged if column.startswith("x_")]
    apart = []
    for alpha in (0.0, 5.0):
        model = make("cfrnet", levels=(0, 100, 200, 300), hidden=8, training=QUICK, alpha=alpha).fit(logged)
        with torch.no_grad():
            h = model.network.representation(torch.tensor(logged[x].to_numpy(dtype=np.float32)))
        h = (h - h.mean(0)) / h.std()
        ends = [h[torch.tensor((logged["level"] == level).to_numpy())] for level in (0, 3)]
        apart.append(float(squared_mmd(*ends)))
    assert apart[1] < 0.6 * apart[0]


def test_direct_ranking_ranks_by_return_on_spend() -> None:
    random = np.random.default_rng(0)
    rows = 12_000
    x = random.uniform(-1, 1, rows)
    level = random.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "account_id": [f"a{i}" for i in range(rows)],
            "level": level,
            "response": (random.random(rows) < 0.1 + level * 0.25 * (1 + x)).astype(float),
            "cost": (random.random(rows) < 0.1 + level * 0.5).astype(float),
            "x_trait": x,
        }
    )
    model = make("direct_ranking", levels=(0, 100), hidden=8, training=QUICK).fit(frame)
    value, cost = model.curve(frame).response, model.cost(frame)
    score = (value[1] - value[0]) / (cost[1] - cost[0])
    # The true ratio is proportional to 1 + x on equal spend, whose area is 2/3.
    found = metrics.aucc(frame["response"], frame["cost"], score, level)
    assert found > 0.6
    assert stats.spearmanr(score, x).statistic > 0.9
    observed = [frame["response"][level == j].mean() for j in (0, 1)]
    np.testing.assert_allclose(value.mean(axis=1), observed, atol=0.02)


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


@pytest.mark.parametrize(
    ("name", "options"),
    [("s_learner", {}), ("t_learner", {}), ("cfrnet", {"alpha": 0.0}), ("dragonnet", {}), ("direct_ranking", {})],
)
def test_the_gradient_of_the_loss_in_all_weights_is_that_of_finite_differences(name: str, options, drawn) -> None:
    few = drawn.frame.head(40)
    once = TrainingConfig(learning_rate=1e-2, epochs=1)
    model = make(name, levels=drawn.levels, hidden=3, training=once, **options).fit(few)
    assert isinstance(model, TwoOutcomeModel)
    assert model.network is not None
    rows = labeled_rows(few, model.inputs, few[["response", "cost"]].to_numpy(), len(drawn.levels))
    rows = LabeledRows(**{key: part.double() if part.is_floating_point() else part for key, part in vars(rows).items()})
    network = model.network.double()
    if isinstance(model, DirectRankingModel):
        assert isinstance(network, RankingNetwork)
        assert _is_that_of_finite_differences(network, lambda: model.ranking_loss(network.scores(rows.x), rows))
    else:
        assert _is_that_of_finite_differences(network, lambda: model.loss(network, rows, 0))


def test_the_gradient_of_the_discrepancy_is_that_of_finite_differences_at_its_width() -> None:
    a, b = (torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in (6, 7))
    pooled = torch.cat([a, b])
    squares = (pooled[:, None] - pooled[None]).square().sum(dim=2)
    # The width is taken from the pair at the median and is no function of the others: those are moved here.
    pair = (squares == squares.median()).nonzero()[0].tolist()
    moved = next(i for i in range(len(a)) if i not in pair)

    def of(row: torch.Tensor) -> torch.Tensor:
        return squared_mmd(torch.cat([a[:moved], row[None], a[moved + 1 :]]), b)

    assert torch.autograd.gradcheck(of, (a[moved].clone().requires_grad_(),))
