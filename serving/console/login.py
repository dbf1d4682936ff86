"""Single sign-on of the console: OpenID Connect, the authorization code flow with PKCE."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from serving.console.access import CHALLENGE, OPEN
from serving.http.handler import Application, Receive, Scope, Send
from serving.http.tokens import Caller, Role
from shadowprice.errors import InvalidInput

SESSION_SECONDS = 3600
"""Time until a person is sent to the provider again, which usually answers without a login form."""
PROVIDER_SECONDS = 10.0
COOKIE = "shadowprice_console"
BY_TOKEN = "/token"
"""Page that asks a browser for a token, for those without the provider."""
ROLES: frozenset[Role] = frozenset({"view"})


@dataclass(frozen=True, kw_only=True)
class Provider:
    """OpenID provider of the console, and the people who may view it.

    issuer         address of the provider; its ``/.well-known/openid-configuration`` is read at the first login
    client_id, client_secret   of the console at the provider
    public_url     address of the console in a browser; the provider must know its ``/callback``
    allow          ``claim=value``: the ID token of a person who may view has this value in this claim, or in its list
    scope          scopes to ask for

    Raises:
        InvalidInput: an address is invalid, or ``allow`` has another form.
    """

    issuer: str
    client_id: str
    client_secret: str
    public_url: str
    allow: str
    scope: str = "openid email profile"

    def __post_init__(self) -> None:
        for name in ("issuer", "public_url"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.query:
                raise InvalidInput("must be an address such as https://login.example.com", field=_flag(name))
        if urlsplit(self.public_url).path.strip("/"):
            raise InvalidInput("must have no path; the console's pages begin at /", field=_flag("public_url"))
        claim, _, value = self.allow.partition("=")
        if not claim or not value:
            raise InvalidInput("must be claim=value, such as groups=budget-owners", field=_flag("allow"))
        if not self.client_id:
            raise InvalidInput("must be the id that the provider gave the console", field=_flag("client_id"))

    def admits(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the claims of an ID token allow their person to view the console."""
        claim, _, value = self.allow.partition("=")
        held = claims.get(claim)
        return value in map(str, held) if isinstance(held, list) else value == str(held)


def _flag(name: str) -> str:
    return "--public-url" if name == "public_url" else "--oidc-" + name.replace("_", "-")


class SingleSignOn:
    """Sends a browser without a session to the provider, and names the person of a session as the caller.

    A request with an ``Authorization`` header passes: tokens stay the other way in. The session is a signed cookie
    whose key ends with this process.
    """

    def __init__(self, application: Application, provider: Provider) -> None:
        self._application = application
        self._provider = provider
        self._address = provider.public_url.rstrip("/")
        self._client: Any = OAuth().register(
            "provider",
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            server_metadata_url=provider.issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={
                "scope": provider.scope,
                "code_challenge_method": "S256",
                "timeout": PROVIDER_SECONDS,
            },
        )
        self._with_session = SessionMiddleware(
            self._answer,
            secret_key=secrets.token_urlsafe(32),
            session_cookie=COOKIE,
            max_age=SESSION_SECONDS,
            same_site="lax",
            https_only=provider.public_url.startswith("https:"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI asks for it."""
        if scope["type"] != "http" or scope["path"] in OPEN or _has_token(scope):
            await self._application(scope, receive, send)
        else:
            await self._with_session(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if scope["path"] in ("/login", "/callback"):
            await (await self._login(request))(scope, receive, send)
        elif scope["path"] == "/logout":
            request.session.clear()
            await _text("You are signed out of the console.", 200)(scope, receive, send)
        elif scope["path"] == BY_TOKEN:
            asked = _text("Show a token of the role view as the password.", 401)
            asked.headers["www-authenticate"] = CHALLENGE.decode()
            await asked(scope, receive, send)
        elif (person := _person(request.session)) is not None:
            await self._application({**scope, "caller": Caller(person, ROLES)}, receive, send)
        elif scope["method"] == "GET" and "text/html" in request.headers.get("accept", ""):
            request.session["next"] = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            await RedirectResponse(f"{self._address}/login", 303)(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    async def _login(self, request: Request) -> Response:
        """Send a browser to the provider, or take it back from there."""
        try:
            if request.url.path == "/login":
                sent: Response = await self._client.authorize_redirect(request, f"{self._address}/callback")
                return sent
            token = await self._client.authorize_access_token(request)
        except (AuthlibBaseError, JoseError) as error:
            reason = getattr(error, "description", "") or getattr(error, "error", "") or type(error).__name__
            return _text(f"The login failed: {reason}. Try again at {self._address}/login.", 401)
        except httpx2.HTTPError as error:
            return _text(
                f"The OpenID provider {self._provider.issuer} does not answer ({type(error).__name__}). "
                f"Sign in with a token at {self._address}{BY_TOKEN}.",
                503,
            )
        claims = token.get("userinfo") or {}
        if not self._provider.admits(claims):
            return _text(f"Your account may not view this console; it needs {self._provider.allow}.", 403)
        after = request.session.get("next", "/")
        request.session.clear()
        request.session["person"] = str(claims.get("email") or claims["sub"])
        request.session["until"] = time.time() + SESSION_SECONDS
        return RedirectResponse(self._address + after, 303)


def _person(session: Mapping[str, Any]) -> str | None:
    return session.get("person") if session.get("until", 0.0) > time.time() else None


def _has_token(scope: Scope) -> bool:
    return any(name == b"authorization" for name, _ in scope["headers"])


def _text(text: str, status: int) -> Response:
    return Response(text, status, {"cache-control": "no-store"}, "text/plain")
