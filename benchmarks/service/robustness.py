"""Bad requests by the hundred thousand, and memory over a long load: ``python -m benchmarks serving_abuse``.

The predictor receives ``SHADOWPRICE_ABUSE_REQUESTS`` (100,000) bad requests, none of which may be answered 5xx or leave
it unready. Then ``SHADOWPRICE_ABUSE_MINUTES`` (30) of good and bad calls follow, at most ``SHADOWPRICE_ABUSE_RATE``
(200) a second. The resident memory of predictor and ledger is read every second. The slope is that of a line through
the minutes' means of the second half, when caches are full, with its 95 % interval by Student's t.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from benchmarks.cells import Cells
from benchmarks.service.abuse import bad_requests
from benchmarks.service.deployment import Running, port_of, resident_mb, serving
from benchmarks.service.load import body
from serving.local.launch import Service

ACCOUNTS = 2000
GOOD_EVERY = 2
FIRST = 10**9


def run(cells: Cells, quick: bool) -> dict[str, Any]:
    """Both parts, against the same processes."""
    requests = int(os.environ.get("SHADOWPRICE_ABUSE_REQUESTS", "2000" if quick else "100000"))
    minutes = float(os.environ.get("SHADOWPRICE_ABUSE_MINUTES", "0.3" if quick else "30"))
    found: dict[str, Any] = cells.of(f"{requests}-{minutes}", partial(measured, requests, minutes))
    return found


def measured(requests: int, minutes: float) -> dict[str, Any]:
    """Send, count, and watch the memory."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), ACCOUNTS, with_trivial=False) as running:
        started = time.perf_counter()
        statuses = attack(running.predictor, requests, seed=1)
        seconds = time.perf_counter() - started
        print(f"{requests:,} bad requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}")
        failures = sum(count for status, count in statuses.items() if status >= 500)
        alive = ready(running.predictor)
        memory = soak(running, minutes)
        for name, each in memory.items():
            moved = f"{each['start_mb']:.1f} -> {each['end_mb']:.1f} MB"
            low, high = each["slope_low"], each["slope_high"]
            print(f"{name}: {moved}, slope {each['slope_mb_per_hour']:+.2f} [{low:+.2f}, {high:+.2f}] MB/h")
        text = running.predictor.tail()
        return {
            "requests": requests,
            "statuses": {str(status): count for status, count in sorted(statuses.items())},
            "failures": failures,
            "ready_after": alive and ready(running.predictor),
            "traceback_in_log": "Traceback" in text,
            "minutes": minutes,
            "memory": memory,
        }


def attack(service: Service, requests: int, seed: int) -> Counter[int]:
    """Send bad requests one after the other; status → how many. 0 is a connection closed without an answer."""
    statuses: Counter[int] = Counter()
    caller = Caller(port_of(service))
    for method, path, headers, content in islice(bad_requests(seed), requests):
        statuses[caller.send(method, path, headers, content)] += 1
    caller.close()
    return statuses


def soak(running: Running, minutes: float) -> dict[str, dict[str, float]]:
    """Good and bad calls for some minutes; resident memory of both services by time."""
    caller = Caller(port_of(running.predictor))
    bad = bad_requests(seed=2)
    watched = {"predictor": running.predictor, "ledger": running.ledger}
    times: list[float] = []
    sizes: dict[str, list[float]] = {name: [] for name in watched}
    rate = float(os.environ.get("SHADOWPRICE_ABUSE_RATE", "200"))
    started = time.perf_counter()
    serial = FIRST
    while (now := time.perf_counter() - started) < 60 * minutes:
        if not times or now - times[-1] >= 1.0:
            times.append(now)
            for name, service in watched.items():
                sizes[name].append(resident_mb(service))
        time.sleep(max(0.0, (serial - FIRST) / rate - now))
        serial += 1
        if serial % GOOD_EVERY:
            caller.send("POST", "/v1/models/spring:predict", b"", body("v1", 1, serial, ACCOUNTS))
        else:
            caller.send(*next(bad))
    caller.close()
    half = len(times) // 2
    return {
        name: {
            "start_mb": values[0],
            "half_mb": values[half],
            "end_mb": values[-1],
            **slope(times[half:], values[half:]),
            "calls": float(serial - FIRST),
        }
        for name, values in sizes.items()
    }


def slope(seconds: ArrayLike, sizes: ArrayLike, *, window: float = 60.0) -> dict[str, float]:
    """MB/h of the least-squares line through the means of each ``window`` seconds, and its 95 % interval.

    Readings a second apart repeat each other; the means of a minute nearly do not. NaN for fewer than three windows.
    """
    at, size = np.asarray(seconds, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    place = ((at - at[0]) // window).astype(np.int64)
    count = np.bincount(place)
    there = count > 0
    hours = np.bincount(place, at)[there] / count[there] / 3600
    means = np.bincount(place, size)[there] / count[there]
    if hours.size < 3:
        return dict.fromkeys(("slope_mb_per_hour", "slope_low", "slope_high"), float("nan"))
    line = stats.linregress(hours, means)
    reach = float(stats.t.ppf(0.975, hours.size - 2) * line.stderr)
    found = float(line.slope)
    return {"slope_mb_per_hour": found, "slope_low": found - reach, "slope_high": found + reach}


class Caller:
    """One kept connection of raw HTTP, opened again where the service closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, method: str, path: str, headers: bytes, content: bytes) -> int:
        """The status of the answer; 0 when the connection was closed without one."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        message = b"%b %b HTTP/1.1\r\nHost: localhost\r\n%bContent-Length: %d\r\n\r\n%b" % (
            method.encode(), path.encode(), headers, len(content), content,
        )  # fmt: skip
        try:
            self._socket.sendall(message)
            status, closes = _answer(_parts(self._socket))
        except OSError:
            status, closes = 0, True
        if closes:
            self.close()
        return status


def ready(service: Service) -> bool:
    """Return whether the service still answers that it is ready."""
    with urllib.request.urlopen(f"{service.url}/v2/health/ready", timeout=10) as answer:
        return bool(answer.status == 200)


def _parts(connection: socket.socket) -> Iterator[bytes]:
    while part := connection.recv(65_536):
        yield part


def _answer(parts: Iterator[bytes]) -> tuple[int, bool]:
    """Status of one answer, and whether the connection ends with it."""
    text = b""
    for part in parts:
        text += part
        end = text.find(b"\r\n\r\n")
        if end < 0:
            continue
        head = text[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(text) >= end + 4 + length:
            return int(text.split(b" ", 2)[1]), b"connection: close" in head
    return 0, True
