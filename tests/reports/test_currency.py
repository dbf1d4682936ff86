"""Amounts in currencies whose minor unit is not a hundredth."""

import dataclasses
import doctest

import numpy as np
import pytest

from shadowprice import currency
from shadowprice.currency import Currency
from shadowprice.reports.report import render
from shadowprice.reports.wording import incentives, money


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(currency).failed == 0


@pytest.mark.parametrize(
    ("code", "minor", "shown"),
    [
        ("USD", 123456, "$1,234.56"),
        ("JPY", 123456, "¥123,456"),
        ("KRW", 123456, "KRW 123,456"),
        ("KWD", 123456, "KWD 123.456"),
        ("CHF", -5, "−CHF 0.05"),
        ("CLF", 123456, "CLF 12.3456"),
    ],
)
def test_an_amount_has_the_decimals_of_its_currency(code: str, minor: int, shown: str) -> None:
    assert money(minor, Currency.of(code)) == shown


def test_levels_are_told_in_major_units() -> None:
    amounts, unit = incentives([100, 500], Currency.of("JPY"))
    assert (amounts.tolist(), unit) == ([100, 500], "yen")
    amounts, unit = incentives([1000, 5000], Currency.of("KWD"))
    assert (amounts.tolist(), unit) == ([1, 5], "KWD")
    assert incentives([100, 500], Currency.of("KWD"))[0].tolist() == [0.1, 0.5]


def test_a_report_in_yen_has_no_decimals_and_its_price_is_per_yen(example) -> None:
    run = example.scenarios[0]
    level = dataclasses.replace(run.policies[0], price=np.full(24, 0.004))
    yen = dataclasses.replace(
        example,
        currency=Currency.of("JPY"),
        scenarios=(dataclasses.replace(run, policies=(level, *run.policies[1:])),),
    )
    page = render(yen)
    assert "¥499,100" in page
    assert "0.004 redemptions or 0.008 shares" in page
    assert "$" not in page.replace("$(", "")
