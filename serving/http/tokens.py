"""Bearer tokens: the roles that a caller's token carries, and the token that a caller shows."""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import orjson

from operations.common.ledger_tokens import TOKEN_VARIABLE
from shadowprice.documents import read_document
from shadowprice.errors import InvalidInput, Unavailable

logger = logging.getLogger("serving")

Role = Literal["decide", "authorize", "report", "release", "read", "view", "move", "administer"]
ROLES: tuple[Role, ...] = get_args(Role)
SHORTEST = 16
SECRETS_BYTES = 1 << 20
CHECK_SECONDS = 1.0
"""Time after which a file of tokens is read again."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
"""Name of the holder of a token."""
Secrets = Mapping[Role, Mapping[str, str]]
"""Role → secret → name of its holder; empty where the file has no name."""


@dataclass(frozen=True)
class Caller:
    """Holder of one token.

    name   of the holder in the file, else roles and place of the token; a rate limit counts by it
    roles  what the caller may do
    """

    name: str
    roles: frozenset[Role]


ANYONE = Caller("anyone", frozenset(ROLES))
"""Every caller of a service without tokens."""
VISITOR = Caller("visitor", frozenset())
"""Caller of a route that needs no role."""


class Tokens:
    """Tokens of a file, which is read again when it changes.

    The file holds a JSON object from roles to a secret, a list of secrets, or an object from names of holders to
    either, such as ``{"decide": "…", "report": {"refunds-desk": "…", "shop-a": ["…", "…"]}}``. A file with one plain
    secret gives that secret all roles.
    A file that becomes invalid is logged once; the last valid tokens stay.

    Raises:
        InvalidInput: the file cannot be read, or what it holds is not as above. No secret is repeated.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._take(_parse(_read(path), path))
        self._checked = clock()

    @classmethod
    def of(cls, path: Path | None) -> Tokens | None:
        """Tokens of a file; None where no file is named."""
        return None if path is None else cls(path)

    def caller(self, authorization: str) -> Caller | None:
        """Return the caller that an ``Authorization`` header names; None where its token is none of these.

        The header is compared with every secret, each in constant time.
        """
        self._refresh()
        scheme, _, shown = authorization.partition(" ")
        holder: Caller | None = None
        presented = shown.strip().encode()
        for secret, caller in self._callers:
            if hmac.compare_digest(presented, secret):
                holder = caller
        return holder if scheme.lower() == "bearer" else None

    def secret(self, role: Role) -> str:
        """Return the secret to show for a role.

        Raises:
            Unavailable: the file has none for it.
        """
        self._refresh()
        if not self._secrets.get(role):
            raise Unavailable(f"{self._path} has no token of the role {role!r}; add one")
        return next(iter(self._secrets[role]))

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take(_parse(_read(self._path), self._path))
        except InvalidInput as error:
            logger.error("the tokens did not change: %s", error)
        else:
            logger.info("the tokens were read again from %s", self._path)

    def _take(self, secrets: Secrets) -> None:
        roles: dict[str, list[Role]] = {}
        names: dict[str, str] = {}
        for role, values in secrets.items():
            for value, name in values.items():
                roles.setdefault(value, []).append(role)
                names[value] = name
        self._secrets = secrets
        self._callers = [
            (value.encode(), Caller(names[value] or f"{'+'.join(own)}[{place}]", frozenset(own)))
            for place, (value, own) in enumerate(roles.items())
        ]


def read_secret(path: Path | None) -> str | None:
    """Return the secret that a file holds, without the end of the line; None where no file is named.

    Raises:
        InvalidInput: the file cannot be read, is empty or too short to be a secret. The secret is not repeated.
    """
    return None if path is None else _checked(_read(path), str(path))


def _read(path: Path) -> str:
    try:
        return read_document(path, SECRETS_BYTES).decode().strip()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {type(error).__name__}", field=str(path)) from None


def _parse(text: str, path: Path) -> Secrets:
    if not text.startswith("{"):
        secret = _checked(text, str(path))
        return {role: {secret: ""} for role in ROLES}
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidInput("is not JSON", field=str(path)) from None
    unknown = sorted(content.keys() - set(ROLES))
    if unknown or not content:
        raise InvalidInput(f"must give tokens to some of the roles {list(ROLES)}", field=str(path))
    secrets: dict[Role, dict[str, str]] = {}
    for role in ROLES:
        listed, field = content.get(role, []), f"{path}: {role}"
        secrets[role] = {}
        for name, held in (listed if isinstance(listed, dict) else {"": listed}).items():
            if name and not NAME.fullmatch(name):
                raise InvalidInput(f"{name!r} is no name; use letters, digits and . _ @ -", field=field)
            for value in held if isinstance(held, list) else [held]:
                secrets[role][_checked(value, field)] = name
    held_by: dict[str, set[str]] = {}
    for holders in secrets.values():
        for secret, name in holders.items():
            held_by.setdefault(secret, set()).add(name)
    if shared := [sorted(names) for names in held_by.values() if len(names) > 1]:
        raise InvalidInput(f"gives one token to {' and '.join(map(repr, shared[0]))}", field=str(path))
    return secrets


def _checked(secret: object, field: str) -> str:
    if not isinstance(secret, str) or len(secret) < SHORTEST or not secret.isascii() or not secret.isprintable():
        raise InvalidInput(f"must hold at least {SHORTEST} printable ASCII characters", field=field)
    return secret


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def ledger_tokens(environment: Mapping[str, str]) -> Tokens | None:
    """Return the tokens of the file that ``SHADOWPRICE_LEDGER_TOKEN_FILE`` names; None where it is not set."""
    name = environment.get(TOKEN_VARIABLE)
    return Tokens.of(Path(name) if name else None)
