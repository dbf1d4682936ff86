"""The verdict on a trial in a sentence that the owner of a budget understands."""

from collections.abc import Sequence

from shadowprice.currency import Currency
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import ERROR, LevelEvidence, SideEvidence

TIME = "x_time of the draw"
"""Column with the instant of the draw among the features whose means are compared."""
IMBALANCE = 0.001
"""p-value of the balance of a trial from which the accounts of its levels were not alike."""


def claim(found: SideEvidence, currency: Currency, confounders: Sequence[str] = (), *, fitted: bool = False) -> str:
    """Return the verdict, with what limits it.

    Args:
        found: evidence of a side.
        currency: of amounts.
        confounders: columns whose cells were held fixed; none where levels were drawn at random.
        fitted: whether rows are weighted by fitted propensities.
    """
    parts = [_cells(found, currency, confounders) if confounders else _drawn(found)]
    if fitted:
        parts.append(
            "Rows are weighted by fitted propensities: this holds if the features have every reason for a level."
        )
    if found.partial and not confounders:
        some = ", ".join(found.levels[j].written(currency) for j in found.partial)
        dropped = not any(found.levels[j].rows for j in found.partial)
        seen = "the requests differ, so they are not compared" if dropped else "those levels are seen on other requests"
        parts.append(f"A part of the requests had no chance of {some}: {seen}.")
    if found.balance is not None and found.balance.p_value < IMBALANCE and not found.unlike:
        parts.append(
            f"The accounts of the levels differed before the trial (most by {found.balance.worst}, "
            f"p = {found.balance.p_value:.1g}): look for a rule that chose them."
        )
    return " ".join(parts)


def figures(found: SideEvidence, currency: Currency) -> str:
    """Return the figures of the level that decides the verdict; empty where no levels are compared."""
    top, low = found.shown, found.lowest
    if not found.drawn or top.difference is None:
        return ""
    seen = (
        f"At {top.written(currency)} {_response(found, top)}, {_change(found, top.difference)} than the "
        f"{_value(found, low.response.value)} at {low.written(currency)}."
    )
    return f"{seen} {_each(top, currency)}" if found.verdict == "identified" else seen


def _drawn(found: SideEvidence) -> str:
    if found.balance is not None and found.unlike and found.balance.worst == TIME.removeprefix("x_"):
        return (
            "Not identified: the levels were drawn at other times (by "
            f"{abs(found.balance.difference):.2f} standard deviations), so the difference between levels may be that "
            "of the times. Give as the propensity the probability with which each row got its level at its time, or "
            "leave out the times at which a level was not drawn."
        )
    if not found.drawn:
        return (
            "Not identified: every request has a propensity of 1, so no level was drawn at random. The difference "
            "between levels may be the reason for which they were given."
        )
    if found.balance is not None and found.unlike:
        return (
            f"Not identified: the accounts of the levels differed before the trial (most by {found.balance.worst}, by "
            f"{abs(found.balance.difference):.2f} standard deviations), so the difference between levels may be "
            "theirs. Give as the propensity the probability with which each row got its level, or leave out the rows "
            "whose level was not drawn."
        )
    if found.shown.difference is None:
        return "Not identified: fewer than two levels have rows of two accounts."
    if found.verdict == "identified":
        rises = "the response rises with the incentive" if found.ordered else "an offer raises the response"
        return f"Identified: {rises}."
    if found.verdict == "wrong way":
        falls = "the response falls with the incentive" if found.ordered else "an offer lowers the response"
        return f"The wrong way: {falls}."
    sentence = "Not identified: the log does not show that the incentive raises the response. "
    return f"{sentence}{_chance(found.shown)}".rstrip()


def _cells(found: SideEvidence, currency: Currency, confounders: Sequence[str]) -> str:
    held = f"Levels were not drawn at random; {', '.join(confounders)} are held fixed."
    if found.slope is None:
        return f"Not identified: no group of alike requests was given two levels. {held}"
    low, high = currency.unit * found.slope.low, currency.unit * found.slope.high
    gained = f"{currency.symbol}1 more changes the response by {low:.3g} to {high:.3g} (95 % interval).".replace(
        "-", "−"
    )
    start = {
        "identified": "Identified: the response rises with the incentive.",
        "wrong way": "The wrong way: the response falls with the incentive.",
        "not identified": "Not identified: the log does not show that the incentive raises the response.",
    }[found.verdict]
    return f"{start} {gained} {held}"


def _response(found: SideEvidence, level: LevelEvidence) -> str:
    value = _value(found, level.response.value)
    return f"{value} responded" if found.side == "customer" else f"shares were {value} times those before"


def _value(found: SideEvidence, value: float) -> str:
    """A mean response: a share of the customers, or a merchant's ratio."""
    if found.side != "customer":
        return f"{value:.3g}"
    return f"{100 * value:.{found.decimals}f} %"


def _change(found: SideEvidence, difference: Estimate) -> str:
    """A difference of responses with its interval."""
    word = "less" if difference.value < 0 else "more"
    if found.side != "customer":
        parts = f"{abs(difference.value):.3g} {word}", f"{difference.low:.3g} to {difference.high:.3g}"
    else:
        low, high = (f"{100 * bound:.{found.decimals}f}" for bound in (difference.low, difference.high))
        parts = f"{100 * abs(difference.value):.{found.decimals}f} points {word}", f"{low} to {high} points"
    return f"{parts[0]} (95 % interval {parts[1]})".replace("-", "−")


def _each(top: LevelEvidence, currency: Currency) -> str:
    if top.cost_each is None:
        return f"The cost of one extra response has no interval: {top.why_no_cost}."
    low, high = currency.write(top.cost_each.low), currency.write(top.cost_each.high)
    return f"One extra response there costs {currency.write(top.cost_each.value)} ({low} to {high})."


def _chance(top: LevelEvidence) -> str:
    """Remark on an interval that leaves 0 out although the verdict does not follow it."""
    if top.difference is not None and (top.difference.low > 0 or top.difference.high < 0):
        return "With several levels, one interval without 0 may be chance."
    return "" if top.p_value is None or top.p_value >= ERROR else "The other levels do not agree."
