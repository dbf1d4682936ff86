"""S2's losses with everything else known: one linear predictor for all, so that only the loss differs."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s2_funds import CHOICE, FIRST, OVER, TRUTH, WISHED, Judged, against
from shadowprice.datasets.funds import UNIT, FundOptions, Funds, draw
from shadowprice.responses.funds.outputs import Outputs
from shadowprice.responses.funds.rows import FundRows

LOSSES = {"ESJ": "esj", "ESJ, mass of 1": "esj_mass", "ZILN": "ziln", "MSE": "mse", "conversion alone": "conversion"}
RIDGE = 1e-4
PAIRS = [(row, other) for row in ("ESJ", "ESJ, mass of 1") for other in ("ZILN", "MSE", "conversion alone")]
COLUMNS = ("MSE", OVER, "THA", CHOICE)


def scores(drawn: Funds) -> Tensor:
    """(K, N, 4): one, and the standardised log-odds of a click, mu and sigma of the truth."""
    truth = (logit(drawn.click.astype(float)), drawn.mu.astype(float), drawn.sigma.astype(float))
    known = [(each - each.mean()) / each.std() for each in truth]
    return torch.from_numpy(np.stack([np.ones_like(known[0]), *known], axis=2))


def learnt(judged: Judged, loss: str) -> tuple[Outputs, Tensor]:
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
    descent = torch.optim.LBFGS([theta], max_iter=150, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        descent.zero_grad()
        raw = torch.einsum("tnf,nf->nt", theta[:, level], x)
        total = outputs.rows(raw, rows).mean() + RIDGE * theta[:, :, 1:].square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    descent.step(closure)  # type: ignore[no-untyped-call]
    return outputs, theta.detach()


def run(seed: int, quick: bool) -> Rows:
    """Every loss on deliveries as the models' own table has them, twice: amounts apart, and wishes that decide."""
    found: dict[str, dict[str, float]] = {}
    for suffix, wishes in (("", False), (WISHED, True)):
        judged = Judged(
            draw(FundOptions(users=300 if quick else 1200, merchants=120, wishes=wishes), FIRST + seed), seed
        )
        chosen = judged.drawn.users["account_id"].isin(judged.users["account_id"]).to_numpy()
        x = scores(judged.drawn)[:, chosen]
        for row, loss in LOSSES.items():
            outputs, theta = learnt(judged, loss)
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
        others = [row + suffix for row in ("ZILN", "MSE", "conversion alone")]
        told = [
            against(summary, column, row + suffix, others)
            for row in ("ESJ", "ESJ, mass of 1")
            for column in (OVER, CHOICE)
        ]
        parts.append(where + "; ".join(told))
    return ". ".join(parts) + "."


TABLE = Table(
    title="The losses of S2 alone",
    source="an ablation of the offline comparison of S2 (EOCA)",
    data=(
        "simulated: generated data set `funds`, 1,200 users × 8 deliveries of 8 funds, 35 % of the users judged; for "
        "each fund a predictor linear in the true log-odds of a click, mu and sigma, by penalised maximum likelihood, "
        "the same for every loss"
    ),
    run=run,
    reading=reading,
    compare=[
        (column, row + suffix, other + suffix) for suffix in ("", WISHED) for row, other in PAIRS for column in COLUMNS
    ],
    fewer_is_better=("logloss", "MSE", "MAE", OVER, "MSE, log of ETV", "RMSE, currency"),
)
