"""Roles that the ledger's routes need."""

from starlette.requests import Request

from serving.http.access import check_role
from serving.http.tokens import Role

ROUTES: dict[str, Role] = {
    "/v1/authorizations": "authorize",
    "/v1/outcomes": "report",
    "/v1/corrections": "report",
    "/v1/releases": "release",
    "/v1/move": "move",
    "/v1/moves": "read",
    "/v1/totals": "read",
    "/v1/traffic": "read",
    "/v1/usage": "read",
}


def role_of(method: str, path: str) -> Role | None:  # noqa: ARG001 - a RoleOf
    """Return the role that a route needs; None for probes, metrics and the description.

    They expose no names of accounts, and neither the kubelet nor Prometheus has a token. A route of the
    API that is not in :data:`ROUTES` needs ``administer``.
    """
    return ROUTES.get(path, "administer") if path.startswith("/v1/") else None


def require(request: Request, role: Role) -> None:
    """Make sure that the caller of a request has one more role than its route needs, or ``Forbidden``."""
    check_role(request.scope["caller"], role)
