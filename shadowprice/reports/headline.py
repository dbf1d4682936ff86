"""The headline about the worth of personalizing, and other sentences of the report."""

from dataclasses import dataclass

import numpy as np

from shadowprice.arms import WHOLE
from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.curves import AMOUNT
from shadowprice.evaluation.policy.worth import Worth, WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.reports.data import ReportData, SideReport
from shadowprice.reports.wording import (
    LOWEST,
    interval,
    listed,
    money,
    number,
    percent,
    rounded,
    signed,
)

FLAT = "the best flat mixture at the same cost"
UNITS: dict[Side, str] = {"customer": "redemptions", "merchant": "shares"}
"""Unit of the responses of a side; shares are counted in multiples of those in the period before."""
ONE: dict[Side, str] = {"customer": "redemption", "merchant": "share"}
EACH = {"total": "", "per_account": " per request", "per_response": " per response"}
"""Form of a budget → what its limit is of."""


@dataclass(frozen=True)
class Tile:
    """One number of the headline; ``share`` draws a meter that is full at 1."""

    name: str
    figure: str
    aside: str
    share: float | None = None


@dataclass(frozen=True)
class Headline:
    """A sentence and tiles."""

    sentence: str
    tiles: tuple[Tile, ...]
    simulated: bool


def headline(data: ReportData) -> Headline | None:
    """Return the worth of personalizing at the campaign's budget; None where nothing is claimed."""
    data = data.told()
    if data.worth is None or "worth" in data.absent:
        return None
    now, unit = data.worth.at(1.0), value_unit(data)
    paid = data.campaign is not None and data.campaign.in_money
    one = f"{data.currency.one} of {data.campaign.earned}" if data.campaign is not None and paid else "response"
    tiles = _tiles(data.worth, now, (unit, one), data.currency, lowest(data.campaign))
    return Headline(worth_sentence(data), tuple(tiles), data.simulated)


def worth_sentence(data: ReportData) -> str:
    """Worth of personalizing in words; empty where nothing is claimed."""
    if data.worth is None or "worth" in data.absent:
        return ""
    now = data.worth.at(1.0)
    period = "" if data.campaign is None else EACH[data.campaign.budget.form]
    sentence = f"With the campaign's budget of {money(now.budget, data.currency)}{period}, "
    if _same(now.lowest):
        return f"{sentence}every account gets {lowest(data.campaign)}: the budget does not pay for more."
    sentence += f"{over_lowest(data, now)}. {over_flat(data, now)}"
    if data.campaign is not None and data.campaign.budget.form == "total" and now.cost.low > now.budget:
        cost = f"{money(now.cost.value, data.currency)} {_bounds(now.cost, data.currency)}"
        sentence += f" They cost {cost}, more than the budget: the curves expect too little."
    rows, accounts = sum(data.worth.rows.values()), sum(data.worth.accounts.values())
    return (
        f"{sentence} In brackets are 95 % intervals, from {number(rows)} rows of {number(accounts)} accounts that no "
        "model had learned from."
    )


def over_lowest(data: ReportData, at: WorthAt) -> str:
    """Difference to the lowest level for every request at a budget, with the reason where it is a loss."""
    wrong = any(trial.verdict == "wrong way" for trial in data.evidence)
    why = "the trial shows fewer where more is offered" if wrong else "its curves expect a gain that these rows lack"
    return _more(at.lowest, value_unit(data), f"{lowest(data.campaign)} for every request", why)


def over_flat(data: ReportData, at: WorthAt) -> str:
    """Difference to the best flat mixture at a budget as a sentence of its own, after :func:`over_lowest`."""
    if _same(at.flat):
        return f"So does {FLAT}."
    if at.flat.low > 0:
        return f"That is {rounded(at.flat.value)} more {interval(at.flat)} than {FLAT}."
    sentence = _more(at.flat, value_unit(data), FLAT, "the accounts that it prefers gain less than others")
    return f"{sentence[0].upper()}{sentence[1:]}."


