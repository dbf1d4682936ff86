"""Losses of amounts against direct evaluation, torch's distributions, integrals, Monte Carlo and planted parameters."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from shadowprice.responses.amounts.losses import FLOOR, LEAST, LOSSES, AmountLoss, Esj, EsjMass, Ziln, log_product

RANDOM = np.random.default_rng(0)
ROWS = 400


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def tensor(values: object) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float64))


@pytest.fixture
def drawn() -> dict[str, np.ndarray]:
    """Moderate parameters, at which the formulas can be evaluated as they are printed."""
    bought = RANDOM.random(ROWS) < 0.5
    return {
        "a": RANDOM.normal(0, 2, ROWS),
        "b": RANDOM.normal(0, 2, ROWS),
        "mu": RANDOM.uniform(0, 4, ROWS),
        "sigma": RANDOM.uniform(FLOOR, 2, ROWS),
        "v": np.where(bought, RANDOM.uniform(LEAST, 6, ROWS), 0.0),
    }


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def printed(name: str, p: np.ndarray, mu: np.ndarray, sigma: np.ndarray, v: np.ndarray) -> np.ndarray:
    density = stats.norm.pdf(v, mu, sigma) * np.exp(-v)
    nothing = {
        "esj": (1 - p) + p * stats.norm.pdf(0, mu, sigma),
        "esj_mass": (1 - p) + p * stats.norm.cdf(LEAST, mu, sigma),
        "cragg": 1 - p,
        "ziln": 1 - p,
    }[name]
    if name == "cragg":
        density = stats.truncnorm.pdf(v, (LEAST - mu) / sigma, np.inf, mu, sigma) * np.exp(-v)
    if name == "ziln":
        amount = np.where(v > 0, np.expm1(v), 1.0)
        density = stats.lognorm.pdf(amount, s=sigma, scale=np.exp(mu))
    return -np.log(np.where(v > 0, p * density, nothing))


@pytest.mark.parametrize("name", ["esj", "esj_mass", "cragg", "ziln"])
def test_the_loss_is_the_printed_formula(name: str, drawn: dict[str, np.ndarray]) -> None:
    log_p, log_q = log_product(tensor(drawn["a"]), tensor(drawn["b"]))
    found = LOSSES[name].rows(log_p, log_q, *(tensor(drawn[key]) for key in ("mu", "sigma", "v")))
    p = sigmoid(drawn["a"]) * sigmoid(drawn["b"])
    np.testing.assert_allclose(found.numpy(), printed(name, p, drawn["mu"], drawn["sigma"], drawn["v"]), atol=1e-12)


def test_a_positive_row_is_torchs_lognormal_of_the_amount_plus_one(drawn: dict[str, np.ndarray]) -> None:
    mu, sigma, v = (tensor(drawn[key]) for key in ("mu", "sigma", "v"))
    log_p, log_q = log_product(tensor(drawn["a"]))
    bought = v > 0
    expected = -(log_p + torch.distributions.LogNormal(mu, sigma).log_prob(v.exp()))
    found = Esj().rows(log_p, log_q, mu, sigma, v)
    torch.testing.assert_close(found[bought], expected[bought], rtol=0, atol=1e-12)


@pytest.mark.parametrize("logit", [60.0, 400.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_out_the_loss_is_still_right(logit: float, dtype: torch.dtype) -> None:
    """Of a sure conversion that did not happen, the direct form computes −log(0) or its clip."""
    log_p, log_q = log_product(torch.tensor([logit, -logit], dtype=dtype).requires_grad_())
    mu, sigma = torch.full((2,), 30.0, dtype=dtype), torch.full((2,), 0.5, dtype=dtype)
    found = Esj().rows(log_p, log_q, mu, sigma, torch.zeros(2, dtype=dtype))
    assert found[0].item() == pytest.approx(logit, rel=1e-6)
    assert found[1].item() == pytest.approx(0.0, abs=1e-20)
    found.sum().backward()


def test_of_two_sure_steps_both_ways_to_fail_count() -> None:
    """1 − s(60)² = 2·e^−60 to first order; computed from p it is 0."""
    _, log_q = log_product(tensor([60.0]), tensor([60.0]))
    assert log_q.item() == pytest.approx(math.log(2) - 60, abs=1e-12)
    assert 1 - sigmoid(np.array(60.0)) ** 2 == 0


@pytest.mark.parametrize("sizes", [(1e-6, 1e-6), (80.0, -80.0), (300.0, 300.0), (-300.0, 5.0)])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradients_are_finite_for_any_output(name: str, sizes: tuple[float, float]) -> None:
    loss = LOSSES[name]
    raw = torch.tensor([[*sizes, *sizes], [*sizes[::-1], *sizes]], dtype=torch.float32).T.requires_grad_()
    v = torch.tensor([0.0, 1.0, 0.0, 5.0])
    log_p, log_q = log_product(raw[:, 0], raw[:, 1])
    found = loss.rows(log_p, log_q, loss.mu(raw[:, 0]), loss.sigma(raw[:, 1]), v)
    assert torch.isfinite(found).all()
    found.sum().backward()
    assert torch.isfinite(raw.grad).all()


@pytest.mark.parametrize("name", ["esj", "esj_mass", "cragg", "ziln", "mse", "value"])
def test_the_gradient_is_that_of_finite_differences(name: str, drawn: dict[str, np.ndarray]) -> None:
    loss = LOSSES[name]
    v = tensor(drawn["v"][:8])

    def total(a: Tensor, b: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
        return loss.rows(*log_product(a, b), loss.mu(mu), loss.sigma(sigma), v)

    given = [tensor(drawn[key][:8]).requires_grad_() for key in ("a", "b", "mu", "sigma")]
    assert torch.autograd.gradcheck(total, given)


def test_without_the_floor_a_negative_row_has_no_least_loss_and_with_it_none_is_below_zero() -> None:
    log_p, log_q = log_product(tensor([0.0]))
    zero = tensor([0.0])
    free = [Esj().rows(log_p, log_q, zero, tensor([s]), zero).item() for s in (0.1, 1e-3, 1e-6)]
    assert free == pytest.approx([-0.91, -5.30, -12.20], abs=0.01)
    least = min(Esj().rows(log_p, log_q, zero, Esj().sigma(tensor([raw])), zero).item() for raw in (-50.0, -5.0, 0.0))
    assert -1e-12 <= least < 1e-6


@pytest.mark.parametrize(("p", "mu", "sigma"), [(0.3, 1.0, 0.8), (0.9, 0.2, 1.5), (0.02, 4.0, 0.5), (0.95, -1.0, 1.2)])
def test_esj_mass_integrates_to_one_and_the_printed_loss_does_not(p: float, mu: float, sigma: float) -> None:
    log_p, log_q = (tensor([value]) for value in (math.log(p), math.log1p(-p)))

    def mass(loss: AmountLoss) -> float:
        def density(v: float) -> float:
            row = loss.rows(log_p, log_q, tensor([mu]), tensor([sigma]), tensor([v]))
            return math.exp(-row.item()) * math.exp(v)

        above = integrate.quad(density, LEAST, mu + 12 * sigma, epsabs=1e-12, limit=200)[0]
        return above + math.exp(-loss.rows(log_p, log_q, tensor([mu]), tensor([sigma]), tensor([0.0])).item())

    assert mass(EsjMass()) == pytest.approx(1.0, abs=1e-9)
    assert mass(LOSSES["cragg"]) == pytest.approx(1.0, abs=1e-9)
    if mu < 2:
        assert abs(mass(Esj()) - 1) > 1e-3


@pytest.mark.parametrize("name", ["esj", "esj_mass", "ziln"])
@pytest.mark.parametrize(("mu", "sigma"), [(0.4, 0.9), (2.0, 1.2), (5.0, 0.5), (-1.5, 1.1)])
def test_expected_amounts_and_log_amounts_are_those_of_a_simulation(name: str, mu: float, sigma: float) -> None:
    draws = np.random.default_rng(5).normal(mu, sigma, 400_000)
    if name == "esj_mass":
        draws = draws[draws > LEAST]
    amount = np.exp(draws) if name == "ziln" else np.expm1(draws)
    log_amount = np.log1p(np.exp(draws)) if name == "ziln" else draws
    loss, given = LOSSES[name], (tensor([mu]), tensor([sigma]))
    for found, drawn in ((loss.amount(*given), amount), (loss.log_amount(*given), log_amount)):
        assert abs(found.item() - drawn.mean()) < 4 * drawn.std() / math.sqrt(drawn.size)


@pytest.mark.parametrize("name", ["esj_mass", "cragg"])
def test_far_below_the_least_purchase_amounts_are_still_those_of_the_tail(name: str) -> None:
    """At 5 to 60 spreads below it, where the share above is down to 1e-780: against scipy's truncated normal."""
    mu, sigma = np.array([-4.0, -10.0, -25.0]), np.array([0.9, 0.6, 0.43])
    given = tensor(mu), tensor(sigma)
    a = (mu - LEAST) / sigma
    exact = mu + sigma * np.exp(stats.norm.logpdf(a) - stats.norm.logcdf(a))
    assert (exact > LEAST).all()
    np.testing.assert_allclose(LOSSES[name].log_amount(*given).numpy(), exact, rtol=1e-8)
    mean = np.exp(mu + 0.5 * sigma**2 + stats.norm.logcdf(a + sigma) - stats.norm.logcdf(a)) - 1
    np.testing.assert_allclose(LOSSES[name].amount(*given).numpy(), mean, rtol=1e-8)


