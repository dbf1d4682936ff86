"""The predictor's connection to its ledger, against a server that misbehaves in every way it can."""

import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest

from serving.predictor.ledger.client import TIMEOUT_SECONDS, Authorizer, KnownRequests
from serving.predictor.ledger.columns import Proposals
from serving.predictor.ledger.connection import connect
from shadowprice.errors import InvalidRequest, Unavailable

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"


def whole(body, status=b"200 OK", headers=b""):
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


@asynccontextmanager
async def server(*answers):
    """Answers each request with the next of the parts, on whatever connection; None hangs up. Yields port and log."""
    left, seen = list(answers), []

    async def serve(reader, writer):
        number = len({each for each, _ in seen})
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                seen.append((number, await reader.readexactly(length)))
                for part in left.pop(0):
                    if part is None:
                        return
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.01)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], seen


def test_answers_in_parts_and_in_chunks_are_whole_and_one_connection_is_kept_for_them():
    async def exchange():
        chunked = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        async with server([whole(b"hello")[:20], whole(b"hello")[20:]], [chunked, b"2\r\nde\r\n0\r\n\r\n"]) as (
            port,
            seen,
        ):
            connection = await connect("127.0.0.1", port)
            found = [await connection.exchange(REQUEST), await connection.exchange(REQUEST)]
            return found, connection.open, {number for number, _ in seen}

    assert asyncio.run(exchange()) == ([(200, b"hello"), (409, b"abcde")], True, {0})


def test_a_connection_that_is_to_end_is_not_open_after_its_answer():
    async def exchange():
        async with server([whole(b"last", headers=b"Connection: close\r\n")]) as (port, _):
            connection = await connect("127.0.0.1", port)
            return await connection.exchange(REQUEST), connection.open

    assert asyncio.run(exchange()) == ((200, b"last"), False)


@pytest.mark.parametrize(
    "parts", [[None], [whole(b"hello")[:-2], None], [b"nonsense\r\n\r\n"], [b"HTTP/1.1 200 OK\r\n", None]]
)
def test_what_is_no_answer_is_an_error_and_the_end_of_the_connection(parts):
    async def exchange():
        async with server(parts) as (port, _):
            connection = await connect("127.0.0.1", port)
            with pytest.raises(OSError, match=r"."):
                await asyncio.wait_for(connection.exchange(REQUEST), 5)
            with pytest.raises(OSError, match="closed"):
                await connection.exchange(REQUEST)
            return connection.open

    assert asyncio.run(exchange()) is False


def test_the_late_answer_to_one_who_gave_up_is_nobodys():
    async def exchange():
        async with server([whole(b"late")[:10], *[b""] * 10, whole(b"late")[10:]]) as (port, _):
            connection = await connect("127.0.0.1", port)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connection.exchange(REQUEST), 0.02)
            return connection.open

    assert asyncio.run(exchange()) is False


def proposals(*request_ids):
    n = len(request_ids)
    numbers = [0.5] * n
    return Proposals(
        request_id=[*request_ids],
        account_id=["a"] * n,
        side=["customer"] * n,
        level=[1] * n,
        incentive=[50] * n,
        response=numbers,
        expected_cost=numbers,
        propensity=numbers,
        propensities=[[0.5, 0.5]] * n,
        reason=["tie"] * n,
        features_at=[None] * n,
        response_unpaid=numbers,
    )


def told(*request_ids, **changes):
    n = len(request_ids)
    columns = {"request_id": [*request_ids], "level": [1] * n, "incentive": [50] * n, "response": [0.5] * n}
    columns |= {"expected_cost": [25.0] * n, "propensity": [0.5] * n, "reason": ["tie"] * n, "repeat": [False] * n}
    columns |= {"price_version": [1] * n, "model_version": ["m"] * n, "arm": ["policy"] * n, "limited_by": [""] * n}
    answer = {"decisions": columns, "known": [], "errors": [None]}
    return whole(
        orjson.dumps(
            {part: changes.pop(part, value) for part, value in answer.items()} | {"decisions": columns | changes}
        )
    )


async def authorized(answers, *calls, before=None):
    async with server(*answers) as (port, seen):
        authorizer = Authorizer(f"http://127.0.0.1:{port}", "spring")
        found = []
        for call in calls:
            try:
                stored = await authorizer.authorize(proposals(*call), model_version="m", price_version=1)
                found.append(stored.decisions.request_id)
            except (Unavailable, InvalidRequest) as error:
                found.append(type(error))
            if before:
                await before()
        authorizer.close()
        return found, [number for number, _ in seen]


