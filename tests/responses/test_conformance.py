"""What every registered response model must do; models are found by name and need nothing here.

A model is given rows of a well-specified trial (levels at random, redemption thresholds exponential given a
trait) with numbers ``x_*``, some of them missing, a category ``c_*`` and known propensities. It must

- refuse a frame that lacks a column or holds what cannot be, naming field and rows (``check_frame`` does), and
  say so when asked for curves or for its state before it is fitted;
- give the same curves again at the same seed, and the same after ``save`` and ``load`` (bit for bit);
- give curves of accounts it never saw, finite, in [0, 1] for customers, whatever the order of rows and columns,
  one at a time as in a batch, and without reading labels;
- where ``monotone`` is claimed, hold it for any weights: the float arrays of ``state`` are weights and are replaced by
  noise here, so what is not a weight (levels, standardization) belongs in its JSON part or in integers;
- where ``calibrated`` is claimed, predict the mean response of every level on held-out accounts within what
  chance explains.

Keep it within about 1.5 s a model: options that make a model small or quick, and what it cannot do without (a
graph, sessions), go into ``OPTIONS``. Losses of response layers are gradient-checked here over ``LAYERS``; a network
with a loss of its own checks it in its own tests.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.prediction.monotonicity import rpr
from shadowprice.graphs.build import build_snapshot
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses import load, make, names
from shadowprice.responses.base import ResponseModel
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.layers.base import make_layer
from shadowprice.responses.layers.heads import LAYERS
from shadowprice.responses.registry import model_class, wants
from shadowprice.responses.state import State
from shadowprice.responses.training import TrainingConfig
from shadowprice.responses.training.checkpoint import checkpointing
from shadowprice.tables import validate_sessions

LEVELS = (20, 50, 100)
LABELS = ["level", "response", "clicked", "amount", "propensity"]
ROWS, FEW = 1500, 200
CITIES = ("a", "b", "c")
ASKED = pd.Timestamp("2026-01-02", tz="UTC")
"""Time of every request, after all events."""


def rows(count: int, seed: int, side: Side) -> pd.DataFrame:
    """Labeled requests of accounts of their own."""
    random = np.random.default_rng(seed)
    x = random.normal(size=count)
    level = random.integers(0, len(LEVELS), count)
    amount = np.array(LEVELS)[level] / 100
    if side == "customer":
        y = random.random(count) < 1 - np.exp(-np.exp(0.8 * x - 0.3) * amount)
    else:
        y = 0.8 + 0.4 * x + 0.6 * amount + 0.3 * random.normal(size=count)
    noise = random.normal(size=count)
    noise[random.random(count) < 0.1] = np.nan
    bought = y == 1
    brought = np.where(bought, np.rint(100 * random.lognormal(2 + 0.5 * x, 0.8)) + 100, 0.0)
    return pd.DataFrame(
        {
            "account_id": [f"{side[0]}{seed}-{i}" for i in range(count)],
            "level": level,
            "response": np.asarray(y, dtype=np.float64),
            "clicked": (bought | (random.random(count) < 0.5)).astype(np.float64),
            "amount": brought,
            "propensity": 1 / len(LEVELS),
            "snapshot_at": ASKED.timestamp(),
            "x_trait": x,
            "x_noise": noise,
            "c_city": random.choice(CITIES, count),
        }
    )


TRAIN_SEED, HELD_OUT_SEED = 1, 2


@cache
def frame(side: Side, count: int = ROWS, seed: int = TRAIN_SEED) -> pd.DataFrame:
    return rows(count, seed, side)


@cache
def snapshot(side: Side) -> GraphSnapshot:
    """Everyone of the frames above, and ties to a few of the other side that say something of the trait."""
    other: Side = "merchant" if side == "customer" else "customer"
    own = pd.concat([frame(side, ROWS, seed) for seed in (TRAIN_SEED, HELD_OUT_SEED)], ignore_index=True)
    own = own[["account_id", "x_trait", "x_noise", "c_city"]].assign(side=side, h_ties=2.0, h_amount=own["x_trait"])
    partners = pd.DataFrame({"account_id": [f"p{i}" for i in range(20)], "side": other, "x_size": np.arange(20.0)})
    partner = "p" + pd.Series(np.clip(10 + 4 * own["x_trait"], 0, 19).astype(int).astype(str))
    ends = {"customer": own["account_id"], "merchant": partner}
    if side == "merchant":
        ends = {"customer": partner, "merchant": own["account_id"]}
    at = pd.Timestamp("2026-01-01", tz="UTC")
    edges = pd.DataFrame({"src": ends["customer"], "dst": ends["merchant"], "weight": 1.0, "ts": at})
    return build_snapshot(pd.concat([own, partners], ignore_index=True), edges, at)


def short(epochs: int) -> dict[str, Any]:
    """Of models that are first trained to predict and then to decide."""
    return {"hidden": 8, "fine_tuning": TrainingConfig(epochs=epochs, learning_rate=5e-3)}


@cache
def behaviours() -> pd.DataFrame:
    """A few events of half of the accounts."""
    random = np.random.default_rng(9)
    account = frame("customer")["account_id"].sample(ROWS // 2, random_state=1, replace=True)
    return pd.DataFrame(
        {
            "account_id": account.to_numpy(),
            "level": random.integers(0, len(LEVELS), account.size),
            "action": random.choice(["click", "purchase"], account.size),
            "ts": pd.Timestamp("2025-12-01", tz="UTC") + pd.to_timedelta(random.integers(0, 9**5, account.size), "s"),
        }
    )


def delivered(graph: bool = False) -> dict[str, Any]:
    """Of S2's models: what accounts did, and where wanted what they are tied to."""
    inputs = Inputs(snapshots=[snapshot("customer")] if graph else [], behaviours=behaviours())
    return {"training": TrainingConfig(epochs=6, learning_rate=1e-2, batch_rows=256), "inputs": inputs}


