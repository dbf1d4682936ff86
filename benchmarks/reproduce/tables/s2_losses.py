"""S2's losses with everything else known: one linear predictor for all, so that only the loss differs."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import CHOICE, FIRST, JUDGED, OVER, TRUTH, Judged, against
from shadowprice.datasets.funds import UNIT, FundOptions, Funds, draw
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
JOINT, HEARD = "joint law", "ZILN, heard as the joint law"
GIVEN_CLICK = {JOINT: "esj_mass", HEARD: "ziln"}
"""Rows that hear purchases and amounts given the click, with a sigma that is the fund's."""
WISHED = ", wishes"
"""Suffix of rows on deliveries where the wish decides."""
MASS = "ESJ, mass of 1"
RIDGE = 1e-4
STEPS, QUICK_STEPS = 150, 30
OTHERS = ("two parts", "ZILN", "MSE", "conversion alone")
PAIRS = [(row, other) for row in ("ESJ", MASS) for other in OTHERS]
PAIRS += [(JOINT, other) for other in (MASS, HEARD, "ZILN", "MSE", "conversion alone")]
USERS = {"": 1_200, WISHED: 10_000}
QUICK_USERS = {"": 300, WISHED: 1_000}
SHARE = {"": JUDGED, WISHED: 0.8}
LATER = {"": 0, WISHED: 256}
FROM = {"": FIRST, WISHED: FIRST + 1_300}
"""Users, the share of them that is judged, the later deliveries that a judged user is judged on in place of those
drawn, and the delivery of seed 0, by world."""
COLUMNS = ("MSE", OVER, "THA", CHOICE)


def scores(drawn: Funds) -> Tensor:
    """(K, N, 4): one, and the standardised log-odds of a click, mu and sigma of the truth."""
    truth = (logit(drawn.click.astype(float)), drawn.mu.astype(float), drawn.sigma.astype(float))
    known = [(each - each.mean()) / each.std() for each in truth]
    return torch.from_numpy(np.stack([np.ones_like(known[0]), *known], axis=2))


def learnt(judged: Judged, loss: str, steps: int, *, given_click: bool = False) -> tuple[Outputs, Tensor]:
    """How outputs are read, and a linear predictor (T, K, 4) for each fund by penalised maximum likelihood.

    ``given_click`` purchases and amounts are heard of clicked deliveries, and sigma is one number for each fund.
    """
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
    outputs = Outputs.of(loss, 2, frame, UNIT, 0.999, given_click=given_click)
    theta = torch.zeros(outputs.width, len(drawn.demand), x.shape[1], dtype=torch.float64)
    theta[:, :, 0] = outputs.start(rows)[:, None]
    free = torch.ones_like(theta)
    free[-1, :, 1:] = float(not given_click)
    theta.requires_grad_()
    descent = torch.optim.LBFGS([theta], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        descent.zero_grad()
        raw = torch.einsum("tnf,nf->nt", (free * theta)[:, level], x)
        total = outputs.rows(raw, rows).mean() + RIDGE * theta[:, :, 1:].square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    descent.step(closure)  # type: ignore[no-untyped-call]
    return outputs, (free * theta).detach()


def run(seed: int, quick: bool) -> Rows:
    """Every loss in two worlds: amounts apart from purchases, and wishes that decide."""
    found: dict[str, dict[str, float]] = {}
    for suffix, wishes in (("", False), (WISHED, True)):
        users = (QUICK_USERS if quick else USERS)[suffix]
        drawn = draw(FundOptions(users=users, merchants=120, wishes=wishes), FROM[suffix] + seed)
        judged = Judged(drawn, seed, SHARE[suffix], LATER[suffix])
        chosen = judged.drawn.users["account_id"].isin(judged.users["account_id"]).to_numpy()
        x = scores(judged.drawn)[:, chosen]
        for row, loss in (LOSSES | GIVEN_CLICK).items():
            outputs, theta = learnt(judged, loss, QUICK_STEPS if quick else STEPS, given_click=row in GIVEN_CLICK)
            raw = torch.einsum("tkf,knf->knt", theta, x).flatten(0, 1)
            p, _, _, amount, log_amount = outputs.delivery(raw).view(5, len(x), -1).numpy()
            value = p * np.minimum(amount, outputs.cap)
            found[row + suffix] = judged.figures(p, value, p * log_amount)
        found[TRUTH + suffix] = judged.truth()
    return found


def reading(summary: Summary) -> str:
    """Where the losses differ, and where they cannot."""
    parts = []
    for suffix, where in (("", "Where amounts are apart from purchases, "), (WISHED, "Where the wish decides, ")):
        others: dict[str, list[str]] = {}
        for row, other in PAIRS:
            others.setdefault(row, []).append(other + suffix)
        told = [against(summary, column, row + suffix, others[row]) for row in others for column in COLUMNS]
        parts.append(where + "; ".join(told))
    return ". ".join(parts) + "."


TABLE = Table(
    title="The losses of S2 alone",
    source="an ablation of the offline comparison of S2 (EOCA)",
    data=(
        "simulated: generated data set `funds`, 8 deliveries of 8 funds to 1,200 users, 35 % of them judged, and where "
        "the wish decides to 10,000, 80 % of them judged, on 256 later deliveries each; for each fund a linear "
        "predictor of the true log-odds of a click, mu and sigma, by penalised maximum likelihood, the same for "
        "every loss. "
        '"Two parts" is the model of Cragg (1971): ESJ with a mass of 1 that learns amounts from purchases alone. '
        '"Joint law" is ESJ with a mass of 1 that hears purchases and amounts of clicked deliveries alone, with one '
        "sigma for each fund"
    ),
    run=run,
    reading=reading,
    compare=[
        (column, row + suffix, other + suffix) for suffix in ("", WISHED) for row, other in PAIRS for column in COLUMNS
    ],
    fewer_is_better=("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", "RMSE, currency"),
)
