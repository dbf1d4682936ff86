"""Connections that cost much: half-open, slow, too many, endless, or with requests one behind the other."""

import asyncio
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import pytest

from serving.http.access import Access
from serving.http.door import ConnectionLimits, peer_of
from serving.http.handler import RequestHandler
from serving.http.limits import (
    IDLE_SHARE,
    MAX_HEAD_BYTES,
    MAX_PIPELINED,
    STRANGER_SECONDS,
    STRANGER_SHARE,
)
from serving.http.listening import bounded_http, bounds, raise_file_limit
from serving.http.pacing import Pace
from serving.http.server import BoundedServer
from shadowprice.errors import Unavailable

REQUEST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def echo(body, caller):
    return body


async def hang(body, caller):
    await asyncio.sleep(30)


async def nothing(scope, receive, send):
    raise AssertionError


@asynccontextmanager
async def serving(handler=echo, seconds=5.0, access=None, application=nothing, **limits):
    """Serve ``handler`` with these limits; yields a function that connects."""
    front = RequestHandler(application, {"/predict": handler}, access, seconds)
    server = BoundedServer(front, "127.0.0.1", 0, lifespan="off")
    server.config.http = bounded_http(ConnectionLimits(**limits))
    server.config.timeout_graceful_shutdown = 1
    server.capture_signals = nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started or not hasattr(server, "servers"):
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    opened = []

    async def connect(host="127.0.0.1"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
        opened.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in opened:
            writer.close()
        server.should_exit = True
        await task


async def ended(reader):
    """All that is still read until the server closes the connection."""
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""


async def asked(reader, writer, request=REQUEST):
    writer.write(request)
    return await asyncio.wait_for(reader.readline(), 10)


def test_headers_that_do_not_end_are_given_up():
    async def scenario():
        async with serving(head_seconds=0.2) as connect:
            reader, writer = await connect()
            writer.write(HEAD)
            silent, _ = await connect()
            kept, again = await connect()
            assert await asked(kept, again) == b"HTTP/1.1 200 OK\r\n"
            await kept.readuntil(b"{}")
            again.write(HEAD)
            return await ended(reader), await ended(silent), await ended(kept)

    slow, silent, kept = asyncio.run(scenario())
    assert slow.startswith(b"HTTP/1.1 408 ")
    assert silent == b""
    assert kept.startswith(b"HTTP/1.1 408 ")


def test_endless_headers_are_refused():
    async def scenario():
        async with serving() as connect:
            reader, writer = await connect()
            writer.write(HEAD + b"X-Long: ")
            for _ in range(MAX_HEAD_BYTES // 1024 + 2):
                writer.write(b"x" * 1024)
                await asyncio.sleep(0)
            return await ended(reader)

    assert asyncio.run(scenario())[:13] in (b"HTTP/1.1 431 ", b"")


def test_half_open_connections_make_place_for_those_that_ask():
    async def scenario():
        async with serving(connections=4, head_seconds=60.0) as connect:
            half_open = [await connect() for _ in range(20)]
            for _, writer in half_open:
                writer.write(HEAD)
            await asyncio.sleep(0.1)
            return [await asked(*await connect()) for _ in range(8)]

    assert set(asyncio.run(scenario())) == {b"HTTP/1.1 200 OK\r\n"}


def test_a_connection_beyond_the_limit_is_refused_where_all_others_are_busy():
    async def scenario():
        async with serving(hang, connections=2) as connect:
            for _ in range(2):
                _, writer = await connect()
                writer.write(REQUEST)
            await asyncio.sleep(0.1)
            reader, _ = await connect()
            return await ended(reader)

    answer = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"too many connections" in answer


def test_a_request_that_takes_too_long_ends_with_its_connection():
    async def scenario():
        async with serving(hang, seconds=60.0, exchange_seconds=0.2) as connect:
            reader, writer = await connect()
            writer.write(REQUEST)
            return await ended(reader)

    assert asyncio.run(scenario()) == b""


def test_requests_one_behind_the_other_are_all_answered():
    async def scenario():
        async with serving(head_seconds=0.3) as connect:
            reader, writer = await connect()
            writer.write(REQUEST * 3)
            answers = [await reader.readuntil(b"{}") for _ in range(3)]
            await asyncio.sleep(0.1)
            return answers, await asked(reader, writer)

    answers, last = asyncio.run(scenario())
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
    assert last == b"HTTP/1.1 200 OK\r\n"


CHUNKED = (
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
ENDLESS = {
    "one trailer": (b"0\r\nX-Long: ", b"a" * 4096),
    "many trailers": (b"0\r\n", b"X-A: b\r\n" * 512),
    "chunks of one byte": (b"", b"1\r\n \r\n" * 512),
    "an extension of a chunk": (b"1;", b"a" * 4096),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_bytes_that_are_no_body_are_bounded_whatever_they_are(kind):
    begin, more = ENDLESS[kind]

    async def scenario():
        async with serving() as connect:
            kept, again = await connect()
            assert await asked(kept, again) == b"HTTP/1.1 200 OK\r\n"
            reader, writer = await connect()
            writer.write(CHUNKED + begin)
            sent = 0
            try:
                while not reader.at_eof() and sent < 64 * MAX_HEAD_BYTES:
                    writer.write(more)
                    await writer.drain()
                    sent += len(more)
                    await asyncio.sleep(0)
                answer = await ended(reader)
            except OSError:
                answer = b""
            await kept.readuntil(b"{}")
            return sent, answer, await asked(kept, again)

    sent, answer, other = asyncio.run(scenario())
    assert sent < 64 * MAX_HEAD_BYTES
    assert answer[:13] in (b"HTTP/1.1 431 ", b"")
    assert other == b"HTTP/1.1 200 OK\r\n"


def test_a_chunked_body_of_usual_chunks_is_read_whole():
    async def count(body, caller):
        return b"%d" % len(body)

    async def scenario():
        async with serving(count) as connect:
            reader, writer = await connect()
            writer.write(CHUNKED + b"4000\r\n%b\r\n" % (b" " * 0x4000) * 200 + b"0\r\n\r\n")
            answer = await asyncio.wait_for(reader.readuntil(b"%d" % (0x4000 * 200)), 10)
            return answer

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 200")


def test_a_trailer_is_no_header():
    seen = []

    async def application(scope, receive, send):
        seen.append([name for name, _ in scope["headers"]])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def scenario():
        async with serving(application=application) as connect:
            reader, writer = await connect()
            writer.write(CHUNKED.replace(b"/predict", b"/other") + b"0\r\nX-Role: all\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"{}"), 10)

    asyncio.run(scenario())
    assert seen == [[b"host", b"content-type", b"transfer-encoding"]]


def test_of_a_long_pipeline_the_first_requests_are_answered_and_the_connection_ends():
    async def scenario():
        async with serving() as connect:
            reader, writer = await connect()
            writer.write(REQUEST * 2000)
            return await ended(reader)

    answers = asyncio.run(scenario())
    assert answers.count(b"HTTP/1.1 200 OK") == MAX_PIPELINED + 1
    assert answers.count(b"connection: close") == 1


STUCK = REQUEST.replace(b"Length: 2", b"Length: 9")


def test_stuck_bodies_close_one_another_and_no_caller_that_was_admitted():
    async def scenario():
        async with serving(connections=20, strangers=5, access=Access(lambda *_: "decide")) as connect:
            kept, again = await connect()
            assert await asked(kept, again) == b"HTTP/1.1 200 OK\r\n"
            await kept.readuntil(b"{}")
            stuck = [await connect() for _ in range(60)]
            for _, writer in stuck:
                writer.write(STUCK)
            closed = 0
            for _ in range(100):
                await asyncio.sleep(0.1)
                # A connection with bytes that were not read ends by a reset.
                if (closed := sum(reader.at_eof() or reader.exception() is not None for reader, _ in stuck)) >= 55:
                    break
            new = await asked(*await connect())
            return closed, await asked(kept, again), new

    closed, kept, new = asyncio.run(scenario())
    assert closed >= 55
    assert (kept, new) == (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n")


def test_the_peer_with_the_most_stuck_connections_makes_place():
    async def scenario():
        async with serving(connections=6, strangers=100) as connect:
            quiet, _ = await connect("127.0.0.2")
            for _ in range(12):
                _, writer = await connect()
                writer.write(STUCK)
            await asyncio.sleep(0.3)
            return quiet.at_eof(), await asked(*await connect("127.0.0.3"))

    assert asyncio.run(scenario()) == (False, b"HTTP/1.1 200 OK\r\n")


def test_strangers_take_a_share_of_the_time_while_admitted_callers_are_served():
    now, turns = [0.0], []
    pace = Pace(lambda: now[0])
    pace.serve()

    def turn(peer):
        turns.append(peer)
        pace.charge(STRANGER_SECONDS)

    async def scenario():
        for peer in ["flood"] * 50 + ["honest"]:
            pace.wait(peer, partial(turn, peer))
        # Ten ticks of the time in which a share of a tenth fills the bucket once.
        for _ in range(10):
            now[0] += STRANGER_SECONDS / STRANGER_SHARE
            pace._next()

    asyncio.run(scenario())
    assert 8 <= len(turns) <= 11
    assert turns[:2] == ["flood", "honest"]


def test_strangers_have_half_of_the_time_while_no_admitted_caller_is_served():
    now = [0.0]
    pace = Pace(lambda: now[0])
    pace.charge(1.0)
    now[0] += 0.5 / IDLE_SHARE
    assert not pace.free()
    now[0] += 0.6 / IDLE_SHARE
    assert pace.free()
    # An admitted caller leaves them the smaller share.
    pace.serve()
    pace.charge(STRANGER_SECONDS + 0.5 * STRANGER_SHARE)
    now[0] += 0.4
    assert not pace.free()


def test_a_port_that_is_taken_is_an_error_with_its_number():
    server = BoundedServer(nothing, "127.0.0.1", 0, lifespan="off")
    port = server._listening.getsockname()[1]
    with pytest.raises(Unavailable, match=f"port {port} of 127.0.0.1 cannot be used"):
        BoundedServer(nothing, "127.0.0.1", port)
    server._listening.close()


def test_a_peer_is_an_address_and_a_network_of_ipv6():
    assert peer_of(("10.0.0.7", 4000)) == "10.0.0.7"
    assert peer_of(("2001:db8:1:2::7", 1)) == peer_of(("2001:db8:1:2:ffff::9", 2)) != peer_of(("2001:db8:1:3::7", 1))
    assert peer_of(("fe80::1%eth0", 1)) == peer_of(("fe80::2", 1))
    assert peer_of(None) == ""


def test_a_process_may_open_as_many_files_as_it_is_allowed():
    files = raise_file_limit()
    assert bounds()["http"].door.limits.connections <= files // 2


@pytest.fixture(autouse=True)
def _file_limit():
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
