"""Calls of other services by HTTP, with a bearer token from a file and a certificate authority of one's own."""

import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from shadowprice.errors import InvalidInput, Unavailable


@dataclass(frozen=True)
class Answer:
    """Answer of a server.

    status   of HTTP
    reason   words of the status
    body     content, as it came
    headers  by name in lower case
    """

    status: int
    reason: str
    body: bytes
    headers: Mapping[str, str]


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Follow no redirect of a call with a body, which would be repeated without it and seem to succeed."""
        if req.data is not None:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def call(
    url: str,
    timeout: float,
    *,
    method: str = "GET",
    body: bytes | None = None,
    content_type: str = "application/json",
    token: str = "",
    ca_file: str = "",
) -> Answer:
    """Call a server once and return its answer, whatever the status.

    Args:
        url: http or https address.
        timeout: seconds without a byte.
        method: of HTTP.
        body: content to send; None for none.
        content_type: of the body.
        token: bearer token to show; empty: none.
        ca_file: certificates of the trusted authorities, in place of the system's.

    Raises:
        Unavailable: there is no answer.
    """
    if not url.startswith(("http://", "https://")):
        raise Unavailable(f"{url}: must be an http or https address")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers["content-type"] = content_type
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        handlers: list[urllib.request.BaseHandler] = [_Redirects()]
        if ca_file:
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
        try:
            response = urllib.request.build_opener(*handlers).open(request, timeout=timeout)
        except HTTPError as refused:
            response = refused
        with response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, response.reason, bytes(response.read()), found)
    except (OSError, HTTPException) as error:
        raise Unavailable(f"{url}: does not answer: {error}") from error


def fetch(url: str, timeout: float, *, token: str = "", ca_file: str = "") -> bytes:
    """Body of a page, read as :func:`call` does, or :class:`Unavailable` naming the page."""
    answer = call(url, timeout, token=token, ca_file=ca_file)
    if answer.status >= 300:
        raise Unavailable(f"{url}: does not answer: HTTP {answer.status} {answer.reason}")
    return answer.body


def read_line(path: str, field: str) -> str:
    """Return the only line of a file, such as a token; empty without a path.

    Raises:
        InvalidInput: it cannot be read, or has no line or several; the message holds nothing of the content.
    """
    if not path:
        return ""
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {type(error).__name__}", field=field) from None
    if not text or not (text.isascii() and text.isprintable()):
        raise InvalidInput(f"{path} must hold one line of ASCII", field=field)
    return text
