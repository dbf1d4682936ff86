import numpy as np
import pytest

from shadowprice.currency import Currency
from shadowprice.evaluation import Estimate
from shadowprice.reports.wording import clipped, duration, estimate, incentives, listed, money, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-5, "−5"),
        (np.int64(1200), "1,200"),
        (0.83124, "0.8312"),
        (0.5, "0.5"),
        (10480.12, "10,480"),
        (-0.25, "−0.25"),
        (2.13e-12, "2.130e−12"),
        (-3e-13, "−3.000e−13"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (np.float32(0.25), "0.25"),
        ("0.67.0", "0.67.0"),
    ],
)
def test_numbers_are_written_for_reading(value, text):
    assert number(value) == text


def test_more_digits_keep_the_separators():
    assert number(10480.12, 6) == "10,480.1"


@pytest.mark.parametrize(("minor", "text"), [(123456, "$1,234.56"), (-5, "−$0.05"), (0, "$0.00"), (np.nan, "–")])
def test_money_is_written_in_major_units(minor, text):
    assert money(minor, Currency()) == text


@pytest.mark.parametrize("levels", [[20, 80, 100], [0, 100, 5000], [0]])
def test_incentives_are_never_in_cents_here_and_in_dollars_there(levels):
    amounts, unit = incentives(levels, Currency())
    assert unit == "dollars"
    assert (100 * amounts).tolist() == levels


def test_an_estimate_keeps_the_zeros_that_show_its_digits():
    assert estimate(Estimate(0.8, 0.7935, 0.8065), 3) == "0.800 [0.793, 0.806]"
    assert estimate(Estimate(12.0, 11.5, 12.5), 3) == "12.0 [11.5, 12.5]"
    assert estimate(Estimate(0.5, np.nan, np.nan), 3) == "0.500 [–, –]"
    assert estimate(0.0, 3) == "0"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0432, "43 ms"),
        (1.25, "1.2 s"),
        (96.4, "96 s"),
        (197.2, "3 min 17 s"),
        (9000, "2 h 30 min"),
        (400_000, "4 days"),
    ],
)
def test_durations_take_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


def test_a_long_name_is_cut_where_there_is_no_room():
    assert clipped("a\n b") == "a b"
    assert clipped("x" * 50, 10) == "x" * 9 + "…"


def test_shares_and_lists_read_as_in_a_sentence():
    assert percent(-0.0123) == "−1.2 %"
    assert percent(float("nan")) == "–"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
