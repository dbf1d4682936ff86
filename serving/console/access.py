"""Login of a browser: HTTP Basic, whose password is a bearer token."""

import base64
import binascii
from collections.abc import MutableMapping
from typing import Any

from serving.http.handler import Application, Receive, Scope, Send
from serving.http.tokens import Role

OPEN = ("/healthz", "/readyz")
CHALLENGE = b'Basic realm="shadowprice console", charset="UTF-8"'


def role_of(method: str, path: str) -> Role | None:  # noqa: ARG001 - a RoleOf
    """Return the role that a page needs; None for the probes."""
    return None if path in OPEN else "view"


class BasicLogin:
    """Turns the password of HTTP Basic into a bearer token, and asks a browser for it where it is missing.

    A browser cannot send a bearer token by itself. The name that a person types has no meaning.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI asks for it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def ask(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start" and event["status"] == 401:
                headers = [(name, value) for name, value in event["headers"] if name != b"www-authenticate"]
                event = {**event, "headers": [*headers, (b"www-authenticate", CHALLENGE)]}
            await send(event)

        headers = [(name, bearer(value) if name == b"authorization" else value) for name, value in scope["headers"]]
        await self._application({**scope, "headers": headers}, receive, ask)


def bearer(authorization: bytes) -> bytes:
    """Return a ``Basic`` header as ``Bearer`` with its password; any other header stays as it is.

    >>> bearer(b"Basic " + base64.b64encode(b"ann:a-long-secret"))
    b'Bearer a-long-secret'
    """
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return authorization
    try:
        _, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return b""
    return b"Bearer " + password
