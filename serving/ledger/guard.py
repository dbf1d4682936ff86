"""Who may speak to the ledger: whoever shows the bearer token, where one is set."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from serving.web import Handler, json_response
from shadowprice.errors import InvalidInput

SHORTEST = 16
TOKEN_VARIABLE = "SHADOWPRICE_LEDGER_TOKEN_FILE"
"""Environment variable of the ledger and of all who call it: the file with the token."""


def read_secret(path: Path | None) -> str | None:
    """The secret that a file holds, without the line's end; None where no file is named.

    Raises:
        InvalidInput: it cannot be read, is empty or too short to be a secret. What it holds is not said.
    """
    if path is None:
        return None
    try:
        secret = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be read: {type(error).__name__}", field=str(path)) from None
    if len(secret) < SHORTEST or not secret.isascii() or not secret.isprintable():
        raise InvalidInput(f"must hold at least {SHORTEST} printable ASCII characters", field=str(path))
    return secret


def ledger_token(environment: Mapping[str, str]) -> str | None:
    """The token that the file of ``SHADOWPRICE_LEDGER_TOKEN_FILE`` holds; None where the variable is not set."""
    name = environment.get(TOKEN_VARIABLE)
    return read_secret(Path(name) if name else None)


def permits(headers: Mapping[str, str], token: str | None) -> bool:
    """Whether a call may proceed. The comparison takes the same time wherever the token differs."""
    if token is None:
        return True
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())


def guarded(handler: Handler, token: str | None) -> Handler:
    """A handler that asks for the token first."""
    if token is None:
        return handler

    async def answer(request: Request) -> Response:
        if permits(request.headers, token):
            return await handler(request)
        refused = json_response({"error": "needs the bearer token of this ledger"}, 401)
        refused.headers["www-authenticate"] = "Bearer"
        return refused

    return answer
