"""What stands before the web framework: token, limits of time and size, and nothing but 4xx for callers."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from serving.front import Front
from serving.limits import MAX_BODY_BYTES
from shadowprice.errors import InvalidRequest

TOKEN = "a-token-of-the-test"


async def echo(body):
    if body == b"wrong":
        raise InvalidRequest("is wrong", field="side", rows=[3])
    if body == b"slow":
        await asyncio.sleep(10)
    if body == b"crash":
        raise ZeroDivisionError
    return body


def ask(front, *chunks, path="/predict", method="POST", headers=(), hang=False):
    """Status, headers and body that an ASGI call gives; None for nothing."""
    sent = []
    incoming = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks[:-1]]
    incoming += [{"type": "http.request", "body": chunks[-1], "more_body": hang}] if chunks else []

    async def receive():
        if incoming:
            return incoming.pop(0)
        if hang:
            await asyncio.sleep(10)
        return {"type": "http.disconnect"}

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    asyncio.run(front(scope, receive, send))
    if not sent:
        return None
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"application"})


@pytest.fixture
def front():
    return Front(application, {"/predict": echo}, TOKEN, 0.1)


def bearer(value):
    return [(b"authorization", value)]


def test_a_body_in_parts_reaches_its_handler_and_other_paths_the_application(front):
    good = bearer(f"Bearer {TOKEN}".encode())
    status, headers, body = ask(front, b"he", b"l", b"lo", headers=good)
    assert (status, body) == (200, b"hello")
    assert headers == {b"content-type": b"application/json", b"content-length": b"5"}
    assert ask(front, b"", path="/metrics", method="GET")[0] == 299
    assert ask(front, b"", method="GET")[0] == 299


@pytest.mark.parametrize(
    "headers",
    [
        [],
        bearer(b""),
        bearer(b"Bearer"),
        bearer(b"Bearer "),
        bearer(TOKEN.encode()),
        bearer(f"Bearer {TOKEN}x".encode()),
        bearer(f"Bearer {TOKEN[:-1]}".encode()),
        bearer("Bearer ü".encode()),
        bearer(b"Basic " + TOKEN.encode()),
    ],
)
def test_without_the_token_nothing_is_read_or_answered(front, headers):
    status, answered, body = ask(front, b"hello", headers=headers)
    assert status == 401
    assert answered[b"www-authenticate"] == b"Bearer"
    assert TOKEN not in body.decode()
    assert ask(Front(application, {"/predict": echo}), b"hello", headers=headers)[0] == 200


def test_errors_are_told_by_their_class_and_faults_are_not_told(caplog):
    front = Front(application, {"/predict": echo}, seconds=0.1)
    status, _, body = ask(front, b"wrong")
    assert (status, orjson.loads(body)) == (
        400,
        {"error": "side: is wrong (first rows: 3)", "field": "side", "rows": [3]},
    )
    status, _, body = ask(front, b"crash")
    assert (status, b"Zero" in body) == (500, False)
    assert "ZeroDivisionError" in caplog.text
    assert ask(front, b"slow")[0] == 503


def test_a_body_that_does_not_come_or_does_not_end_is_given_up():
    front = Front(application, {"/predict": echo}, seconds=0.05)
    status, headers, body = ask(front, b"hel", hang=True)
    assert (status, headers[b"connection"]) == (408, b"close")
    assert b"body" in body
    assert ask(front, b"hel", b"lo") is not None
    assert ask(front) is None  # hung up
    status, headers, _ = ask(front, *([b"x" * 65_536] * (MAX_BODY_BYTES // 65_536 + 1)))
    assert (status, headers[b"connection"]) == (413, b"close")
