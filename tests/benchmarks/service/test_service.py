"""The parts of the benchmarks of the decision service: what is sent, and how it is counted."""

import json
import socket
import threading
from contextlib import suppress

import pytest

from benchmarks.service import tables
from benchmarks.service.load import body, drive
from serving.protocol import decode_v1, decode_v2


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


def test_the_tables_of_the_service_say_what_was_met_and_where_the_time_went() -> None:
    common = {"per_second": 1000.0, "p50_ms": 1.0, "p99_ms": 2.0, "cpu_us": 300.0, "ledger_us": 0.0}
    mine = {"ratio": 0.5, "p99_ratio": 1.5, "ledger_us": 120.0, "stages": dict.fromkeys(tables.STAGES, 0.1)}
    rows = []
    for batch, connections, per_second in ((1, 1, 500.0), (1, 32, 900.0), (100, 8, 21_000.0)):
        case = {"protocol": "grpc", "batch": batch, "connections": connections}
        rows += [
            {**common, **case, "service": "trivial"},
            {**common, **mine, **case, "service": "ours", "per_second": per_second},
        ]
    alone = {"new": 0.7, "repeated": 0.4, "sync": 0.2}
    found = {"serving": {"rows": rows, "start_seconds": 11.0, "ledger": alone}}
    found["serving"] |= {"machine": {"cores": 2}, "cells": {"all": {"load": 9.0}}}
    assert "| V2 gRPC | 1 | 32 | 1,000 | 900 | 0.50 | 2.0 | 1.5 | 300 | 120 |" in tables.throughput(found)
    assert "2 cores, load average 9: **beside other work**" in tables.throughput(found)
    said = tables.goals(found)
    assert said.startswith("3 of 6 goals are met.")
    assert "| V2 gRPC, 1 connection: ≥ 85 % of KServe's throughput | 50 % |" in said
    assert "p99 ≤ 2 ×" not in said
    assert "100 a call" not in said
    assert "11.0 s |" in said
    parts = tables.stages(found)
    assert "| curve | 0.100 |" in parts
    assert "| — a sync of the disk by itself | 0.20 |" in parts
    assert "the caller's side | 0.40 |" in parts
