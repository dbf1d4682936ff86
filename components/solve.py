"""Re-solve, step 2: the price of the money that is left."""

from kfp import dsl
from kfp.dsl import Artifact, Input, Metrics, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def solve(
    state: Input[Artifact], price: Output[Artifact], metrics: Output[Metrics], workspace: str, solver: str = "auto"
) -> None:
    """Solve the dual on recent traffic; fails when the solve is not certified, and the last good price stays.

    Args:
        state: from the measure step.
        price: the price record, sealed, not yet published.
        metrics: price, tie share, gap, violation.
        workspace: folder with campaign, model and features.
        solver: a solver's name; auto takes the fast exact one.
    """
    from pathlib import Path

    from feature_repo.resolve import solve_state

    record = solve_state(Path(state.path), Path(workspace), Path(price.path), solver=solver)
    for name, value in record.prices.items():
        metrics.log_metric(f"price_{name}", value)
    for name in ("tie_share", "gap", "violation", "sample_rows"):
        metrics.log_metric(name, float(getattr(record, name)))
