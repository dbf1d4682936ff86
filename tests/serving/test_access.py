"""Where a service without tokens may listen, and the rate of each caller."""

import subprocess
import sys

import pytest

from serving.http.access import check_exposed
from serving.http.rates import Amounts, Rates
from serving.http.refused import TooManyCalls
from serving.http.tokens import Tokens
from shadowprice.errors import InvalidInput


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_without_tokens_a_service_listens_on_its_own_machine(host):
    check_exposed(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "ledger.growth.svc", "", "127.0.0.1.example"])
def test_without_tokens_no_other_machine_may_reach_it(host, tmp_path):
    with pytest.raises(InvalidInput, match="--token-file"):
        check_exposed(host, None)
    file = tmp_path / "token"
    file.write_text("an-example-of-a-token")
    check_exposed(host, Tokens(file))


def test_a_ledger_without_tokens_does_not_start_on_all_addresses(kit, campaign, tmp_path):
    file = kit.write_campaign(campaign, tmp_path / "campaign.json")
    command = [sys.executable, "-m", "serving.ledger", "--campaign-file", str(file), "--host", "0.0.0.0"]
    done = subprocess.run(
        [*command, "--db", str(tmp_path / "ledger.db")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "--token-file" in done.stderr) == (2, True)


def test_each_caller_has_a_rate_of_its_own_that_fills_up_again():
    now = [0.0]
    rates = Rates(2.0, lambda: now[0])
    for _ in range(2):
        rates.take("a")
    with pytest.raises(TooManyCalls) as caught:
        rates.take("a")
    assert caught.value.retry_after == 1
    rates.take("b")
    now[0] = 0.5
    rates.take("a")
    with pytest.raises(TooManyCalls):
        rates.take("a")
    now[0] = 100.0
    for _ in range(2):
        rates.take("a")
    with pytest.raises(TooManyCalls):
        rates.take("a")


def test_a_slow_rate_says_how_long_to_wait_and_no_rate_refuses_nothing():
    now = [0.0]
    rates = Rates(0.25, lambda: now[0])
    rates.take("a")
    with pytest.raises(TooManyCalls) as caught:
        rates.take("a")
    assert caught.value.retry_after == 4
    unlimited = Rates(0.0)
    for _ in range(10_000):
        unlimited.take("a")


def test_money_authorized_for_a_caller_is_limited_by_the_hour():
    now = [0.0]
    amounts = Amounts(3600.0, lambda: now[0])
    amounts.check("a")
    amounts.add("a", 3660)
    with pytest.raises(TooManyCalls, match="3600 minor units an hour") as caught:
        amounts.check("a")
    assert caught.value.retry_after == 61
    amounts.check("b")
    now[0] = caught.value.retry_after
    amounts.check("a")
    amounts.add("a", 0)
    now[0] += 10_000.0
    amounts.add("a", 3600)
    with pytest.raises(TooManyCalls):
        amounts.check("a")
    unlimited = Amounts(0.0)
    unlimited.add("a", 10**9)
    unlimited.check("a")