@cache
def sessions() -> SessionLog:
    """Of everyone in the frames above: two vouchers a person would collect, and carts that tell the trait."""
    everyone = pd.concat([frame("customer", ROWS, seed) for seed in (TRAIN_SEED, HELD_OUT_SEED)], ignore_index=True)
    at = pd.Timestamp("2026-01-01", tz="UTC")
    level = np.arange(2 * len(everyone)) % len(LEVELS)
    label = np.arange(level.size) % 2  # the second is redeemed before the request
    session = pd.DataFrame(
        {
            "session_id": [f"s{i}" for i in range(level.size)],
            "user_id": np.tile(everyone["account_id"], 2),
            "voucher_id": np.array([f"v{level}" for level in LEVELS])[level],
            "min_spend": 5 * np.array(LEVELS)[level],
            "discount": np.array(LEVELS)[level],
            "collected_at": at + pd.to_timedelta(np.arange(level.size), unit="s"),
            "redeemed_at": pd.Series(at + pd.to_timedelta(np.arange(level.size) + 60, unit="s")).where(label == 1),
            "label": label,
        }
    )
    own = np.repeat(np.arange(0, level.size, 4), 3)
    kind = np.where(np.tile(everyone["x_trait"], 2)[own] > 0, "rich", "plain")
    behaviour = pd.DataFrame(
        {
            "session_id": session["session_id"].to_numpy()[own],
            "item_id": [f"{k}-{i % 7}" for i, k in enumerate(kind)],
            "action": "cart",
            "phase": np.where(np.arange(own.size) % 3 < 2, "before", "after"),
            "ts": session["collected_at"].iloc[own].reset_index(drop=True)
            + pd.to_timedelta(np.arange(own.size) % 3 * 20 - 30, unit="s"),
            "category": kind,
        }
    )
    return SessionLog.build(validate_sessions({"session": session, "behaviour": behaviour}))


SIDE: dict[str, Side] = {"linear": "merchant"}
"""Models whose rows are not customers'."""
OPTIONS: dict[str, Callable[[Side], dict[str, Any]]] = {
    "dnn_h": lambda side: {"inputs": Inputs(snapshots=[snapshot(side)])},
    **dict.fromkeys(("end_to_end", "dfcl_policy", "dfcl_entropy", "dfcl_difference"), lambda side: short(20)),
    "bi_dfcl": lambda side: short(4),
    "s_learner_mean": lambda _: {"members": 2},
    **dict.fromkeys(
        ("din", "dmbgn", "dmbgn_pretrained"),
        lambda side: {
            "inputs": Inputs(sessions=sessions()),
            "training": TrainingConfig(epochs=20, learning_rate=5e-3, batch_rows=256),
        },
    ),
    "esdpm": lambda side: delivered(graph=True),
    **dict.fromkeys(
        ("esdpm_ncg", "esmm", "mmoe", "shared_bottom", "dnn_c", "dnn_v", "mtl_ziln", "mtl_mse"),
        lambda side: delivered(),
    ),
}
"""What a model needs besides, or what makes it quick."""


