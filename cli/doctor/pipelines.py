"""Check of a Kubeflow Pipelines backend: mode, credentials and namespace."""

from cli.doctor.finding import Finding, Findings, Target
from pipelines.connection import Connection
from shadowprice.errors import InvalidInput, Unavailable


def backend(target: Target) -> Findings:
    """Check that the backend takes calls with the credentials of the environment, for the namespace of the release."""
    if not target.pipelines_url:
        return
    from pipelines.client import connected

    try:
        with connected(Connection(host=target.pipelines_url, namespace=target.namespace)) as (
            client,
            namespace,
        ):
            if namespace:
                client.list_experiments(namespace=namespace, page_size=1)
    except (InvalidInput, Unavailable) as error:
        reason = error.reason if isinstance(error, InvalidInput) else str(error)
        fault, _, mend = reason.rpartition("; ")
        yield Finding("pipelines", fault or reason, mend if fault else "start it or correct the address")
