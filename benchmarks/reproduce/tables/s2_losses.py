"""S2's losses with everything else known: one linear predictor for all, so that only the loss differs."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import logit, ndtr
from torch import Tensor

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import CHOICE, FIRST, JUDGED, OVER, TRUTH, Judged, against
from shadowprice.datasets.funds import LEAST, UNIT, FundOptions, Funds, draw
from shadowprice.responses.funds.outputs import Outputs
from shadowprice.responses.funds.rows import FundRows

LOSSES = {
    "ESJ": "esj",
    "ESJ, mass of 1": "esj_mass",
    "two parts": "cragg",
    "ZILN": "ziln",
    "MSE": "mse",
    "conversion alone": "conversion",
}
WISHED = ", wishes"
"""Suffix of rows on deliveries where the wish decides."""
MASS = "ESJ, mass of 1"
RIDGE = 1e-4
STEPS, QUICK_STEPS = 150, 30
OTHERS = ("two parts", "ZILN", "MSE", "conversion alone")
PAIRS = [(row, other) for row in ("ESJ", MASS) for other in OTHERS]
USERS = {"": 1_200, WISHED: 10_000}
QUICK_USERS = {"": 300, WISHED: 1_000}
SHARE = {"": JUDGED, WISHED: 0.6}
FROM = {"": FIRST, WISHED: FIRST + 500}
"""Users, the share of them that is judged, and the delivery of seed 0, by world. Purchases are rarer where wishes
decide; the sizes there were chosen on other deliveries."""
SHORT, SHORT_BOUGHT = "value of those who rather fall short", "purchases of those who rather fall short"
COLUMNS = ("MSE", OVER, "THA", CHOICE)


def scores(drawn: Funds) -> Tensor:
    """(K, N, 4): one, and the standardised log-odds of a click, mu and sigma of the truth."""
    truth = (logit(drawn.click.astype(float)), drawn.mu.astype(float), drawn.sigma.astype(float))
    known = [(each - each.mean()) / each.std() for each in truth]
    return torch.from_numpy(np.stack([np.ones_like(known[0]), *known], axis=2))


def learnt(judged: Judged, loss: str, steps: int) -> tuple[Outputs, Tensor]:
    """How outputs are read, and a linear predictor (T, K, 4) for each fund by penalised maximum likelihood."""
    frame, drawn = judged.learnt, judged.drawn
    place = np.searchsorted(drawn.users["account_id"], frame["account_id"])
    level = torch.from_numpy(frame["level"].to_numpy(dtype=np.int64))
    x = scores(drawn)[level, torch.from_numpy(place)]
    nothing = torch.zeros(len(frame), 0)
    rows = FundRows(
        numeric=nothing,
        category=nothing,
        events=None,
        node=None,
        level=level,
        clicked=torch.from_numpy(frame["clicked"].to_numpy(dtype=np.float64)),
        v=torch.from_numpy(np.log1p(frame["amount"].to_numpy(dtype=np.float64) / UNIT)),
        weight=torch.ones(len(frame), dtype=torch.float64),
    )
    outputs = Outputs.of(loss, 2, frame, UNIT, 0.999)
    theta = torch.zeros(outputs.width, len(drawn.demand), x.shape[1], dtype=torch.float64)
    theta[:, :, 0] = outputs.start(rows)[:, None]
    theta.requires_grad_()
    descent = torch.optim.LBFGS([theta], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        descent.zero_grad()
        raw = torch.einsum("tnf,nf->nt", theta[:, level], x)
        total = outputs.rows(raw, rows).mean() + RIDGE * theta[:, :, 1:].square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    descent.step(closure)  # type: ignore[no-untyped-call]
    return outputs, theta.detach()


def run(seed: int, quick: bool) -> Rows:
    """Every loss in two worlds: amounts apart from purchases, and wishes that decide."""
    found: dict[str, dict[str, float]] = {}
    for suffix, wishes in (("", False), (WISHED, True)):
        users = (QUICK_USERS if quick else USERS)[suffix]
        drawn = draw(FundOptions(users=users, merchants=120, wishes=wishes), FROM[suffix] + seed)
        judged = Judged(drawn, seed, SHARE[suffix])
        chosen = judged.drawn.users["account_id"].isin(judged.users["account_id"]).to_numpy()
        x = scores(judged.drawn)[:, chosen]
        for row, loss in LOSSES.items():
            outputs, theta = learnt(judged, loss, QUICK_STEPS if quick else STEPS)
            raw = torch.einsum("tkf,knf->knt", theta, x).flatten(0, 1)
            p, _, _, amount, log_amount = outputs.delivery(raw).view(5, len(x), -1).numpy()
            value = p * np.minimum(amount, outputs.cap)
            found[row + suffix] = judged.figures(p, value, p * log_amount)
        found[TRUTH + suffix] = judged.truth()
        if wishes:
            found[TRUTH + suffix] |= fallen(drawn)
    return found


def fallen(drawn: Funds) -> dict[str, float]:
    """Of the expected value and of the purchases, the share of pairs whose wish falls short more often than not."""
    short = ndtr((drawn.mu - LEAST) / drawn.sigma) < 0.5
    return {
        SHORT: float(drawn.value[short].sum() / drawn.value.sum()),
        SHORT_BOUGHT: float(drawn.convert[short].sum() / drawn.convert.sum()),
    }


def reading(summary: Summary) -> str:
    """Where the losses differ, and where they cannot."""
    parts = []
    for suffix, where in (("", "Where amounts are apart from purchases, "), (WISHED, "Where the wish decides, ")):
        told = [
            against(summary, column, row + suffix, [other + suffix for other in OTHERS])
            for row in ("ESJ", MASS)
            for column in COLUMNS
        ]
        parts.append(where + "; ".join(told))
    value, bought = (summary.cell(TRUTH + WISHED, column).value for column in (SHORT, SHORT_BOUGHT))
    said = (
        f"There, users and funds whose wish rather falls short make {bought:.0%} of the purchases, {value:.0%} of value"
    )
    if summary.verdict(OVER, MASS + WISHED, "two parts" + WISHED) == "better":
        said += (
            f'. What {MASS} gains is what rows without a purchase say of mu: "two parts" has the same law of amounts '
            "and hears purchases alone"
        )
    if all(summary.verdict(CHOICE, MASS + WISHED, other + WISHED) == "not told apart" for other in ("ZILN", "MSE")):
        said += (
            ". It does not show in choices: they are made where the value is, of users whose wish does not fall short, "
            "where a row without a purchase says nothing of mu and the mean of the tail hangs on sigma"
        )
    parts.append(said)
    return ". ".join(parts) + "."


TABLE = Table(
    title="The losses of S2 alone",
    source="an ablation of the offline comparison of S2 (EOCA)",
    data=(
        "simulated: generated data set `funds`, 8 deliveries of 8 funds to 1,200 users, 35 % of them judged, and where "
        "the wish decides to 10,000, 60 % of them judged; for each fund a predictor linear in the true log-odds of a "
        "click, mu and sigma, by penalised maximum likelihood, the same for every loss. "
        '"Two parts" is the model of Cragg (1971): ESJ with a mass of 1 that learns amounts from purchases alone'
    ),
    run=run,
    reading=reading,
    compare=[
        (column, row + suffix, other + suffix) for suffix in ("", WISHED) for row, other in PAIRS for column in COLUMNS
    ],
    fewer_is_better=("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", "RMSE, currency"),
)