def side_of(name: str) -> Side:
    return SIDE.get(name, "customer")


def options(name: str) -> dict[str, Any]:
    quick = {"training": TrainingConfig(epochs=40, learning_rate=1e-2)} if "training" in wants(name) else {}
    return {**quick, **OPTIONS.get(name, lambda side: {})(side_of(name))}


def build(name: str, seed: int = 0) -> ResponseModel:
    return make(name, levels=LEVELS, seed=seed, **options(name))


def unlabeled(name: str, count: int = FEW) -> pd.DataFrame:
    """Accounts that no model was trained on, without labels."""
    return frame(side_of(name), ROWS, HELD_OUT_SEED).head(count).drop(columns=LABELS)


@cache
def fitted(name: str) -> ResponseModel:
    return build(name).fit(frame(side_of(name)))


NAMES = names()
every = pytest.mark.parametrize("name", NAMES)


@every
def test_curves_of_accounts_it_never_saw(name: str) -> None:
    asked = unlabeled(name)
    curves = fitted(name).curve(asked)
    assert curves.levels.tolist() == list(LEVELS)
    assert curves.response.shape == (len(LEVELS), len(asked))
    assert np.isfinite(curves.response).all()
    if side_of(name) == "customer" and model_class(name).calibrated:
        assert curves.response.min() >= 0
        assert curves.response.max() <= 1


@every
def test_neither_order_nor_company_changes_a_curve(name: str) -> None:
    asked, model = unlabeled(name), fitted(name)
    whole = model.curve(asked).response
    order = np.random.default_rng(4).permutation(len(asked))
    moved = asked.iloc[order, ::-1].reset_index(drop=True)
    np.testing.assert_allclose(model.curve(moved).response, whole[:, order], atol=1e-5)
    np.testing.assert_allclose(model.curve(asked.iloc[[7]]).response, whole[:, [7]], atol=1e-5)


RESUMED = [name for name in NAMES if "progress" in wants(name)]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RESUMED])
def test_the_same_seed_gives_the_same_curves(name: str) -> None:
    few, asked = frame(side_of(name)).head(FEW), unlabeled(name, 50)
    first, again = (build(name, seed=3).fit(few).curve(asked).response for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("name", RESUMED)
def test_an_interrupted_training_resumes_bit_for_bit(name: str, tmp_path) -> None:
    """The interrupted training starts anew, so that this holds only if the same seed gives the same curves."""
    given = options(name)
    brief = {k: replace(v, epochs=9, save_seconds=0) for k, v in given.items() if isinstance(v, TrainingConfig)}
    few, asked = frame(side_of(name)).head(FEW), unlabeled(name, 50)

    def fit(stop: int | None = None) -> tuple[ResponseModel, int]:
        """Fit, and count the epochs; raise after ``stop`` of them."""
        seen = count(1)
        rows = []

        def progress(row: dict[str, float]) -> None:
            rows.append(row)
            if next(seen) == stop:
                raise KeyboardInterrupt

        model = make(name, levels=LEVELS, seed=3, **{**given, **brief, "progress": progress})
        return model.fit(few), len(rows)

    whole, epochs = fit()
    for stop in (5, 4):
        with checkpointing(tmp_path), pytest.raises(KeyboardInterrupt):
            fit(stop)
    with checkpointing(tmp_path):
        resumed, rest = fit()
    assert rest < epochs
    np.testing.assert_array_equal(resumed.curve(asked).response, whole.curve(asked).response)
    for key, value in whole.state().arrays.items():
        np.testing.assert_array_equal(resumed.state().arrays[key], value, err_msg=key)


@every
def test_saved_and_loaded_it_gives_the_same_curves(name: str, tmp_path) -> None:
    model, asked = fitted(name), unlabeled(name)
    model.save(tmp_path)
    again = load(tmp_path, options(name).get("inputs"))
    assert type(again) is type(model)
    assert again.levels.tolist() == list(LEVELS)
    np.testing.assert_array_equal(again.curve(asked).response, model.curve(asked).response)
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".safetensors"]


