"""Admission of a request by its headers: token, role, rate, origin and content type."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, MutableMapping
from typing import Any

from serving.http.rates import Amounts, Rates
from serving.http.refused import Forbidden, NotJson, Unauthorised
from serving.http.tokens import ANYONE, VISITOR, Caller, Role, Tokens
from shadowprice.errors import InvalidInput

RoleOf = Callable[[str, str], Role | None]
"""From method and path of a request to the role that it needs; None: no token is asked for."""
JSON = ("application/json", "application/cloudevents+json", "application/cloudevents-batch+json")


def nobody_asks(method: str, path: str) -> Role | None:  # noqa: ARG001 - a RoleOf
    """Ask for no token on any route."""
    return None


class Access:
    """Check of every request before its body is read.

    role_of           role that a route needs
    tokens            None: callers need none
    calls_per_second  most calls of each caller; 0: no limit
    amount_per_hour   minor units that each caller is authorized at most; 0: no limit
    """

    def __init__(
        self,
        role_of: RoleOf = nobody_asks,
        tokens: Tokens | None = None,
        calls_per_second: float = 0.0,
        amount_per_hour: float = 0.0,
    ) -> None:
        self._role_of = role_of
        self._tokens = tokens
        self._rates = Rates(calls_per_second)
        self._amounts = Amounts(amount_per_hour)

    def admit(self, scope: MutableMapping[str, Any]) -> Caller:
        """Return the caller of an HTTP request; a login before this handler may have named it in the scope.

        Raises:
            Unauthorised, Forbidden: the token is missing or wrong, or has another role.
            TooManyCalls: the caller has used up its calls or its money.
            Forbidden: a browser's page sent the request. NotJson: its content type is not JSON.
        """
        headers = dict(scope["headers"])
        role = self._role_of(scope["method"], scope["path"])
        if role is None:
            caller = VISITOR
        elif (signed_in := scope.get("caller")) is not None:
            caller = self._counted(signed_in, role)
        else:
            caller = self.caller(headers.get(b"authorization", b"").decode("latin-1"), role)
        if scope["method"] == "POST":
            # No page is served from here, so a page that sends a request comes from elsewhere.
            if b"origin" in headers:
                raise Forbidden("origin: requests of a browser's page are refused; call from a server")
            if headers.get(b"content-type", b"").split(b";")[0].strip().lower().decode("latin-1") not in JSON:
                raise NotJson(f"must be one of {list(JSON)}", field="content-type")
        return caller

    def caller(self, authorization: str, role: Role) -> Caller:
        """Return the caller that an ``Authorization`` header names, and count the call.

        Raises:
            Unauthorised, Forbidden, TooManyCalls: see :meth:`admit`.
        """
        caller = ANYONE if self._tokens is None else self._tokens.caller(authorization)
        if caller is None:
            raise Unauthorised("authorization: this service needs its bearer token")
        return self._counted(caller, role)

    def _counted(self, caller: Caller, role: Role) -> Caller:
        check_role(caller, role)
        self._amounts.check(caller.name)
        self._rates.take(caller.name)
        return caller

    def charge(self, caller: Caller, amount: int) -> None:
        """Count minor units that were authorized for a caller."""
        self._amounts.add(caller.name, amount)


def check_role(caller: Caller, role: Role) -> None:
    """Make sure that a caller has a role, or :class:`Forbidden`."""
    if role not in caller.roles:
        raise Forbidden(f"authorization: needs a token of the role {role!r}")


def check_exposed(host: str, tokens: Tokens | None) -> None:
    """Make sure that a service without tokens listens on this machine alone.

    Raises:
        InvalidInput: other machines reach ``host``, and there are no tokens.
    """
    if tokens is None and not _is_loopback(host):
        raise InvalidInput(
            f"must name a file with tokens where the service listens on {host}; "
            "without tokens it listens on 127.0.0.1 only",
            field="--token-file",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
