"""Spend read from a real Prometheus that scrapes a real exporter."""

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from shadowprice.errors import InvalidInput, Unavailable
from shadowprice.pacing.prometheus import PrometheusSpend
from shadowprice.pacing.spend import SpendReport


class Ledger:
    """An exporter whose counters start from what its database holds."""

    def __init__(self, port: int, spent: int, redeemed: int, decided: int) -> None:
        registry = CollectorRegistry()
        self.spend = Counter("shadowprice_spend_minor_units", "-", ["campaign"], registry=registry).labels("spring")
        self.redemptions = Counter("shadowprice_redemptions", "-", ["campaign", "side"], registry=registry)
        self.decisions = Counter(
            "shadowprice_decisions", "-", ["campaign", "side", "level", "reason"], registry=registry
        )
        self.outstanding = Gauge("shadowprice_outstanding_minor_units", "-", ["campaign", "side"], registry=registry)
        self.outstanding.labels("spring", "customer").set(40)
        self.refunded = Counter("shadowprice_refunded_minor_units", "-", ["campaign", "side"], registry=registry)
        self.withdrawn = Counter("shadowprice_withdrawn_responses", "-", ["campaign", "side"], registry=registry)
        self.late = Counter("shadowprice_late_minor_units", "-", ["campaign", "side"], registry=registry)
        self.spend.inc(spent)
        self.redemptions.labels("spring", "customer").inc(redeemed)
        self.decisions.labels("spring", "customer", "0", "optimal").inc(decided)
        self.decisions.labels("spring", "customer", "0", "repeat").inc(1000)
        self.decisions.labels("spring", "merchant", "1", "tie").inc(4)
        self.server, self.thread = start_http_server(port, addr="127.0.0.1", registry=registry)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, run_prometheus: Callable[..., AbstractContextManager[Any]]
) -> Iterator[Any]:
    with run_prometheus(tmp_path_factory.mktemp("prometheus")) as server:
        yield server


@pytest.fixture
def ledger(prometheus: Any, eventually: Callable[..., None]) -> Iterator[Ledger]:
    running = Ledger(prometheus.target, spent=500, redeemed=5, decided=20)
    eventually(lambda: readable(prometheus, lambda report: report.spent == 500))
    yield running
    running.close()
    eventually(lambda: not readable(prometheus, lambda _: True))


def readable(prometheus: Any, condition: Callable[[SpendReport], bool]) -> bool:
    try:
        return condition(PrometheusSpend(prometheus.url).read("spring"))
    except Unavailable:
        return False


def test_totals_are_the_counters_of_the_ledger_and_follow_them(
    prometheus: Any, ledger: Ledger, eventually: Callable[..., None]
) -> None:
    report = PrometheusSpend(prometheus.url).read("spring")
    assert report.spent == 500
    assert report.responses == {"customer": 5.0, "merchant": 0.0}
    assert report.requests == {"customer": 20, "merchant": 4}
    assert report.outstanding == {"customer": 40, "merchant": 0}
    assert timedelta(0) <= datetime.now(UTC) - report.observed_at < timedelta(seconds=10)
    ledger.spend.inc(123)
    eventually(lambda: readable(prometheus, lambda report: report.spent == 623))


def test_what_corrections_took_back_is_not_spent(
    prometheus: Any, ledger: Ledger, eventually: Callable[..., None]
) -> None:
    # Before the first of them the series may be absent.
    report = PrometheusSpend(prometheus.url).read("spring")
    assert (report.spent, report.refunded, report.late) == (500, 0, 0)
    for side, amount in (("customer", 100), ("merchant", 20)):
        ledger.refunded.labels("spring", side).inc(amount)
        ledger.late.labels("spring", side).inc(7)
    ledger.withdrawn.labels("spring", "customer").inc(2)
    eventually(lambda: readable(prometheus, lambda report: (report.spent, report.refunded) == (380, 120)))
    report = PrometheusSpend(prometheus.url).read("spring")
    assert (report.responses["customer"], report.withdrawn["customer"], report.late) == (3.0, 2.0, 14)


def test_a_campaign_that_nobody_exports_is_unavailable(prometheus: Any, ledger: Ledger) -> None:
    with pytest.raises(Unavailable, match="no fresh series"):
        PrometheusSpend(prometheus.url).read("winter")


def test_an_old_scrape_is_refused(prometheus: Any, ledger: Ledger) -> None:
    with pytest.raises(Unavailable, match="last scraped"):
        PrometheusSpend(prometheus.url, max_age_seconds=-1.0).read("spring")


def test_a_ledger_that_went_away_is_missing_and_its_totals_continue_when_it_is_back(
    prometheus: Any, eventually: Callable[..., None]
) -> None:
    first = Ledger(prometheus.target, spent=800, redeemed=8, decided=30)
    eventually(lambda: readable(prometheus, lambda report: report.spent == 800))
    first.close()
    eventually(lambda: not readable(prometheus, lambda _: True))
    with pytest.raises(Unavailable, match="is its target up"):
        PrometheusSpend(prometheus.url).read("spring")
    second = Ledger(prometheus.target, spent=850, redeemed=9, decided=31)
    try:
        eventually(
            lambda: readable(prometheus, lambda report: (report.spent, report.requests["customer"]) == (850, 31))
        )
    finally:
        second.close()
        eventually(lambda: not readable(prometheus, lambda _: True))


def test_a_server_that_is_not_there_or_not_a_prometheus_is_unavailable(
    prometheus: Any, ledger: Ledger, free_port: Callable[[], int]
) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        PrometheusSpend(f"http://127.0.0.1:{free_port()}").read("spring")
    with pytest.raises(Unavailable):
        PrometheusSpend(f"http://127.0.0.1:{prometheus.target}").read("spring")  # the exporter itself


def test_a_token_is_shown_and_only_the_given_authority_is_believed(tmp_path: Path, tool: Callable[[str], str]) -> None:
    for name in ("server", "stranger"):
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.crt")]
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = [tool("openssl"), "req", "-x509", *curve, "-nodes", "-days", "2", *files, *names]
        subprocess.run(command, check=True, capture_output=True)
    shown: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("authorization"))
            body = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    (tmp_path / "token").write_text("secret-of-prometheus\n")
    spend = PrometheusSpend(
        f"https://127.0.0.1:{server.server_port}",
        token_file=str(tmp_path / "token"),
        ca_file=str(tmp_path / "server.crt"),
    )
    try:
        with pytest.raises(Unavailable, match="no fresh series"):
            spend.read("spring")
        for ca_file in ("", str(tmp_path / "stranger.crt")):
            with pytest.raises(Unavailable, match="certificate verify failed"):
                replace(spend, ca_file=ca_file).read("spring")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert shown == ["Bearer secret-of-prometheus"]
    with pytest.raises(InvalidInput, match="prometheus_token_file"):
        replace(spend, token_file=str(tmp_path / "none")).read("spring")
