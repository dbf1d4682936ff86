"""Checks of the services that answer at an address."""

import json
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from cli.doctor.finding import Finding, Findings, Target

SECONDS = 3.0
"""Longest wait for an answer."""
SKEW_SECONDS = 30.0
"""Largest difference between the clock of a service and of this machine."""
REDIS_PORT = 6379
LONGEST = 4096
"""Bytes of a refusal that are read."""


def predictor(target: Target) -> Findings:
    """Check that the predictor is ready and has this machine's time."""
    if target.predictor_url:
        yield from _service("predictor", target.predictor_url, "/v2/health/ready")


def ledger(target: Target) -> Findings:
    """Check that the ledger is ready and has this machine's time."""
    if target.ledger_url:
        yield from _service("ledger", target.ledger_url, "/readyz")


def prometheus(target: Target) -> Findings:
    """Check that Prometheus is ready and has this machine's time."""
    if target.prometheus_url:
        yield from _service("prometheus", target.prometheus_url, "/-/ready")


def redis(target: Target) -> Findings:
    """Check that Redis answers at ``host:port`` or ``redis://host:port``, and note where it has no replica."""
    if not target.redis:
        return
    mend = "start Redis or correct the address"
    try:
        parts = urlsplit(target.redis if "://" in target.redis else f"redis://{target.redis.split(',')[0]}")
        address = (parts.hostname or "localhost", parts.port or REDIS_PORT)
        with socket.create_connection(address, timeout=SECONDS) as connection:
            if parts.scheme == "rediss":
                return
            connection.sendall(b"PING\r\n")
            # A refusal such as -NOAUTH is an answer of Redis too.
            if connection.recv(LONGEST)[:1] not in (b"+", b"-"):
                yield Finding("redis", f"{address[0]}:{address[1]} does not answer as Redis", mend)
                return
            connection.sendall(b"INFO replication\r\n")
            if b"connected_slaves:0" in connection.recv(LONGEST):
                fault = "Redis has no replica: what a ledger recorded there last is lost with it"
                yield Finding("redis", fault, "give a ledger's Redis a replica", note=True)
    except (OSError, ValueError) as error:
        yield Finding("redis", f"Redis does not answer: {error}", mend)


def _reason(body: bytes) -> str:
    """The reason in a service's refusal; empty where it gives none."""
    try:
        reason = json.loads(body)["error"]
    except (ValueError, TypeError, KeyError):
        return ""
    return f", {reason}" if isinstance(reason, str) else ""


def _service(name: str, url: str, path: str) -> Findings:
    if urlsplit(url).scheme not in ("http", "https"):
        yield Finding(name, f"the {name}'s address {url} is not a URL", "begin it with http:// or https://")
        return
    try:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=SECONDS) as answer:
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        with error:
            reason = _reason(error.read(LONGEST))
        if error.code == HTTPStatus.NOT_FOUND:
            yield Finding(name, f"what answers at {url} is not a {name}", "correct the address")
        else:
            fault = f"the {name} at {url} is not ready: status {error.code}{reason}"
            yield Finding(name, fault, f"read the {name}'s log")
        return
    except (OSError, ValueError) as error:
        yield Finding(name, f"the {name} at {url} does not answer: {error}", "start it or correct the address")
        return
    if date:
        apart = abs((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
        if apart > SKEW_SECONDS:
            fault = f"the clock of the {name} and of this machine are {apart:.0f} s apart"
            yield Finding(name, fault, "synchronise both clocks by NTP")
