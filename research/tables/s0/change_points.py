"""S0's response methods where customers differ in the incentive at which they move: what a free hazard is for."""

import numpy as np
import torch
from numpy.typing import NDArray

from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import BUDGET, ERROR, FEWER, OURS, WORLD, decisions, measure, relative
from shadowprice.datasets.world import CUSTOMER_LEVELS

METHODS = {OURS: "joint_gnn", "Cox": "joint_cox", "SBBM": "joint_sbbm", "DSSM-c": "joint_dssm_c"}
OTHERS = [method for method in METHODS if method != OURS]
PROPORTIONAL, TRUTH = "best proportional curves", "true curves"
BOUGHT = "payments at equal cost, % over Cox"
COLUMNS = ("AUC_c", "MSE_c", ERROR, BOUGHT)


def run(seed: int, quick: bool) -> Rows:
    found, held_out = measure(METHODS, seed, quick, own_change_point=True)
    truth = held_out.truth
    found[PROPORTIONAL] = {ERROR: proportional_error(truth)}
    found[TRUTH] = {ERROR: 0.0, **decisions(truth, truth, np.asarray(CUSTOMER_LEVELS), BUDGET)}
    relative(found, "Cox")
    return found


def proportional_error(truth: NDArray[np.float64]) -> float:
    """Least root mean squared error of curves 1 − exp(−Λ_j·exp(a_n)) to the true ones (J, N), over all Λ and a."""
    target = torch.from_numpy(np.minimum(truth, 1.0 - 1e-6))  # a hazard that is finite
    steps = torch.diff(-torch.log1p(-target.mean(dim=1)), prepend=torch.zeros(1, dtype=target.dtype))
    rate = torch.log(steps).clone().requires_grad_()
    offset = torch.zeros(truth.shape[1], dtype=target.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([rate, offset], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        curves = 1.0 - torch.exp(-torch.cumsum(rate.exp(), dim=0)[:, None] * offset.clamp(-12.0, 12.0).exp())
        error = ((curves - target) ** 2).mean()
        error.backward()  # type: ignore[no-untyped-call]
        return error

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return float(np.sqrt(float(loss().detach())))


def reading(found: Summary) -> str:
    verdicts = found.tally([(column, OURS, other) for column in COLUMNS for other in OTHERS])
    return (
        f"Ours is {verdicts} on {', '.join(COLUMNS)}. Proportional curves cannot come nearer than "
        f"{found.cell(PROPORTIONAL, ERROR).value:.2g} to the truth of this world; Cox is at "
        f"{found.cell('Cox', ERROR).value:.2g}, and ours at {found.cell(OURS, ERROR).value:.2g} for lack of knowledge "
        "of the accounts. The world favors the hazard layer by construction."
    )


PUBLISHED = {OURS: 0.9303, "Cox": 0.9221, "SBBM": 0.9246, "DSSM-c": 0.9150}
PRIMARY = ("AUC_c", OURS, "Cox")

TABLE = Table(
    title="Joint incentive optimization: customers who move at incentives of their own",
    source="S0, table 3 (response models), in kind",
    data=f"the {WORLD} with `own_change_point`: some customers move at 60 cents and others at 120. **Hazards are not "
    "proportional by design, which favors the hazard layer.**",
    run=run,
    published={method: {"AUC_c": value} for method, value in PUBLISHED.items()},
    primary=Primary(*PRIMARY, effect=0.004, spread=0.003),
    compare=[(column, OURS, method) for column in COLUMNS for method in OTHERS if (column, OURS, method) != PRIMARY],
    fewer_is_better=FEWER,
    reading=reading,
)
