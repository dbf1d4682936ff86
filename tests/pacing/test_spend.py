"""Spend read from real metrics pages."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from shadowprice.errors import Unavailable
from shadowprice.pacing.spend import MetricsSpend


class Service:
    """A metrics page with the counters of the contract."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.spend = Counter("shadowprice_spend_minor_units", "-", ["campaign", "side"], registry=self.registry)
        self.redemptions = Counter("shadowprice_redemptions", "-", ["campaign", "side"], registry=self.registry)
        self.decisions = Counter(
            "shadowprice_decisions", "-", ["campaign", "side", "level", "reason"], registry=self.registry
        )
        self.outstanding = Gauge(
            "shadowprice_outstanding_minor_units", "-", ["campaign", "side"], registry=self.registry
        )
        self.refunded = Counter("shadowprice_refunded_minor_units", "-", ["campaign", "side"], registry=self.registry)
        self.withdrawn = Counter("shadowprice_withdrawn_responses", "-", ["campaign", "side"], registry=self.registry)
        self.late = Counter("shadowprice_late_minor_units", "-", ["campaign", "side"], registry=self.registry)
        Gauge("shadowprice_budget_minor_units", "-", ["campaign"], registry=self.registry).labels("spring").set(9e9)
        self.server, self.thread = start_http_server(0, addr="127.0.0.1", registry=self.registry)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def service() -> Iterator[Callable[[], Service]]:
    made: list[Service] = []

    def make() -> Service:
        made.append(Service())
        return made[-1]

    yield make
    for one in made:
        one.close()


def fill(page: Service, spent: int = 700) -> None:
    page.spend.labels("spring", "customer").inc(spent)
    page.spend.labels("spring", "merchant").inc(50)
    page.spend.labels("autumn", "customer").inc(10_000)
    page.outstanding.labels("spring", "customer").set(300)
    page.outstanding.labels("autumn", "customer").set(5000)
    page.redemptions.labels("spring", "customer").inc(7)
    page.redemptions.labels("spring", "merchant").inc(2.5)
    page.decisions.labels("spring", "customer", "0", "optimal").inc(20)
    page.decisions.labels("spring", "customer", "1", "tie").inc(3)
    page.decisions.labels("spring", "customer", "1", "repeat").inc(100)
    page.decisions.labels("spring", "merchant", "0", "budget_exhausted").inc(4)
    page.decisions.labels("autumn", "merchant", "0", "optimal").inc(1000)


def test_totals_are_summed_over_labels_and_repeats_are_not_requests(service: Callable[[], Service]) -> None:
    page = service()
    fill(page)
    before = datetime.now(UTC)
    report = MetricsSpend([page.url]).read("spring")
    assert report.spent == 750
    assert report.responses == {"customer": 7.0, "merchant": 2.5}
    assert report.requests == {"customer": 23, "merchant": 4}
    assert report.outstanding == {"customer": 300, "merchant": 0}
    assert before <= report.observed_at <= datetime.now(UTC)


def test_what_corrections_took_back_is_neither_spent_nor_a_response(service: Callable[[], Service]) -> None:
    page = service()
    fill(page)
    page.refunded.labels("spring", "customer").inc(100)
    page.refunded.labels("spring", "merchant").inc(50)
    page.refunded.labels("autumn", "customer").inc(9)
    page.withdrawn.labels("spring", "merchant").inc(0.5)
    page.late.labels("spring", "customer").inc(30)
    report = MetricsSpend([page.url]).read("spring")
    assert (report.spent, report.refunded, report.late) == (600, 150, 30)
    assert report.responses == {"customer": 7.0, "merchant": 2.0}
    assert report.withdrawn == {"customer": 0.0, "merchant": 0.5}


def test_totals_of_several_services_add_up(service: Callable[[], Service]) -> None:
    ledger, predictor = service(), service()
    ledger.spend.labels("spring", "customer").inc(120)
    ledger.redemptions.labels("spring", "customer").inc(0)
    ledger.outstanding.labels("spring", "customer").set(0)
    predictor.decisions.labels("spring", "customer", "0", "optimal").inc(2)
    report = MetricsSpend([ledger.url, predictor.url]).read("spring")
    assert (report.spent, report.requests["customer"], report.responses["customer"]) == (120, 2, 0.0)
    assert report.requests["merchant"] == 0