@pytest.mark.parametrize(("p", "mu", "sigma"), [(0.5, 3.5, 1.1), (0.9, -0.5, 1.5), (0.97, 1.5, 0.7)])
def test_a_mass_of_one_starts_at_the_law_that_wishes_were_drawn_from(p: float, mu: float, sigma: float) -> None:
    random = np.random.default_rng(4)
    wish = random.normal(mu, sigma, 400_000)
    bought = (random.random(wish.size) < p) & (wish > LEAST)
    given = float(bought.mean()), tensor(np.where(bought, wish, 0.0)), tensor(bought / bought.sum())
    assert EsjMass().start(*given) == pytest.approx((p, mu, sigma), abs=0.06)
    middle = Esj().start(*given)
    assert middle == pytest.approx((bought.mean(), wish[bought].mean(), wish[bought].std()))


def test_a_start_is_never_surer_of_a_purchase_than_it_may_be() -> None:
    """Of amounts with the tail of an exponential the best normal lies infinitely far below, where p would exceed 1."""
    v = tensor(LEAST + np.random.default_rng(3).exponential(0.4, 5000))
    equal = torch.full_like(v, 1 / 5000)
    for share in (1e-4, 0.2, 0.95):
        p, mu, sigma = EsjMass().start(share, v, equal)
        assert p <= 0.98 + 1e-6
        assert sigma > 0
        assert p * stats.norm.sf(LEAST, mu, sigma) == pytest.approx(share, rel=1e-6)
    assert EsjMass().start(0.0, torch.zeros_like(v), torch.zeros_like(v)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("share", [0.985, 0.999, 1.0])
def test_where_all_but_every_row_converts_a_start_has_the_spread_of_the_amounts(share: float) -> None:
    """Wishes of different people, far above the least purchase: their spread is not read off a share that is sure."""
    v = tensor(np.random.default_rng(3).normal(2.6, 0.6, 5000).clip(LEAST + 0.01))
    p, mu, sigma = EsjMass().start(share, v, torch.full_like(v, 1 / 5000))
    assert p == share
    assert (mu, sigma) == pytest.approx((2.6, 0.6), abs=0.05)


@pytest.mark.parametrize("name", ["esj", "esj_mass", "ziln", "mse"])
def test_the_conversion_is_the_share_of_rows_that_convert_at_the_best_likelihood(name: str) -> None:
    """At any mu and sigma, also where amounts are small and p itself is not the share."""
    loss, rows, share = LOSSES[name], 1000, 0.2
    v = tensor(np.where(np.arange(rows) < share * rows, 1.0, 0.0))
    p, mu, sigma = np.linspace(0.001, 0.999, 999), tensor(1.1).expand(rows), tensor(0.7).expand(rows)
    total = [loss.rows(*(tensor(math.log(q)).expand(rows) for q in (x, 1 - x)), mu, sigma, v).sum() for x in p]
    best = tensor(p[int(np.argmin(total))])
    assert loss.conversion(best, mu[0], sigma[0]).item() == pytest.approx(share, abs=1e-3)
    if name.startswith("esj"):
        assert best > 1.1 * share


def test_ziln_has_the_semantics_of_its_authors() -> None:
    """BCE on conversion, lognormal NLL on positives alone, sigma softplus with a floor of √eps, label 1 for zeros."""
    loss = Ziln()
    assert loss.sigma(tensor([-200.0])).item() == pytest.approx(math.sqrt(np.finfo(np.float64).eps))
    assert loss.sigma(tensor([0.3])).item() == pytest.approx(math.log1p(math.exp(0.3)))
    logit, mu, raw = tensor([0.4, 0.4]), tensor([1.0, 1.0]), tensor([0.3, 0.3])
    amount = np.array([0.0, 20.0])
    found = loss.rows(*log_product(logit), mu, loss.sigma(raw), tensor(np.log1p(amount)))
    bce = torch.nn.functional.binary_cross_entropy_with_logits(logit, tensor([0.0, 1.0]), reduction="none")
    nll = -torch.distributions.LogNormal(mu, loss.sigma(raw)).log_prob(tensor([1.0, 20.0]))
    torch.testing.assert_close(found, bce + tensor([0.0, 1.0]) * nll)


@pytest.mark.parametrize("name", ["esj", "esj_mass", "ziln"])
def test_planted_parameters_are_recovered(name: str) -> None:
    """One p, mu and sigma for everybody, by maximum likelihood from the outcomes alone: within four standard errors.

    Of ``esj_mass`` the outcome is drawn from its own latent wish, near the least purchase, where it differs.
    """
    random = np.random.default_rng(11)
    rows, p, mu, sigma = 60_000, 0.3, 1.4 if name == "esj_mass" else 4.0, 0.8
    wish = random.normal(mu, sigma, rows)
    bought = (random.random(rows) < p) & (wish > (LEAST if name == "esj_mass" else -np.inf))
    v = np.log1p(np.exp(wish)) if name == "ziln" else wish
    v = tensor(np.where(bought, np.maximum(v, 1e-9), 0.0))
    loss = LOSSES[name]
    raw = torch.tensor([0.0, 1.0, 0.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([raw], max_iter=200, line_search_fn="strong_wolfe")

    def parameters() -> tuple[Tensor, Tensor, Tensor]:
        return raw[0].expand(rows), loss.mu(raw[1]).expand(rows), loss.sigma(raw[2]).expand(rows)

    def closure() -> Tensor:
        optimizer.zero_grad()
        logit, middle, spread = parameters()
        total = loss.rows(*log_product(logit), middle, spread, v).mean()
        total.backward()
        return total

    optimizer.step(closure)
    logit, middle, spread = (each[0].item() for each in parameters())
    positives = bought.sum()
    assert abs(float(sigmoid(np.array(logit))) - p) < 4 * 2 * math.sqrt(p * (1 - p) / rows)
    assert abs(middle - mu) < 4 * 1.6 * sigma / math.sqrt(positives)
    assert abs(spread - sigma) < 4 * 1.6 * sigma / math.sqrt(2 * positives)