@pytest.mark.parametrize("name", [name for name in NAMES if model_class(name).monotone])
def test_a_curve_that_may_not_fall_does_not_for_any_weights(name: str) -> None:
    asked = unlabeled(name)
    assert rpr(fitted(name).curve(asked).response) == 0
    state = fitted(name).state()
    for seed, scale in ((0, 0.3), (1, 3.0)):
        random = np.random.default_rng(seed)
        noise = {
            key: (value + scale * random.normal(size=value.shape)).astype(value.dtype)
            if np.issubdtype(value.dtype, np.floating)
            else value
            for key, value in state.arrays.items()
        }
        model = build(name)
        model.restore(State(noise, state.meta))
        assert rpr(model.curve(asked).response) == 0


@pytest.mark.parametrize("name", [name for name in NAMES if model_class(name).calibrated])
def test_it_predicts_the_mean_response_of_every_level(name: str) -> None:
    """Within four standard errors of the difference of what it learned from and what it is judged on."""
    train, held_out = frame(side_of(name)), frame(side_of(name), ROWS, HELD_OUT_SEED)
    response = fitted(name).curve(held_out).response
    for level in range(len(LEVELS)):
        here = held_out["level"].to_numpy() == level
        y = held_out["response"].to_numpy()[here]
        error = y.std() * np.sqrt(1 / y.size + 1 / (train["level"] == level).sum())
        assert abs(response[level, here].mean() - y.mean()) < 4 * error, level


def test_before_it_is_fitted_a_model_says_so(tmp_path) -> None:
    for name in NAMES:
        model, asked = build(name), unlabeled(name)
        for ask in (partial(model.curve, asked), model.state, partial(model.save, tmp_path)):
            with pytest.raises(InvalidInput, match="fit"):
                ask()
        assert list(tmp_path.iterdir()) == [], name


BROKEN: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "no account": (lambda rows: rows.drop(columns="account_id"), "account_id"),
    "no level": (lambda rows: rows.drop(columns="level"), "level"),
    "no response": (lambda rows: rows.drop(columns="response"), "response"),
    "no rows": (lambda rows: rows.head(0), "frame"),
    "a level there is not": (lambda rows: rows.assign(level=[*rows["level"][:-1], 3]), r"level.*rows: 19"),
    "a level between two": (lambda rows: rows.assign(level=[0.5, *rows["level"][1:]]), r"level.*rows: 0"),
    "an infinite feature": (lambda rows: rows.assign(x_trait=[np.inf, *rows["x_trait"][1:]]), r"x_trait.*rows: 0"),
    "an unknown response": (lambda rows: rows.assign(response=[np.nan, *rows["response"][1:]]), r"response.*rows: 0"),
    "an infinite response": (lambda rows: rows.assign(response=[np.inf, *rows["response"][1:]]), r"response.*rows: 0"),
    "a propensity of 0": (lambda rows: rows.assign(propensity=[0.0, *rows["propensity"][1:]]), r"propensity.*rows: 0"),
    "a negative weight": (lambda rows: rows.assign(weight=[1.0] * 19 + [-1.0]), r"weight.*rows: 19"),
    "words for numbers": (lambda rows: rows.assign(x_trait="high"), "x_trait"),
    "a column without a prefix": (lambda rows: rows.assign(age=1.0), "age"),
}


class Untrained(ResponseModel):
    """Model that only checks its frame, as the base class does it for every model."""

    def fit(self, frame: pd.DataFrame) -> ResponseModel:
        self.check_frame(frame)
        return self

    def curve(self, frame: pd.DataFrame) -> Curves:
        raise NotImplementedError

    def state(self) -> State:
        raise NotImplementedError

    def restore(self, state: State) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_frame_is_refused(broken: str) -> None:
    spoil, message = BROKEN[broken]
    good = frame("customer").head(20)
    Untrained(LEVELS).fit(good)
    with pytest.raises(InvalidInput, match=message):
        Untrained(LEVELS).fit(spoil(good))


