"""Pages of the console against what was sent to the ledger."""

import io
import re
from html import unescape

import httpx
import pandas as pd
import pytest


def text(page: str) -> str:
    return " ".join(unescape(re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


@pytest.fixture(scope="module")
def get(console):
    def read(path: str, **parameters) -> str:
        answer = httpx.get(console.url + path, params=parameters, timeout=30)
        assert answer.status_code == 200, answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        return text(answer.text)

    return read


def test_the_first_page_has_what_was_paid_and_the_verdict_on_the_price(console, get):
    page = get("/")
    assert f"${sum(console.paid.values()) / 100:,.2f}" in page
    assert "not certified: gap 0.01 above the limit of 1e−6" in page or "not certified: gap 0.01" in page
    assert f"spring ${sum(console.paid.values()) / 100:,.2f} $1,000.00 running" in page


def test_each_price_has_the_reason_of_its_change(get):
    page = get("/campaigns/spring")
    assert re.search(r"2 0\.5 \+25\.0 % \S+ \S+ UTC 1 4\.2 % more was paid than planned", page)
    assert re.search(r"−10\.0 % \S+ \S+ UTC 2 new model model-2", page)
    assert "first price that is kept" in page
    assert "Degraded The newest price is not certified" in page


def test_the_sums_of_who_got_what_are_those_of_the_ledger_to_the_cent(console, get):
    totals = console.ledger.totals()
    page = get("/campaigns/spring/mix")
    assert totals["net_spent"] == sum(console.paid.values())
    assert (
        f"These sums are those of the ledger: 400 requests, 200 outcomes and ${totals['net_spent'] / 100:,.2f}" in page
    )
    answer = httpx.get(f"{console.url}/campaigns/spring/mix.csv")
    cells = pd.read_csv(io.StringIO(answer.text))
    assert cells["paid_minor_units"].sum() == totals["net_spent"]
    assert cells.groupby("side")["requests"].sum().to_dict() == totals["requests"]
    for side, initial in (("customer", "c"), ("merchant", "m")):
        paid = cells[cells["side"] == side].groupby("level")["paid_minor_units"].sum().to_dict()
        own = [name for name in console.level if name.startswith(initial)]
        assert paid == {
            level: sum(console.paid.get(name, 0) for name in own if console.level[name] == level) for level in paid
        }


def test_one_request_is_shown_from_its_features_to_its_corrections(console, get):
    [refunded] = [name for name, cost in console.paid.items() if cost == 30]
    page = get("/campaigns/spring/requests", request_id=refunded)
    assert f"Account account-{refunded} Side customer Features computed" in page
    # λ of version 2 is 0.005 per minor unit: 0.25 − 0.005 · 12.5.
    assert "λ · expected cost 0.0625 Value − λ · cost 0.1875" in page
    assert "Held until the outcome $1.30" in page
    assert "Paid $1.30 After the authorization expired no Reported by anyone" in page
    assert "$1.30 $1.00" in page
    assert "$1.00 $0.30" in page
    assert "has no request 'nobody'" in get("/campaigns/spring/requests", request_id="nobody")


def test_an_account_is_found_with_its_requests_and_what_was_paid(console, get):
    [refunded] = [name for name, cost in console.paid.items() if cost == 30]
    page = get("/campaigns/spring/requests", request_id=f"account-{refunded}")
    assert f"Newest requests of account account-{refunded}" in page
    # The outcome as corrected twice, not as it was first reported.
    assert f"{refunded} $1.30 1 $0.30" in page
    assert "has no request" not in page


def test_who_corrected_what_is_told_by_source_and_one_by_one(console, get):
    [refunded] = [name for name, cost in console.paid.items() if cost == 30]
    page = get("/campaigns/spring/changes")
    # Two refunds of one request: from $1.30 to $1.00, and to $0.30.
    assert "anyone test refund no 2 −$1.00" in page
    for event, before, after in (("r0", "$1.30", "$1.00"), ("r1", "$1.00", "$0.30")):
        assert f"anyone test, {event} refund {refunded} {before} → {after}" in page
    assert f"anyone 200 ${sum(console.paid.values()) / 100 + 1:,.2f}" in page
    assert "model-2" in page
    assert "ann on pod-1, shadowprice 1" in page


@pytest.mark.parametrize(
    ("path", "status"),
    [("/campaigns/summer", 404), ("/campaigns/spring/requests?request_id=" + "a" * 300, 400), ("/nothing", 404)],
)
def test_what_is_not_there_is_refused(console, path, status):
    assert httpx.get(console.url + path).status_code == status


def test_nothing_can_be_written(console):
    for method in ("POST", "PUT", "DELETE"):
        answer = httpx.request(method, f"{console.url}/campaigns/spring", json={})
        assert answer.status_code == 405