def test_one_connection_is_kept_and_one_that_was_closed_meanwhile_is_replaced_unnoticed():
    # It is closed once before the third call and once by it.
    for answers in ([[told("a")], [told("b"), None], [told("c")]], [[told("a")], [told("b")], [None], [told("c")]]):
        found, connections = asyncio.run(authorized(answers, ["a"], ["b"], ["c"], before=lambda: asyncio.sleep(0.03)))
        assert found == [["a"], ["b"], ["c"]]
        assert connections[:2] == [0, 0]
        assert connections[-1] == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (told("other"), Unavailable),
        (told("a", level=[1, 2]), Unavailable),
        (told("a", level=7), Unavailable),
        (whole(b"[]"), Unavailable),
        (whole(b"{"), Unavailable),
        (whole(orjson.dumps({"decisions": {"request_id": ["a"]}})), Unavailable),
        (told("a", known=[0]), Unavailable),
        (told("a", errors=[None, None]), Unavailable),
        (told("a", errors=["taken"]), Unavailable),
        (told(errors=["taken"]), []),
        (whole(b'{"error": "taken"}', b"409 Conflict"), Unavailable),
        (whole(b'{"error": "too long"}', b"413 Too Large"), InvalidRequest),
        (whole(b'["too long"]', b"422 Oops"), Unavailable),
        (whole(b'{"error": "broken"}', b"500 Oops"), Unavailable),
    ],
)
def test_what_no_ledger_answers_is_not_taken_for_an_authorization(answer, expected):
    assert asyncio.run(authorized([[answer]], ["a"]))[0] == [expected]


def test_a_ledger_that_is_not_there_or_says_nothing_is_unavailable_in_time():
    async def ask():
        loop = asyncio.get_running_loop()
        nobody = Authorizer("http://127.0.0.1:1", "spring")
        with pytest.raises(Unavailable, match="does not answer"):
            await nobody.authorize(proposals("a"), model_version="m", price_version=1)
        with pytest.raises(Unavailable, match="does not answer"):
            nobody.check({})
        started = loop.time()
        found, _ = await authorized([[whole(b"x")[:5], *[b""] * 500]], ["a"])
        return found, loop.time() - started

    found, seconds = asyncio.run(ask())
    assert found == [Unavailable]
    assert TIMEOUT_SECONDS <= seconds < TIMEOUT_SECONDS + 8


@pytest.mark.parametrize(
    ("request_ids", "status"),
    [([f"{'[' * 240}{row}" for row in range(300)], 400), ([f"{row:0>250}" for row in range(20_000)], 413)],
    ids=["brackets", "bytes"],
)
def test_a_message_above_the_limits_of_the_ledger_is_refused_before_it_is_sent(request_ids, status):
    async def ask():
        async with server() as (port, seen):
            authorizer = Authorizer(f"http://127.0.0.1:{port}", "spring")
            with pytest.raises(InvalidRequest, match="fewer requests") as refusal:
                await authorizer.authorize(proposals(*request_ids), model_version="m", price_version=1)
            return refusal.value.status, seen

    assert asyncio.run(ask()) == (status, [])


def test_a_silent_replica_is_passed_over_and_its_kept_connections_are_dropped():
    async def ask():
        loop, silent = asyncio.get_running_loop(), asyncio.Event()

        async def serve(reader, writer):
            try:
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
                    if silent.is_set() and writer.get_extra_info("sockname")[1] == ports[0]:
                        await reader.read()
                        return
                    writer.write(told("a"))
            except asyncio.IncompleteReadError:
                pass
            finally:
                writer.close()

        first, second = [await asyncio.start_server(serve, "127.0.0.1", 0) for _ in range(2)]
        ports = [each.sockets[0].getsockname()[1] for each in (first, second)]
        async with first, second:
            authorizer = Authorizer(",".join(f"http://127.0.0.1:{port}" for port in ports), "spring")

            async def authorize():
                started = loop.time()
                await authorizer.authorize(proposals("a"), model_version="m", price_version=1)
                return loop.time() - started

            await asyncio.gather(*(authorize() for _ in range(3)))
            silent.set()
            seconds = [await authorize() for _ in range(3)]
            authorizer.close()
            return seconds

    waited, *later = asyncio.run(ask())
    assert 0.5 < waited < TIMEOUT_SECONDS
    assert max(later) < 0.5


def test_several_calls_and_their_known_requests_are_one_message_and_one_answer():
    async def ask():
        answer = told("a", "d", "k", errors=[None, "taken", None], known=[1])
        async with server([answer]) as (port, seen):
            authorizer = Authorizer(f"http://127.0.0.1:{port}", "spring")
            known = KnownRequests(["j", "k"], ["a", "a"], ["customer"] * 2, [0, 2])
            found = await authorizer.authorize(
                proposals("a", "b", "c", "d"), known, sizes=[1, 2, 1], model_version="m", price_version=1
            )
            authorizer.close()
            return found, [orjson.loads(body) for _, body in seen]

    found, (message,) = asyncio.run(ask())
    assert (message["sizes"], message["items"]["request_id"]) == ([1, 2, 1], ["a", "b", "c", "d"])
    assert "unpaid_allowed" not in message["items"]
    assert (message["known"]["request_id"], message["known"]["call"]) == (["j", "k"], [0, 2])
    assert (found.decisions.request_id, found.known, found.errors) == (["a", "d", "k"], [1], [None, "taken", None])
