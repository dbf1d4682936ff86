"""The hourly pipeline: measure → solve → publish."""

from kfp import dsl

from components.measure import measure
from components.publish import publish
from components.solve import solve
from pipelines.placement import MOUNT, placed


@dsl.pipeline(name="shadowprice-resolve", description="Solve the price of the money that is left.")
def resolve_pipeline(
    workspace: str = MOUNT,
    ledger_url: str = "",
    metrics_urls: list = [],  # noqa: B006 - kfp reads the default from the signature
    prometheus_url: str = "",
    workers: int = 0,
    ray_job: str = "",
    on_alarm: str = "",
) -> None:
    """Solve λ* again and publish it. What now matters is never cached.

    Args:
        workspace: folder with campaign, model, features and prices.
        ledger_url: of the ledger service; empty before the campaign starts.
        metrics_urls: pages to read the spend from when no Prometheus is configured; the ledger's when empty.
        prometheus_url: of Prometheus; empty when there is none.
        workers: Ray actors that hold the accounts; 0 solves in one process, which is quicker below 10⁷ accounts.
        ray_job: ConfigMap with the RayJob that the solve runs in; empty solves in the step's own container.
        on_alarm: pacer to price by while the watch alarms; empty: the campaign's.
    """
    measured = measure(
        workspace=workspace, ledger_url=ledger_url, metrics_urls=metrics_urls, prometheus_url=prometheus_url
    ).set_caching_options(False)
    placed(measured, cpu="250m", memory="1Gi", minutes=5, ledger=True)
    solved = solve(
        state=measured.outputs["state"],
        workspace=workspace,
        workers=workers,
        on_alarm=on_alarm,
        ray_job=ray_job,
    )
    solved.set_caching_options(False)
    placed(solved, cpu="1", memory="4Gi", minutes=10, online_store=True)
    published = publish(price=solved.outputs["price"], workspace=workspace).set_caching_options(False)
    placed(published, cpu="250m", memory="1Gi", minutes=5, online_store=True)