def value_unit(data: ReportData) -> str:
    """Unit of the value: money, or that of the side where there is one, or the sum of the sides by their weights."""
    return unit_of(data.campaign, data.currency, data.value_unit)


def unit_of(campaign: Campaign | None, currency: Currency, responses: str = "responses") -> str:
    """Unit of a campaign's value as a person reads it, in the plural."""
    if campaign is not None and campaign.in_money:
        return f"{currency.major} of {campaign.earned}"
    sides = list(campaign.sides) if campaign is not None else []
    return UNITS[sides[0]] if len(sides) == 1 else f"weighted {responses}"


def return_sentence(campaign: Campaign, price: float) -> str:
    """Meaning of a price in money: the return of the last unit.

    >>> from datetime import UTC, datetime
    >>> from shadowprice.campaign import Budget, Terms
    >>> sides = {"customer": Terms(levels=(0, 60), weight=400.0)}
    >>> start = datetime(2026, 1, 1, tzinfo=UTC)
    >>> campaign = Campaign(name="a", sides=sides, budget=Budget(limit=9), starts_at=start, objective="margin")
    >>> return_sentence(campaign, 1.35)
    'The last $1 returns $1.35 of margin'
    """
    currency = Currency.of(campaign.currency)
    return f"The last {currency.one} returns {money(currency.unit * price, currency)} of {campaign.earned}"


def weights_in_words(campaign: Campaign | None) -> str:
    """Unit of the value of two sides as a sentence; empty of one side."""
    sides = {} if campaign is None or campaign.in_money else campaign.sides
    if len(sides) < 2:
        return ""
    units = (
        f"{number(1 / terms.weight, 3)} {ONE[side] if terms.weight == 1 else UNITS[side]}"
        for side, terms in sides.items()
    )
    return f"A weighted response is worth {' or '.join(units)}; shares are counted in multiples of those before."


def _more(found: Estimate, unit: str, other: str, why: str) -> str:
    if found.low > 0:
        return f"personal incentives bring {rounded(found.value)} more {unit} {interval(found)} than {other}"
    if found.high < 0:
        fewer = f"{rounded(-found.value)} fewer {unit} {interval(found)}"
        return f"personal incentives bring {fewer} than {other}: {why}"
    doubt = f"it is not shown that personal incentives bring more {unit} than {other}"
    return f"{doubt}: the difference of {signed(found.value)} {interval(found)} may be chance"


def _same(found: Estimate) -> bool:
    """Return whether a difference is nothing: both policies decide alike."""
    return found.low == found.high == 0


def _tiles(worth: Worth, now: WorthAt, units: tuple[str, str], currency: Currency, least: str) -> list[Tile]:
    tiles, (unit, one) = list[Tile](), units
    if np.isfinite(now.true_lowest):
        aside = f"over {least}; {signed(now.true_flat)} over {FLAT}"
        tiles.append(Tile("In truth", signed(now.true_lowest), aside))
    if now.lowest.low > 0 and now.each is not None:
        bounds = f"95 % interval {_bounds(now.each, currency)}"
        tiles.append(Tile(f"Cost per extra {one}", money(now.each.value, currency), bounds))
    kept = f"95 % interval {_bounds(now.cost, currency)}; a new price every hour keeps to the budget"
    tiles.append(Tile("Expected cost", money(now.cost.value, currency), kept))
    span = f"{percent(worth.points[0].share, 0)} to {percent(worth.points[-1].share, 0)}"
    aside = f"{unit} over flat mixtures, 95 % interval {interval(worth.flat)}"
    return [*tiles, Tile(f"Mean over budgets, {span}", signed(worth.flat.value), aside)]


def _bounds(found: Estimate, currency: Currency) -> str:
    return f"[{money(found.low, currency)}, {money(found.high, currency)}]"


def lowest(campaign: Campaign | None) -> str:
    """Name of the level that gains are counted from; where levels are offers without an amount, that of the control."""
    if campaign is None or not any(terms.amounts for terms in campaign.sides.values()):
        return LOWEST
    return listed(terms.names(Currency.of(campaign.currency))[0] for terms in campaign.sides.values())