def test_a_customer_either_responds_or_not() -> None:
    few = frame("customer").head(20)
    part = few.assign(response=[0.4 if i == 3 else 1.0 for i in range(20)])
    with pytest.raises(InvalidInput, match=r"response.*rows: 3"):
        Untrained(LEVELS).fit(part)
    merchant = Untrained(LEVELS)
    merchant.side = "merchant"
    merchant.fit(part)


class Checked(Exception):
    """The frame that a model was given has come to ``check_frame``."""


def test_each_model_checks_its_frame_as_the_base_does_before_anything_else(monkeypatch) -> None:
    """No model replaces the check, and none reads the frame before it: a frame of no column comes that far."""
    given = pd.DataFrame({"nothing": [1.0]})

    def check(self: ResponseModel, checked: pd.DataFrame) -> None:
        assert checked is given
        raise Checked

    assert [name for name in NAMES if model_class(name).check_frame is not ResponseModel.check_frame] == []
    monkeypatch.setattr(ResponseModel, "check_frame", check)
    for name in NAMES:
        with pytest.raises(Checked):
            build(name).fit(given)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_the_gradient_of_a_layers_loss_is_that_of_finite_differences(layer: str) -> None:
    torch.manual_seed(0)
    made = make_layer(layer, 3, np.array(LEVELS))
    level = torch.tensor([0, 1, 2, 1, 0])
    response = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    embedding = torch.randn(5, 3, requires_grad=True)
    parameters = {key: value.detach().clone().requires_grad_() for key, value in made.named_parameters()}

    def loss(h: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        swapped = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(
            _Loss(made), {f"layer.{k}": v for k, v in swapped.items()}, (h, level, response)
        )

    assert torch.autograd.gradcheck(loss, (embedding, *parameters.values()))


class _Loss(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, h: torch.Tensor, level: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
        return self.layer.loss(h, level, response)


@pytest.mark.parametrize("layer", sorted(LAYERS))
@pytest.mark.parametrize("size", [1e-6, 50.0, 1e3])
def test_the_gradient_of_a_layers_loss_is_finite_far_out(layer: str, size: float) -> None:
    """Embeddings so long that responses are 0 or 1 to the last digit."""
    torch.manual_seed(0)
    made = make_layer(layer, 3, np.array(LEVELS))
    embedding = (size * torch.randn(40, 3)).requires_grad_()
    level = torch.arange(40) % 3
    response = (torch.arange(40) // 3 % 2).to(torch.float32)
    made.loss(embedding, level, response).sum().backward()
    assert torch.isfinite(embedding.grad).all()
    assert all(torch.isfinite(value.grad).all() for value in made.parameters() if value.grad is not None)


@pytest.mark.parametrize("name", ["gbdt", "lr", "dipn", "hazard"])
def test_categories_that_are_numbers_mean_the_same_in_every_type_of_column(name: str) -> None:
    """Pandas keeps whole numbers as decimals where another value is missing."""
    random = np.random.default_rng(0)
    town = random.integers(0, 3, 900)
    rows = pd.DataFrame({"account_id": [f"a{k}" for k in range(900)], "level": random.integers(0, len(LEVELS), 900)})
    rows = rows.assign(c_town=town, response=(random.random(900) < np.array([0.1, 0.5, 0.9])[town]).astype(float))
    options = {} if name in ("gbdt", "lr") else {"training": TrainingConfig(epochs=40, learning_rate=2e-2)}
    model = make(name, levels=LEVELS, **options).fit(rows)
    found = model.curve(rows).response
    assert found[:, town == 2].mean() - found[:, town == 0].mean() > 0.5
    number, text = rows["c_town"], rows["c_town"].astype(str)
    for column in (text, text.astype("string[pyarrow]"), number.astype(float), number.astype("Int64")):
        missing = pd.concat([column, pd.Series([None], dtype=column.dtype)], ignore_index=True)
        more = pd.concat([rows, rows.head(1)], ignore_index=True).assign(c_town=missing)
        np.testing.assert_allclose(model.curve(more).response[:, :-1], found, atol=1e-6)
