"""S2's losses with everything else known: one linear predictor for all, so that only the loss differs."""

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import logit
from torch import Tensor

from research.table import Primary, Rows, Summary, Table
from research.tables.s2.funds import CHOICE, FEWER, FIRST, JUDGED, OVER, OVER_MONEY, TRUTH, Judged
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
MASS = "ESJ, mass of 1"
MASS_CLICK, ZILN_CLICK = f"{MASS}, given a click", "ZILN, given a click"
GIVEN_CLICK = {MASS_CLICK: "esj_mass", ZILN_CLICK: "ziln"}
"""Rows that learn purchases and amounts from clicked deliveries alone, with one sigma for each fund."""
RIDGE = 1e-4
STEPS, QUICK_STEPS = 150, 30
COLUMNS = (OVER, OVER_MONEY, CHOICE)
PAIRS = [("ESJ", "ZILN"), (MASS, "ESJ"), (MASS, "two parts"), (MASS, "ZILN"), (MASS_CLICK, ZILN_CLICK)]


class World(NamedTuple):
    """Deliveries on which the losses are compared.

    where        in words
    users, few   in all, and in a quick run
    judged       share of them
    later        deliveries that each of these is judged on, in place of those drawn
    first        the delivery of seed 0
    options      of the generator
    """

    where: str
    users: int
    few: int
    judged: float
    later: int
    first: int
    options: dict[str, Any]


WORLDS = {
    "": World("where amounts are apart from purchases", 1_200, 300, JUDGED, 0, FIRST, {}),
    ", censored": World("where a latent amount decides", 4_000, 1_000, 0.5, 128, FIRST + 1_300, {"censored": True}),
    ", fewer reach": World(
        "where fewer latent amounts suffice",
        5_000,
        1_000,
        0.4,
        128,
        FIRST + 1_600,
        {"censored": True, "brought": 1.5, "funds": 4, "deliveries": 16},
    ),
}
"""Worlds by the suffix of their rows."""


def scores(drawn: Funds) -> Tensor:
    """(K, N, 4): one, and the standardized log-odds of a click, mu and sigma of the truth."""
    truth = (logit(drawn.click.astype(float)), drawn.mu.astype(float), drawn.sigma.astype(float))
    known = [(each - each.mean()) / each.std() for each in truth]
    return torch.from_numpy(np.stack([np.ones_like(known[0]), *known], axis=2))


def learnt(judged: Judged, loss: str, steps: int, *, given_click: bool = False) -> tuple[Outputs, Tensor]:
    """Reader of the outputs, and a linear predictor (T, K, 4) for each fund by penalized maximum likelihood.

    With ``given_click`` purchases and amounts are learnt from clicked deliveries, with one sigma for each fund.
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
    found: dict[str, dict[str, float]] = {}
    for suffix, world in WORLDS.items():
        users = world.few if quick else world.users
        drawn = draw(FundOptions(users=users, merchants=120, **world.options), world.first + seed)
        judged = Judged(drawn, seed, world.judged, world.later)
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
    printed = summary.tally([(OVER_MONEY, "ESJ" + suffix, "ZILN" + suffix) for suffix in WORLDS])
    mass = summary.tally([(CHOICE, MASS + suffix, "ZILN" + suffix) for suffix in WORLDS])
    return (
        f"Against ZILN, the printed ESJ is {printed} on {OVER_MONEY}. With a mass of 1 it is {mass} on {CHOICE}. The "
        "generator draws the two censored worlds from the law of `esj_mass`, which favors it."
    )


TABLE = Table(
    title="The losses of S2 alone",
    source="an ablation of table 1 of S2",
    data="`funds`, 8 deliveries of 8 funds to 1,200 users, 35 % of them judged; simulated. Censored: the option "
    "`censored`, 4,000 users, half of them judged. Fewer reach: `censored` with 1.5 expected units of the mean user "
    "in place of 6, 16 deliveries of 4 funds to 5,000 users, 40 % of them judged. Both have 128 later deliveries and "
    "are drawn from the law of `esj_mass`, which favors that loss. One linear predictor a fund by penalized maximum "
    "likelihood; ETV as in [s2_table1](s2_table1.md)",
    run=run,
    reading=reading,
    primary=Primary(OVER, "ESJ", "ZILN", effect=0.001, spread=0.0003),
    compare=[
        *[
            (column, row + suffix, other + suffix)
            for suffix in WORLDS
            for row, other in PAIRS
            for column in COLUMNS
            if (column, row + suffix) != (OVER, "ESJ")
        ]
    ],
    fewer_is_better=FEWER,
)