def unordered(campaign: Campaign | None) -> tuple[Side, ...]:
    """Sides whose levels have no order."""
    return () if campaign is None else tuple(side for side, terms in campaign.sides.items() if not terms.ordered)


def campaign_facts(campaign: Campaign, currency: Currency) -> dict[str, str]:
    """Dates, budget, levels and terms of a campaign, label → text."""
    budget, limit = campaign.budget, money(campaign.budget.limit, currency)
    forms = {"total": "in all", "per_account": "per request at most", "per_response": "per response at most"}
    facts = {
        "Name": campaign.name,
        "Starts": f"{campaign.starts_at:%Y-%m-%d %H:%M} UTC",
        "Ends": f"{campaign.ends_at:%Y-%m-%d %H:%M} UTC, {campaign.hours} hours",
        f"Budget {budget.name}": f"{limit} {forms[budget.form]}",
    }
    if campaign.late_reserve:
        facts["Set aside for late redemptions"] = money(campaign.late_reserve, currency)
    for side, terms in campaign.sides.items():
        paid = "when the account responds" if terms.cost_basis == "on_response" else "for certain"
        names, costs = terms.names(currency), (money(cost, currency) for cost in terms.unit_costs)
        if terms.amounts or terms.costs:
            parts = terms.percent or (None,) * len(names)
            told = zip(names, costs, parts, strict=True)
            names = tuple(f"{name} (costs {cost})" if part is None else name for name, cost, part in told)
        facts[f"{'Offers' if terms.amounts else 'Incentives'} of {side}s"] = listed(names)
        facts[f"Paid to {side}s"] = paid + (f", for {terms.most_units} units at most" if terms.most_units > 1 else "")
        if terms.worth:
            share = "" if terms.weight == 1 else f"{number(terms.weight)} times "
            own = "its expected amount" if terms.worth == AMOUNT else f"each account's {terms.worth}"
            if side == "customer" and campaign.long_term is not None:
                own = f"what it adds to {campaign.long_term.late}, predicted by a surrogate index"
            facts[f"Worth of one {ONE[side]}"] = share + own
        elif campaign.in_money:
            facts[f"Worth of one {ONE[side]}"] = money(terms.weight, currency)
        elif terms.weight != 1:
            facts[f"Worth of one {ONE[side]}"] = number(terms.weight)
    if campaign.in_money:
        facts["Maximizes"] = campaign.earned
    if campaign.least_return:
        one, least = currency.one, money(currency.unit * campaign.least_return, currency)
        facts["Spends while"] = f"the last {one} returns {least} of {campaign.earned}; the rest stays unspent"
    if campaign.policy == "flat":
        facts["Policy"] = "flat: the same chances for every account of a side"
    if campaign.holdout is not None:
        facts["Held out of all campaigns"] = f"{percent(campaign.holdout.share / WHOLE)} of the accounts"
    return facts | {
        "Requests that explore": percent(campaign.exploration),
        "Price is set by": f"pacer {campaign.pacer}",
        "A price is published with": f"gap ≤ {campaign.gap_limit:g}, violation ≤ {campaign.violation_limit:g}",
    }


def change_sentence(side: SideReport, currency: Currency) -> str:
    """Changes of the hazard rate of a side, in words."""
    hazard = side.hazard
    if hazard is None:
        return ""
    if hazard.at.size == 0:
        return "The hazard rate shows no change point: one rate fits all incentives."
    edges = hazard.segments.edges
    rates = hazard.segments.hazard
    turns = [
        f"{money(at, currency)} (rate {_times(before, after)})"
        for at, before, after in zip(edges[1:-1], rates[:-1], rates[1:], strict=True)
    ]
    noun = "a change point" if len(turns) == 1 else f"{len(turns)} change points"
    return f"The hazard rate shows {noun}: {listed(turns)}."


def _times(before: float, after: float) -> str:
    return f"×{number(after / before, 2)}" if before > 0 else "from zero"
