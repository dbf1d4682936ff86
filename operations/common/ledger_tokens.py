"""Tokens that callers of the ledger show, from the file that an environment variable names, or from a variable."""

import os
from typing import Literal

from shadowprice.documents import parse_json, read_document
from shadowprice.errors import InvalidInput, Unavailable

TOKEN_VARIABLE = "SHADOWPRICE_LEDGER_TOKEN_FILE"
"""Environment variable of the ledger and of all its callers: the file with the tokens."""
TOKEN_TEXT = "SHADOWPRICE_LEDGER_TOKEN"
"""Environment variable of a pipeline's step, which takes the place of the file: Kubeflow mounts a secret only whole."""


def reading_token() -> str:
    """Return the token of the role ``read``; errors of :func:`token_of`."""
    return token_of("read")


def token_of(role: Literal["read", "authorize"]) -> str:
    """Return the first secret of a role, or the only secret; empty where neither file nor text is given.

    Raises:
        InvalidInput: the file or the text cannot be read.
        Unavailable: it has no token of the role.
    """
    token, file = os.environ.get(TOKEN_TEXT, ""), os.environ.get(TOKEN_VARIABLE, "")
    if not (token or file):
        return ""
    file = TOKEN_TEXT if token else file
    try:
        text = (token or read_document(file, 1 << 20).decode()).strip()
        held = parse_json(text).get(role) if text.startswith("{") else text
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {type(error).__name__}", field=file) from None
    secrets = held if isinstance(held, list) else [held]
    if not secrets or not secrets[0]:
        raise Unavailable(f"{file} has no token of the role {role!r}; add one")
    return str(secrets[0])
