"""Re-solve, step 1: what was spent, what is still to come, who has been asking."""

from kfp import dsl
from kfp.dsl import Artifact, Output

from components.image import BASE_IMAGE


@dsl.component(base_image=BASE_IMAGE, install_kfp_package=False)
def measure(state: Output[Artifact], workspace: str, ledger_url: str, metrics_urls: list, prometheus_url: str) -> None:
    """Read spend and traffic now.

    Args:
        state: spend report, forecast of the remaining requests, accounts of recent requests.
        workspace: folder with campaign and traffic.
        ledger_url: of the ledger service; empty before the campaign starts.
        metrics_urls: pages to read the spend from when no Prometheus is configured; the ledger's when empty.
        prometheus_url: of Prometheus; empty when there is none.
    """
    from pathlib import Path

    from serving.measure import measure as step

    step(Path(workspace), Path(state.path), ledger_url, metrics_urls, prometheus_url)
