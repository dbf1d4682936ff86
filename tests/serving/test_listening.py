"""Connections that cost much: half-open, slow, too many, or with endless headers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext

import pytest
import uvicorn

from serving.http.handler import RequestHandler
from serving.http.limits import MAX_HEAD_BYTES
from serving.http.listening import Limits, bounded_http, bounds, raise_file_limit

REQUEST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def echo(body, caller):
    return body


async def hang(body, caller):
    await asyncio.sleep(30)


async def nothing(scope, receive, send):
    raise AssertionError


@asynccontextmanager
async def serving(handler=echo, seconds=5.0, **limits):
    """Serve ``handler`` with these limits; yields a function that connects."""
    front = RequestHandler(nothing, {"/predict": handler}, seconds=seconds)
    config = uvicorn.Config(front, port=0, log_config=None, lifespan="off", http=bounded_http(Limits(**limits)))
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    opened = []

    async def connect():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
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


def test_a_process_may_open_as_many_files_as_it_is_allowed():
    files = raise_file_limit()
    assert bounds()["http"].door.limits.connections <= files // 2


@pytest.fixture(autouse=True)
def _file_limit():
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
