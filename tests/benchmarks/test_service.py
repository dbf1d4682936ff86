"""The parts of the benchmarks of the decision service: what is sent, and how it is counted."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from itertools import islice

import pytest

from benchmarks.service.abuse import bad_requests
from benchmarks.service.load import V1, V2, body, drive
from benchmarks.serving_abuse import Caller
from serving.protocol import decode_v1, decode_v2
from serving.web import parse_json
from shadowprice.errors import InvalidRequest


def test_no_bad_request_may_be_decided_and_they_are_the_same_for_the_same_seed():
    decoders = {V1: decode_v1, V2: decode_v2}
    drawn = list(islice(bad_requests(3), 3000))
    assert drawn == list(islice(bad_requests(3), 3000))
    checked = 0
    for method, path, _, content in drawn:
        if method == "POST" and path in decoders:
            checked += 1
            with pytest.raises(InvalidRequest) as caught:
                decoders[path](parse_json(content), 1000)
            assert caught.value.field
    assert checked > 2000


@pytest.mark.parametrize(("protocol", "decode"), [("v1", decode_v1), ("v2", decode_v2)])
def test_a_load_asks_for_new_requests_of_many_accounts(protocol, decode):
    calls = [decode(json.loads(body(protocol, 3, serial, 50)), 10) for serial in range(200)]
    ids = [name for call in calls for name in call.request_id]
    assert len(set(ids)) == 600
    assert len({name for call in calls for name in call.account_id}) > 40


@pytest.fixture
def server():
    """Answers every request on two connections after another, one time in three with 400, in two parts."""
    listening = socket.create_server(("127.0.0.1", 0))
    served = []

    def converse(connection):
        count = 0
        with connection, suppress(OSError):
            while data := connection.recv(65_536):
                served.append(data)
                count += 1
                status = b"400 Bad Request" if count % 3 == 0 else b"200 OK"
                connection.sendall(b"HTTP/1.1 %b\r\nContent-" % status)
                connection.sendall(b"Length: 2\r\n\r\n{}")

    def accept():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    yield listening.getsockname()[1], served
    listening.shutdown(socket.SHUT_RDWR)
    accepting.join()
    listening.close()


def test_answers_are_counted_once_and_refusals_apart(server):
    port, served = server
    found = drive(port, "v1", 1, 2, 0.3, serial=5, accounts=10)
    assert found["calls"] <= len(served) <= found["calls"] + 2
    assert found["calls"] // 3 - 2 <= found["refused"] <= found["calls"] // 3 + 2
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    caller = Caller(port)
    assert [caller.send("POST", "/", b"", b"{}") for _ in range(6)] == [200, 200, 400] * 2
    caller.close()
