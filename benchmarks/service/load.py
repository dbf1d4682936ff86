"""A closed-loop load generator over kept HTTP connections: each sends its next request when the last is answered.

One process, one thread, raw sockets and epoll: some 20 µs of processor time per request, so that on a machine of two
cores the generator does not become what is measured. ``python -m benchmarks.service.load`` reads a JSON object of the
arguments of :func:`drive` and prints the result.
"""

import json
import resource
import select
import socket
import sys
import time
from typing import Any

from benchmarks.child import answer

V1, V2, PAGE = "/v1/models/spring:predict", "/v2/models/spring/infer", "/campaigns/spring"


def names(batch: int, serial: int, accounts: int) -> tuple[list[str], list[str]]:
    ids = [f"{serial}-{row}" for row in range(batch)]
    return ids, [f"c{(serial * 7919 + row * 104_729) % accounts}" for row in range(batch)]


def body(protocol: str, batch: int, serial: int, accounts: int, context: bool = False) -> bytes:
    """The body of one call for ``batch`` accounts; request ids are new, accounts walk through all of them.

    ``context`` adds values to each request, in V1. A ``page`` is one of the console, and has no body.
    """
    ids, account_ids = names(batch, serial, accounts)
    if protocol == "v1":
        more = {"context": {"x_basket": serial % 100 / 10, "c_channel": "app"}} if context else {}
        rows = [
            {"request_id": i, "account_id": a, "side": "customer", **more}
            for i, a in zip(ids, account_ids, strict=True)
        ]
        return json.dumps({"instances": rows}).encode()
    columns = zip(("request_id", "account_id", "side"), (ids, account_ids, ["customer"] * batch), strict=True)
    inputs = [{"name": n, "datatype": "BYTES", "shape": [batch], "data": values} for n, values in columns]
    return json.dumps({"inputs": inputs}).encode()


def drive(
    port: int,
    protocol: str,
    batch: int,
    connections: int,
    seconds: float,
    serial: int,
    accounts: int,
    token: str = "",
    context: bool = False,
    settle: float = 0.0,
) -> dict[str, Any]:
    """Load one service for ``seconds`` and return its throughput, percentiles in ms, and refusals.

    The load begins ``settle`` seconds before they count.

    Request ids start at ``serial``, so that no two runs against one ledger share any.
    """
    path = {"v1": V1, "v2": V2, "page": PAGE}[protocol]
    secret = f"Authorization: Bearer {token}\r\n" if token else ""
    kind = "Content-Type: application/json\r\n"
    method = "GET" if protocol == "page" else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{secret}{kind}Content-Length: ".encode()
    poll = select.epoll()
    sockets: dict[int, socket.socket] = {}
    waiting: dict[int, bytes] = {}
    sent: dict[int, float] = {}

    def send(number: int) -> None:
        nonlocal serial
        content = b"" if protocol == "page" else body(protocol, batch, serial, accounts, context)
        serial += 1
        waiting[number] = b""
        sent[number] = time.perf_counter()
        sockets[number].sendall(b"%b%d\r\n\r\n%b" % (head, len(content), content))

    def connect() -> int:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[connection.fileno()] = connection
        poll.register(connection.fileno(), select.EPOLLIN)
        return connection.fileno()

    times: list[float] = []
    refused = 0
    for number in [connect() for _ in range(connections)]:
        send(number)
    started = time.perf_counter() + settle
    while (now := time.perf_counter()) < started + seconds:
        for number, _ in poll.poll(0.1):
            part = sockets[number].recv(262_144)
            if not part:
                # Closed by the service: the call is lost.
                refused += 1
                poll.unregister(number)
                sockets.pop(number).close()
                send(connect())
                continue
            waiting[number] = told = waiting[number] + part
            end = told.find(b"\r\n\r\n")
            if end < 0:
                continue
            at = told.lower().index(b"content-length:", 0, end) + 15
            length = int(told[at : told.index(b"\r\n", at)])
            if len(told) < end + 4 + length:
                continue
            if time.perf_counter() >= started:
                times.append(time.perf_counter() - sent[number])
            refused += not told.startswith(b"HTTP/1.1 200") or b'"ineligible"' in told
            send(number)
    elapsed = now - started
    for connection in sockets.values():
        connection.close()
    return found(times, refused, batch, elapsed, resource.getrusage(resource.RUSAGE_SELF), serial)


def found(
    times: list[float], refused: int, batch: int, elapsed: float, usage: resource.struct_rusage, serial: int
) -> dict[str, Any]:
    """Summarize a run from the seconds of its calls; one without an answer has a call of its whole time."""
    times = sorted(times) or [elapsed]
    return {
        "calls": len(times),
        "refused": refused,
        "per_second": len(times) * batch / elapsed,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "generator_us": 1e6 * (usage.ru_utime + usage.ru_stime) / max(len(times), 1),
        "serial": serial,
    }


def generate(protocol: str, **arguments: Any) -> dict[str, Any]:
    """Run :func:`drive`, or that of :mod:`benchmarks.service.grpc_load`, in a process of its own."""
    module = "benchmarks.service.grpc_load" if protocol == "grpc" else "benchmarks.service.load"
    return dict(answer(module, json.dumps({"protocol": protocol, **arguments})))


if __name__ == "__main__":
    print(json.dumps(drive(**json.loads(sys.argv[1]))))
