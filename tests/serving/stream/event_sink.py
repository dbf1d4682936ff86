"""A sink of CloudEvents on a port of this machine, which answers as it is told."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class EventSink:
    """Events received, in order, of the calls that were answered by 2xx.

    answers  takes the number of the call and returns status and headers; 202 without it
    calls    content type, token and body of each call, refused ones among them
    """

    url: str = ""
    answers: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (202, {})
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, str, bytes]] = field(default_factory=list)


@contextmanager
def event_sink() -> Iterator[EventSink]:
    sink = EventSink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sink.calls.append((self.headers["content-type"], self.headers.get("authorization", ""), body))
            status, headers = sink.answers(len(sink.calls))
            if status < 300:
                content = json.loads(body)
                sink.events += content if isinstance(content, list) else [content]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if status < 300 else b"not here")

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sink.url = f"http://127.0.0.1:{server.server_port}/events"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
