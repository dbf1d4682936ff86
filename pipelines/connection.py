"""Address of a Kubeflow Pipelines backend, and the caller that it sees."""

import os
from dataclasses import dataclass

from pipelines.cluster import named
from shadowprice.errors import InvalidInput

HOST = "KF_PIPELINES_ENDPOINT"
"""Environment variable of Kubeflow's SDK with the address."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Address of a backend, and the caller that it sees.

    Credentials are, in this order: the token file, the cookie file, the token that Kubernetes projects into a pod for
    Kubeflow Pipelines, what Kubeflow's SDK has saved (``~/.config/kfp/context.json``).
    """

    host: str = named(f"address of the Kubeflow Pipelines API; that of {HOST} by default")
    namespace: str = named("profile that owns pipelines and runs; the one that Kubeflow's SDK has saved by default")
    token_file: str = named("file with a bearer token; that of the pod by default")
    cookie_file: str = named("file with the cookies of a browser that is signed in, as name=value; name=value")

    @property
    def address(self) -> str:
        """The address, given or of the environment.

        Raises:
            InvalidInput: there is none.
        """
        host = self.host or os.environ.get(HOST, "")
        if not host:
            raise InvalidInput(f"name the address of the Kubeflow Pipelines API, or set {HOST}", field="host")
        return host
