"""The front of a service: tokens, limits of time and size, and nothing but 4xx for callers."""

import asyncio

import orjson
import pytest

from serving.http.access import Access
from serving.http.admission import Admission
from serving.http.handler import RequestHandler, pause
from serving.http.limits import MAX_BODY_BYTES, SMALL_BODY
from serving.http.tokens import Tokens
from shadowprice.errors import InvalidRequest

TOKEN = "a-token-of-the-test"
JSON = [(b"content-type", b"application/json")]


async def echo(body, caller):
    if body == b"wrong":
        raise InvalidRequest("is wrong", field="side", rows=[3])
    if body == b"slow":
        await asyncio.sleep(10)
    if body == b"crash":
        raise ZeroDivisionError
    return body


def ask(front, *chunks, path="/predict", method="POST", headers=(), hang=False, of=JSON):
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

    scope = {"type": "http", "method": method, "path": path, "headers": [*of, *headers]}
    asyncio.run(front(scope, receive, send))
    if not sent:
        return None
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"application"})


@pytest.fixture
def front(tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    access = Access(lambda _, path: "decide" if path == "/predict" else None, Tokens(file))
    return RequestHandler(application, {"/predict": echo}, access, 0.1)


def bearer(value):
    return [(b"authorization", value)]


def test_a_body_in_parts_reaches_its_handler_and_other_paths_the_application(front):
    good = bearer(f"Bearer {TOKEN}".encode())
    status, headers, body = ask(front, b"he", b"l", b"lo", headers=good)
    assert (status, body) == (200, b"hello")
    assert headers == {b"content-type": b"application/json", b"content-length": b"5"}
    assert ask(front, b"", path="/metrics", method="GET")[0] == 299
    assert ask(front, b"", method="GET", headers=good)[0] == 299


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
    assert ask(RequestHandler(application, {"/predict": echo}), b"hello", headers=headers)[0] == 200


def test_errors_are_told_by_their_class_and_faults_are_not_told(caplog):
    front = RequestHandler(application, {"/predict": echo}, seconds=0.1)
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
    front = RequestHandler(application, {"/predict": echo}, seconds=0.05)
    status, headers, body = ask(front, b"hel", hang=True)
    assert (status, headers[b"connection"]) == (408, b"close")
    assert b"body" in body
    assert ask(front, b"hel", b"lo") is not None
    assert ask(front) is None  # hung up
    status, headers, _ = ask(front, *([b"x" * 65_536] * (MAX_BODY_BYTES // 65_536 + 1)))
    assert (status, headers[b"connection"]) == (413, b"close")


async def application_that_reads(scope, receive, send):
    message = await receive()
    body = message["body"] + str(message["more_body"]).encode() + (await receive())["type"].encode()
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_a_body_of_any_route_is_read_within_the_same_time_and_size():
    front = RequestHandler(application_that_reads, {}, seconds=0.05)
    assert ask(front, b"hel", b"lo", path="/other")[2] == b"helloFalsehttp.disconnect"
    assert ask(front, b"hel", path="/other", hang=True)[0] == 408
    assert ask(front, *([b"x" * 65_536] * (MAX_BODY_BYTES // 65_536 + 1)), path="/other")[0] == 413
    assert ask(front, path="/other") is None


def test_large_bodies_beyond_the_limit_are_refused_while_small_ones_are_answered():
    admission = Admission(3 * SMALL_BODY)
    large = b"x" * (3 * SMALL_BODY)

    async def call(body, started, finish):
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event):
            sent.append(event)

        async def handler(body, caller):
            started.set()
            await finish.wait()
            return b"%d" % len(body)

        front = RequestHandler(application, {"/predict": handler}, seconds=5.0, admission=admission)
        await front({"type": "http", "method": "POST", "path": "/predict", "headers": JSON}, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"])

    async def scenario():
        started, finish, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        ended.set()
        held = asyncio.create_task(call(large, started, finish))
        await started.wait()
        status, headers = await call(large, asyncio.Event(), ended)
        small, _ = await call(b"x" * SMALL_BODY, asyncio.Event(), ended)
        finish.set()
        return (await held)[0], status, headers, small

    first, second, headers, small = asyncio.run(scenario())
    assert (first, second, small) == (200, 503, 200)
    assert (headers[b"retry-after"], headers[b"connection"]) == (b"1", b"close")
    assert admission.held == 0


@pytest.mark.parametrize("origin", [b"https://shop.example", b"null", b"http://127.0.0.1:8080"])
def test_a_page_in_a_browser_cannot_send_anything(front, origin):
    good = [*bearer(f"Bearer {TOKEN}".encode()), (b"origin", origin)]
    status, headers, body = ask(front, b"hello", headers=good)
    assert (status, headers[b"connection"]) == (403, b"close")
    assert b"origin" in body


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        (b"application/json", 200),
        (b"Application/JSON; charset=utf-8", 200),
        (b"application/cloudevents+json", 200),
        (b"application/cloudevents-batch+json", 200),
        (b"", 415),
        (b"text/plain", 415),
        (b"text/plain;application/json", 415),
        (b"application/x-www-form-urlencoded", 415),
        (b"multipart/form-data", 415),
    ],
)
def test_only_json_is_read(front, content_type, status):
    good = bearer(f"Bearer {TOKEN}".encode())
    answer = ask(front, b"hello", headers=good, of=[(b"content-type", content_type)])
    assert answer[0] == status
    if status == 415:
        assert orjson.loads(answer[2])["field"] == "content-type"
        assert ask(front, b"hello", headers=good, of=[])[0] == 415


def test_a_caller_beyond_its_rate_is_told_when_to_call_again():
    front = RequestHandler(application, {"/predict": echo}, Access(lambda *_: "decide", None, 2.0))
    assert [ask(front, b"hello")[0] for _ in range(3)] == [200, 200, 429]
    _, headers, _ = ask(front, b"hello")
    assert headers[b"retry-after"] == b"1"


def test_a_caller_that_was_authorized_its_money_of_the_hour_is_refused_before_it_is_answered():
    access = Access(lambda *_: "decide", amount_per_hour=100.0)
    answered = []

    async def decide(body, caller):
        answered.append(body)
        access.charge(caller, int(body))
        return b"{}"

    front = RequestHandler(application, {"/predict": decide}, access)
    assert [ask(front, body)[0] for body in (b"60", b"60", b"1")] == [200, 200, 429]
    assert answered == [b"60", b"60"]
    _, headers, content = ask(front, b"1")
    assert 600 < int(headers[b"retry-after"]) < 800
    assert "100 minor units an hour" in orjson.loads(content)["error"]


@pytest.mark.parametrize(
    ("status", "size", "seconds"),
    [(200, 4 * 2**20, 0), (422, 2**16, 0), (422, 2**16 + 2**20, 1), (409, 0, 0.2), (503, 4 * 2**20, 0)],
)
def test_a_refusal_is_sent_after_a_pause_for_what_it_cost(status, size, seconds):
    assert pause(status, size) == seconds


@pytest.mark.parametrize("path", ["/predict", "/other"])
def test_while_a_large_body_is_refused_slowly_its_bytes_are_free_for_others(path):
    admission, held = Admission(), []

    async def refuse(body, caller):
        held.append(admission.held)
        raise InvalidRequest("is wrong", field="body")

    async def refusing(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        held.append(admission.held)
        await send({"type": "http.response.start", "status": 422, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def scenario():
        front = RequestHandler(refusing, {"/predict": refuse}, admission=admission)
        incoming = [{"type": "http.request", "body": bytes(2**17), "more_body": False}]

        async def receive():
            return incoming.pop() if incoming else {"type": "http.disconnect"}

        async def send(event):
            held.append(admission.held)

        started = asyncio.get_running_loop().time()
        await front({"type": "http", "method": "POST", "path": path, "headers": JSON}, receive, send)
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(scenario()) >= 2**16 / 2**20
    assert held == [2**16, 0, 0]
    assert admission.held == 0


PAGES = [
    ([(b"host", b"evil.example")], "host"),
    ([(b"host", b"localhost.evil.example:80")], "host"),
    ([(b"host", b"localhost:8082"), (b"origin", b"https://evil.example")], "origin"),
    ([(b"host", b"localhost:8082"), (b"origin", b"null")], "origin"),
    ([(b"host", b"localhost:8082"), (b"sec-fetch-site", b"cross-site")], "origin"),
    ([(b"host", b"localhost"), (b"sec-fetch-site", b"same-site"), (b"sec-fetch-mode", b"navigate")], "origin"),
]


@pytest.mark.parametrize(("headers", "named"), PAGES)
def test_a_page_of_another_site_reads_nothing_of_a_service_without_tokens(headers, named):
    front = RequestHandler(application, {})
    status, _, body = ask(front, b"", path="/budget", method="GET", headers=headers, of=[])
    assert (status, orjson.loads(body)["error"].partition(":")[0]) == (403, named)


@pytest.mark.parametrize("host", [b"localhost", b"127.0.0.1:8082", b"[::1]:8082", b"localhost:1"])
def test_a_service_without_tokens_answers_under_names_of_this_machine(host):
    front = RequestHandler(application, {})
    own = [(b"host", host), (b"origin", b"http://" + host), (b"sec-fetch-site", b"same-origin")]
    assert ask(front, b"", method="GET", headers=own, of=[])[0] == 299
    assert ask(front, b"", method="GET", headers=[], of=[])[0] == 299


def test_a_person_follows_a_link_to_a_service_with_tokens_and_a_page_embeds_nothing_of_it(front):
    link = [(b"host", b"console.example"), (b"sec-fetch-site", b"cross-site")]
    followed = ask(front, b"", method="GET", path="/", headers=[*link, (b"sec-fetch-mode", b"navigate")], of=[])
    assert followed[0] == 299
    assert ask(front, b"", method="GET", path="/", headers=[*link, (b"sec-fetch-mode", b"no-cors")], of=[])[0] == 403


@pytest.mark.parametrize("place", ["raw_path", "query_string"])
@pytest.mark.parametrize("value", [b"/%ff", b"a=%ed%a0%80", b"a=%c3%28"])
def test_an_address_that_is_no_utf8_is_refused(place, value):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], place: value}
    asyncio.run(RequestHandler(application, {})(scope, receive, send))
    assert (sent[0]["status"], orjson.loads(sent[1]["body"])["field"]) == (400, "address")