def test_ledgers_that_share_their_books_count_once(service: Callable[[], Service]) -> None:
    behind, ahead = service(), service()
    fill(behind, spent=700)
    fill(ahead, spent=800)
    report = MetricsSpend([behind.url, ahead.url]).read("spring")
    alone = MetricsSpend([ahead.url]).read("spring")
    assert (report.spent, report.requests, report.responses, report.outstanding) == (
        alone.spent,
        alone.requests,
        alone.responses,
        alone.outstanding,
    )


def test_large_amounts_are_exact(service: Callable[[], Service]) -> None:
    page = service()
    fill(page, spent=9_007_199_254_740_001)
    assert MetricsSpend([page.url]).read("spring").spent == 9_007_199_254_740_051


@pytest.mark.parametrize("campaign", ["winter", ""])
def test_a_campaign_without_series_is_unavailable_not_zero(service: Callable[[], Service], campaign: str) -> None:
    page = service()
    fill(page)
    with pytest.raises(Unavailable, match="shadowprice_spend_minor_units_total"):
        MetricsSpend([page.url]).read(campaign)


def test_each_missing_total_is_named(service: Callable[[], Service]) -> None:
    page = service()
    page.spend.labels("spring", "customer").inc(0)
    with pytest.raises(Unavailable, match="shadowprice_redemptions_total"):
        MetricsSpend([page.url]).read("spring")
    page.redemptions.labels("spring", "customer").inc(0)
    with pytest.raises(Unavailable, match="shadowprice_decisions_total"):
        MetricsSpend([page.url]).read("spring")
    page.decisions.labels("spring", "customer", "0", "optimal").inc(0)
    with pytest.raises(Unavailable, match="shadowprice_outstanding_minor_units"):
        MetricsSpend([page.url]).read("spring")


def test_one_dead_service_makes_the_whole_report_unavailable(service: Callable[[], Service]) -> None:
    page = service()
    fill(page)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}/metrics"
    with pytest.raises(Unavailable, match=dead):
        MetricsSpend([page.url, dead]).read("spring")


def test_a_side_that_does_not_exist_is_refused(service: Callable[[], Service]) -> None:
    page = service()
    fill(page)
    page.redemptions.labels("spring", "courier").inc(1)
    with pytest.raises(Unavailable, match="courier"):
        MetricsSpend([page.url]).read("spring")


class _Page(http.server.BaseHTTPRequestHandler):
    body, status = b"", 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b"shadowprice_spend_minor_units_total 1\n"),
        (200, b"<html>sign in</html>"),
        (200, b"\xff\xfe\x00"),
        (200, b""),
        (200, b'shadowprice_spend_minor_units_total{campaign="spring"} x\n'),
        (
            200,
            b'shadowprice_spend_minor_units_total{campaign="spring"} NaN\n'
            b'shadowprice_redemptions_total{campaign="spring",side="customer"} 1\n'
            b'shadowprice_decisions_total{campaign="spring",side="customer"} 1\n'
            b'shadowprice_outstanding_minor_units{campaign="spring",side="customer"} 0\n',
        ),
        (
            200,
            b'shadowprice_spend_minor_units_total{campaign="spring"} 5\n'
            b'shadowprice_redemptions_total{campaign="spring",side="customer"} -1\n'
            b'shadowprice_decisions_total{campaign="spring",side="customer"} 1\n'
            b'shadowprice_outstanding_minor_units{campaign="spring",side="customer"} 0\n',
        ),
    ],
)
def test_a_page_that_is_broken_is_unavailable(status: int, body: bytes) -> None:
    handler = type("Page", (_Page,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(Unavailable):
                MetricsSpend([f"http://127.0.0.1:{server.server_port}/metrics"]).read("spring")
        finally:
            server.shutdown()
            thread.join()


def test_only_web_addresses_are_read() -> None:
    with pytest.raises(Unavailable, match="http"):
        MetricsSpend(["file:///etc/passwd"]).read("spring")
