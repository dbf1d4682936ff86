"""Admission of a request by its headers: token, role, rate, origin and content type."""

import ipaddress
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from serving.http.rates import Amounts, Rates
from serving.http.refused import Forbidden, NotJson, Unauthorized
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

    @property
    def has_tokens(self) -> bool:
        """Return whether callers must show a token."""
        return self._tokens is not None

    def admit(self, scope: MutableMapping[str, Any]) -> Caller:
        """Return the caller of an HTTP request; a login before this handler may have named it in the scope.

        Raises:
            Unauthorized, Forbidden: the token is missing or wrong, or has another role.
            TooManyCalls: the caller has used up its calls or its money.
            Forbidden: a page of another site sent the request, or any page a POST. NotJson: its content type is not
                JSON.
        """
        headers = dict(scope["headers"])
        self._check_site(headers)
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

    def _check_site(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse what a browser sends for a page of another site.

        A person may follow a link to a service with tokens, which asks for one. A service without tokens answers under
        a name of this machine alone, because any other name may be of a page that had it point here.
        """
        host = headers.get(b"host", b"localhost").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        foreign = headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin")
        follows = self._tokens is not None and headers.get(b"sec-fetch-mode") == b"navigate"
        if (foreign and not follows) or (origin and origin.partition("://")[2] != host):
            raise Forbidden("origin: requests of a page of another site are refused")
        if self._tokens is None and not is_loopback(_name(host)):
            raise Forbidden(f"host: without tokens this service answers as localhost or 127.0.0.1, not as {host!r}")

    def caller(self, authorization: str, role: Role) -> Caller:
        """Return the caller that an ``Authorization`` header names, and count the call.

        Raises:
            Unauthorized, Forbidden, TooManyCalls: see :meth:`admit`.
        """
        caller = ANYONE if self._tokens is None else self._tokens.caller(authorization)
        if caller is None:
            raise Unauthorized("authorization: this service needs its bearer token")
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
    if tokens is None and not is_loopback(host):
        raise InvalidInput(
            f"must name a file with tokens where the service listens on {host}; "
            "without tokens it listens on 127.0.0.1 only",
            field="--token-file",
        )


def _name(host: str) -> str:
    """Return the name or address in a ``Host`` header."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Return whether a name or address is one of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
