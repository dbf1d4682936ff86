"""Deciding by learned margins in a world where amounts fall over the levels: which error costs how much."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize

from benchmarks.world.equal_cost import Choices, value_at_cost
from research.table import Primary, Rows, Summary, Table
from shadowprice.campaign import Side
from shadowprice.curves import Curves, expected_amounts
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.batches import make_batches
from shadowprice.responses.joint.fit import fit_network, refit_amounts, scheduled
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.training import TrainingConfig

STEPS, REFITTED = "gradient steps alone", "amounts refitted"
RESPONSES, AMOUNTS = "refitted, true responses", "refitted, true amounts"
ACCOUNTS, BY_LEVEL = "refitted, true accounts' amounts", "refitted, true change of amounts over levels"
FORM = "the generator's own form, fitted"
SHARE = "share of the attainable margin, %"
SIDE: Side = "customer"
LEVELS = np.array([0, 40, 80, 120])
CENTS, ROWS, FEATURES = 20, 8, 4
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trial:
    """Rows of a trial, and its truth.

    x          (n, 4) features of the accounts
    rows       account_id, level, response, propensity and amount; account (N,) is the position of each row's
    response   (J, n) true probabilities; amount (J, n) true mean amounts
    """

    x: NDArray[np.float32]
    rows: pd.DataFrame
    account: NDArray[np.int64]
    response: Matrix
    amount: Matrix

    @property
    def snapshot(self) -> GraphSnapshot:
        """The accounts without ties."""
        names = tuple(f"x_{k}" for k in range(FEATURES))
        ids = np.array([f"c{k:05d}" for k in range(len(self.x))])
        return GraphSnapshot(
            account_id=ids,
            is_side=np.array([np.ones(ids.size, bool), np.zeros(ids.size, bool)]),
            names={"customer": names, "merchant": ()},
            features={"customer": self.x, "merchant": np.zeros((ids.size, 0), np.float32)},
            edge_index=np.zeros((2, 0), np.int64),
            edge_names=(),
            edge_features=np.zeros((0, 0), np.float32),
            at=datetime(2026, 3, 1, tzinfo=UTC),
        )


def draw(seed: int, accounts: int) -> Trial:
    """Draw eight rows of each account; amounts are log-normal with a deviation of 1 and fall over the levels."""
    random, level = np.random.default_rng(seed), LEVELS[:, None]
    x = random.normal(size=(accounts, FEATURES)).astype(np.float32)
    response = 1 / (1 + np.exp(-(-2.2 + 0.6 * x[:, 1] + np.exp(-0.6 + 0.7 * x[:, 0]) * level / 80)))
    mean = 8.0 + 0.8 * x[:, 2] + 0.3 * x[:, 1] - (0.3 + 0.2 * x[:, 3]) * level / 120
    account = np.repeat(np.arange(accounts), ROWS)
    given = random.integers(0, LEVELS.size, account.size)
    hit = random.random(account.size) < response[given, account]
    amount = np.rint(np.exp(mean[given, account] + random.normal(size=account.size)) + 0.5)
    rows = pd.DataFrame({"account_id": [f"c{k:05d}" for k in account], "level": given, "response": hit.astype(float)})
    rows = rows.assign(propensity=1 / LEVELS.size, amount=np.where(hit, amount, np.nan))
    return Trial(x, rows, account, response, np.exp(mean + 0.5))


def run(seed: int, quick: bool) -> Rows:
    trial = draw(seed, 800 if quick else 6000)
    spec = JointSpec(encoder="none", layers={SIDE: "hazard"}, levels={SIDE: LEVELS.tolist()}, amounts={SIDE: "ziln"})
    held = trial.account >= 0.85 * len(trial.x)
    train, validation = ({SIDE: trial.rows[mask]} for mask in (~held, held))
    model = JointModel.prepare(spec, [trial.snapshot], train, seed)
    data = model.data([trial.snapshot], train, validation)
    batches, config = make_batches(data, seed), TrainingConfig(epochs=60, seed=seed)
    fit_network(model.network, batches, scheduled(config, batches.count), progress=lambda _: None)
    before = amounts_of(curves(model, trial))
    refit_amounts(model.network, data)
    found = curves(model, trial)
    response, amount = found.response.astype(np.float64), amounts_of(found)
    truth, log, own = (trial.response, trial.amount), np.log(trial.amount), np.log(amount)
    kept = own - own.mean(axis=0)
    pairs = {
        STEPS: (response, before),
        REFITTED: (response, amount),
        RESPONSES: (trial.response, amount),
        AMOUNTS: (response, trial.amount),
        ACCOUNTS: (response, np.exp(log.mean(axis=0) + kept)),
        BY_LEVEL: (response, np.exp(own.mean(axis=0) + log - log.mean(axis=0))),
        FORM: by_form(trial),
    }
    least, best = earned(trial, response, np.ones_like(response)), earned(trial, *truth)
    return {name: {SHARE: 100 * (earned(trial, *pair) - least) / (best - least)} for name, pair in pairs.items()}


def curves(model: JointModel, trial: Trial) -> Curves:
    snapshot = trial.snapshot
    asked = pd.DataFrame({"account_id": snapshot.account_id})
    return model.curves(Inputs(snapshots=[snapshot]), {SIDE: asked})[SIDE]


def amounts_of(found: Curves) -> Matrix:
    assert found.amounts is not None
    return expected_amounts(found.amounts)


def earned(trial: Trial, response: Matrix, amount: Matrix) -> float:
    """Return the true value of deciding by the product of two curves, at a true cost of 20 cents an account."""
    cost, paid = LEVELS[:, None] * response, LEVELS[:, None] * trial.response
    chosen = Choices(response * amount, cost, trial.response * trial.amount, paid)
    return value_at_cost([chosen], CENTS * len(trial.x))


def by_form(trial: Trial) -> tuple[Matrix, Matrix]:
    """Return the curves of the formulas that drew the trial, with coefficients by most likelihood on all rows."""
    given, y = (trial.rows[name].to_numpy() for name in ("level", "response"))
    every = np.column_stack([np.ones(len(trial.x)), trial.x.astype(np.float64)])
    x, level, width = every[trial.account], LEVELS[given] / 80, every.shape[1]

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slope = np.exp(x @ found[width:]) * level
        score = x @ found[:width] + slope
        error = 1 / (1 + np.exp(-score)) - y
        return float(np.logaddexp(0, score).sum() - y @ score), np.concatenate([x.T @ error, x.T @ (error * slope)])

    start = np.zeros(2 * width)
    start[0] = -2.0
    fitted: Any = optimize.minimize(loss, start, jac=True, method="L-BFGS-B")
    base, slope = every @ fitted.x[:width], np.exp(every @ fitted.x[width:])
    hit, share = y > 0, LEVELS / LEVELS[-1]
    design = np.column_stack([x, x * share[given, None]])[hit]
    line = np.linalg.lstsq(design, np.log(trial.rows["amount"].to_numpy()[hit]), rcond=None)[0]
    mean = every @ line[:width] + share[:, None] * (every @ line[width:])
    return 1 / (1 + np.exp(-(base + slope * LEVELS[:, None] / 80))), np.exp(mean)


def reading(found: Summary) -> str:
    now, responses, amounts, form = (found.cell(name, SHARE).value for name in (REFITTED, RESPONSES, AMOUNTS, FORM))
    return (
        f"Refitted amounts earn {now:.0f} % of the margin that the truth earns above deciding by responses. Learned "
        f"amounts alone cost {100 - responses:.0f} points, and learned responses alone {100 - amounts:.0f}. Features "
        "show all that differs between accounts, and a fit that knows the formulas and needs their coefficients alone "
        f"earns {form:.0f} %: that is about what these rows allow."
    )


TABLE = Table(
    title="Deciding by learned margins",
    source="how much of the margin learned amounts and responses reach",
    data="a generated trial of 6,000 customers with eight rows each, levels at random, four features. Responses are "
    "logistic; amounts are log-normal with a deviation of 1 and fall over the levels, by account. Curves decide at one "
    "true cost of 20 cents a customer; 0 % is deciding by the learned responses, 100 % by the truth; simulated",
    run=run,
    reading=reading,
    primary=Primary(SHARE, REFITTED, STEPS, effect=8.0, spread=5.0),
    compare=[
        (SHARE, RESPONSES, REFITTED),
        (SHARE, AMOUNTS, REFITTED),
        (SHARE, BY_LEVEL, REFITTED),
        (SHARE, ACCOUNTS, REFITTED),
        (SHARE, FORM, REFITTED),
    ],
)
