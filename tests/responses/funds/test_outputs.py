"""The training loss of a row: what is heard of it over all deliveries, and given the click."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from shadowprice.responses.amounts.losses import LEAST
from shadowprice.responses.funds.outputs import Outputs
from shadowprice.responses.funds.rows import FundRows


def outcomes(clicked: np.ndarray, v: np.ndarray) -> FundRows:
    n = len(v)
    return FundRows(
        numeric=torch.zeros(n, 0),
        category=torch.zeros(n, 0, dtype=torch.int64),
        events=None,
        node=None,
        level=torch.zeros(n, dtype=torch.int64),
        clicked=torch.from_numpy(clicked.astype(np.float64)),
        v=torch.from_numpy(v.astype(np.float64)),
        weight=torch.ones(n, dtype=torch.float64),
    )


def test_given_the_click_the_loss_is_the_likelihood_of_click_and_amount() -> None:
    """Against the three cases written out, and their total mass is 1."""
    click, sure, mu, sigma = 0.3, 0.8, 1.2, 1.1
    outputs = Outputs("esj_mass", 2, given_click=True)
    raw = torch.tensor([np.log(click / (1 - click)), np.log(sure / (1 - sure)), *outputs.kind.raw(mu, sigma)])
    v = np.array([0.0, 0.0, 2.5])
    found = outputs.rows(raw.double().expand(3, -1), outcomes(np.array([0, 1, 1]), v)).numpy()
    enough = stats.norm.sf(LEAST, mu, sigma)
    lost, short = 1 - click, click * (1 - sure * enough)
    bought = click * sure * stats.norm.pdf(v[2], mu, sigma) * np.exp(-v[2])
    np.testing.assert_allclose(found, -np.log([lost, short, bought]), rtol=1e-6)
    assert lost + short + click * sure * enough == pytest.approx(1)


@pytest.mark.parametrize("name", ["esj_mass", "ziln", "mse", "conversion"])
def test_a_delivery_that_was_not_clicked_says_nothing_of_purchases(name: str) -> None:
    rows = outcomes(np.array([0.0, 1.0]), np.zeros(2))
    for given_click in (True, False):
        outputs = Outputs(name, 2, given_click=given_click)
        raw = torch.full((2, outputs.width), 0.3, dtype=torch.float64, requires_grad=True)
        outputs.rows(raw, rows).sum().backward()
        assert raw.grad is not None
        assert raw.grad[0, 0] != 0
        assert raw.grad[1, 1] != 0
        assert (raw.grad[0, 1:] == 0).all() == given_click


def test_planted_parameters_are_recovered_and_more_sharply_given_the_click() -> None:
    """Twenty draws of a wish half of which fall short: the mean is the truth, the spread smaller than over all."""
    click, mu, sigma, n = 0.35, 0.9, 1.3, 3000
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for seed in range(20):
        random = np.random.default_rng(seed)
        clicked, wish = random.random(n) < click, random.normal(mu, sigma, n)
        rows = outcomes(clicked, np.where(clicked & (wish > LEAST), wish, 0.0))
        for given_click, into in found.items():
            into.append(fitted(Outputs("esj_mass", 2, given_click=given_click), rows))
    truth = [click, mu, sigma]
    for into in found.values():
        error = np.std(into, axis=0, ddof=1) / np.sqrt(20)
        assert (np.abs(np.mean(into, axis=0) - truth) < 4 * error).all()
    whole, over_all = (np.std(found[given_click], axis=0)[1] for given_click in (True, False))
    assert whole < 0.95 * over_all


def fitted(outputs: Outputs, rows: FundRows) -> list[float]:
    """pCTR, mu and sigma at the best likelihood, pCVR all but 1: the wish alone decides."""
    free = torch.tensor([0.0, *outputs.kind.raw(0.5, 1.0)], dtype=torch.float64, requires_grad=True)
    descent = torch.optim.LBFGS([free], max_iter=60, line_search_fn="strong_wolfe")

    def raw() -> Tensor:
        return torch.cat([free[:1], free.new_full((1,), 30.0), free[1:]])

    def closure() -> Tensor:
        descent.zero_grad()
        total = outputs.rows(raw().expand(len(rows.v), -1), rows).mean()
        total.backward()
        return total

    descent.step(closure)
    last = free.detach()
    return [float(last[0].sigmoid()), float(outputs.kind.mu(last[1])), float(outputs.kind.sigma(last[2]))]


def test_what_is_known_survives_being_written() -> None:
    outputs = Outputs("esj_mass", 2, 40.0, 3.5, 1.2, given_click=True)
    assert Outputs.from_dict(outputs.to_dict()) == outputs
    before = {key: value for key, value in outputs.to_dict().items() if key != "given_click"}
    assert not Outputs.from_dict(before).given_click
