"""Client of a Kubeflow Pipelines backend, whose namespace and credentials are checked before anything is sent.

A backend has many users (each with a namespace, called a profile) or one. That of one user runs everything in the
namespace that it is installed in, and ignores any other.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from kfp.client import (
    KF_PIPELINES_SA_TOKEN_ENV,
    KF_PIPELINES_SA_TOKEN_PATH,
    Client,
    ServiceAccountTokenVolumeCredentials,
)
from kfp_server_api import ApiException
from urllib3.exceptions import HTTPError

from pipelines.connection import Connection
from shadowprice.calls import read_line
from shadowprice.errors import InvalidInput, Unavailable

ROLE = "kubeflow-pipelines-edit"
SERVICE = re.compile(r"https?://ml-pipeline(?:-ui)?\.([a-z0-9-]+)(?:[.:/]|$)")
"""Address of a backend's Service, with its namespace."""
USUAL = "kubeflow"
MENDS = {
    401: "show who calls by --token-file (audience pipelines.kubeflow.org) or --cookie-file",
    403: f"let an owner of the namespace give the caller the role {ROLE} in it",
}


class _Client(Client):  # type: ignore[misc]
    def get_kfp_healthz(self, sleep_duration: int = 0) -> Any:  # noqa: ARG002 - of the SDK
        """Ask once. The SDK treats a sign-in page as an answer without fields."""
        health, _, headers = self._healthz_api.healthz_service_get_healthz_with_http_info()
        if "json" not in headers.get("Content-Type", ""):
            raise ApiException(status=401, reason="a page to sign in answers")
        return health


@contextmanager
def connected(connection: Connection) -> Iterator[tuple[Client, str | None]]:
    """Open a client, and return it with the namespace of its calls: None where the backend has one user.

    Raises:
        InvalidInput: no address is named; or a file of credentials cannot be read; or no namespace is named where there
            are many users, or another than the backend's own where there is one.
        Unavailable: the backend does not answer, or refuses.
    """
    host = connection.address
    credentials = _credentials(connection)
    # The SDK prints links, and warns of versions that are long gone.
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="kfp")
        try:
            # The SDK trusts public authorities alone, whatever the machine does.
            trusted = os.environ.get("SSL_CERT_FILE")
            client = _Client(host=host, namespace=connection.namespace or USUAL, ssl_ca_cert=trusted, **credentials)
            many = bool(client.get_kfp_healthz().multi_user)
            namespace = (connection.namespace or client.get_user_namespace()) if many else None
            if many and not namespace:
                raise InvalidInput(f"{host} has many users; name the profile that owns the runs", field="namespace")
            _check_own(host, "" if many else connection.namespace)
            yield client, namespace
        except (ApiException, HTTPError, OSError) as error:
            status, reason = getattr(error, "status", 0), _reason(error)
            # The upload server answers so whom it refuses.
            if status == 400 and reason.startswith("Failed to create a pipeline"):
                status = 403
            mend = MENDS.get(status, "")
            raise Unavailable(f"Kubeflow Pipelines at {host}: {reason}{mend and '; '}{mend}") from error


def _check_own(host: str, namespace: str) -> None:
    """Refuse a namespace that a backend of one user does not run in."""
    service = SERVICE.match(host)
    own = service[1] if service else USUAL
    if namespace and namespace != own:
        raise InvalidInput(
            f"{host} has one user and runs everything in {own}, where steps do not find the claims and secrets of "
            f"{namespace}; install the release in {own} and name that, or use a Kubeflow with profiles",
            field="namespace",
        )


def _credentials(connection: Connection) -> dict[str, Any]:
    """Return the caller's credentials as arguments; empty where none are named, and the SDK uses its saved ones."""
    pods = os.environ.get(KF_PIPELINES_SA_TOKEN_ENV) or KF_PIPELINES_SA_TOKEN_PATH
    if connection.token_file or (not connection.cookie_file and Path(pods).exists()):
        path = connection.token_file or pods
        read_line(path, "token_file")
        return {"credentials": ServiceAccountTokenVolumeCredentials(path)}
    return {"cookies": read_line(connection.cookie_file, "cookie_file")} if connection.cookie_file else {}


def _reason(error: Exception) -> str:
    """Return the text of the backend's answer, or without an answer the first line of the error."""
    try:
        answer = json.loads(getattr(error, "body", ""))
        return str(answer.get("message") or answer.get("error_message") or answer["error"])
    except (TypeError, ValueError, KeyError, AttributeError):
        status = getattr(error, "status", None)
        return f"{status} {getattr(error, 'reason', '')}" if status else str(error).strip().splitlines()[0]
