"""Prices of a campaign, and the reason of each change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import NotFound, PriceRejected
from shadowprice.pacing.budgets.kept import KEPT, outcome_remarks, remark
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports.budgets import further_budgets
from shadowprice.reports.headline import return_sentence
from shadowprice.reports.run import certificate
from shadowprice.reports.wording import MISSING, number, percent

NOTABLE = 0.005
"""Relative difference of an input from which it is named as a reason."""


class PriceHistory:
    """Sound records of a campaign; each file is read once."""

    def __init__(self, store: PriceStore, campaign: str) -> None:
        self._store = store
        self._campaign = campaign
        self._known: dict[int, PriceRecord] = {}

    def records(self) -> list[PriceRecord]:
        """Sound records, the oldest first; damaged files are left out, and :meth:`faults` names them.

        Raises:
            Unavailable: the store cannot be read.
        """
        known: dict[int, PriceRecord] = {}
        for version in self._store.versions(self._campaign):
            try:
                known[version] = self._known.get(version) or self._store.read(self._campaign, version)
            except (PriceRejected, NotFound):
                continue
        self._known = known
        return list(known.values())

    def faults(self) -> list[str]:
        """Faults of the files that are newer than the newest sound record."""
        return self._store.unsound(self._campaign)


@dataclass(frozen=True)
class Change:
    """One published price, and what differed from the one before.

    price        λ of the budget, responses or major units of value per minor unit
    change       relative to the price before in the same window; None where there is none
    reasons      in words, at least one
    certificate  verdict by the limits of the campaign
    """

    record: PriceRecord
    price: float
    change: float | None
    reasons: tuple[str, ...]
    certificate: str


def price_of(campaign: Campaign, record: PriceRecord) -> float:
    """λ of the campaign's main budget, per minor unit; of a value in money as a person reads it."""
    return campaign.told_in * record.prices[campaign.priced[0]]


def changes(campaign: Campaign, records: Sequence[PriceRecord]) -> list[Change]:
    """Every record with the reasons of its change, in the order of ``records``."""
    rows = []
    for before, record in zip([None, *records], records, strict=False):
        price, last = price_of(campaign, record), None if before is None else price_of(campaign, before)
        relative = price / last - 1 if before is not None and last and record.window == before.window else None
        rows.append(Change(record, price, relative, reasons(campaign, before, record), certificate(campaign, record)))
    return rows


def reasons(campaign: Campaign, before: PriceRecord | None, record: PriceRecord) -> tuple[str, ...]:
    """Inputs of a solve that differ from those of the solve before, in words."""
    if before is None:
        return ("first price that is kept",)
    causes = [remark(record, campaign)] if record.status == KEPT else []
    if record.window != before.window:
        causes.append("a new window")
    if record.model_version != before.model_version:
        causes.append(f"new model {record.model_version}")
    if record.remaining <= 0:
        causes.append("the budget is used up")
    if abs(record.pacing_error) >= NOTABLE:
        more = "more" if record.pacing_error > 0 else "less"
        causes.append(f"{percent(abs(record.pacing_error))} {more} was paid than planned")
    traffic, earlier = record.requests + record.expected, before.requests + before.expected
    if record.window == before.window and earlier > 0 and abs(traffic / earlier - 1) >= NOTABLE:
        more = "more" if traffic > earlier else "fewer"
        causes.append(f"{percent(abs(traffic / earlier - 1))} {more} requests are expected in the window")
    if abs(record.spend_ratio / before.spend_ratio - 1) >= NOTABLE:
        ratio = number(record.spend_ratio, 3)
        causes.append(f"the spend per expected unit changed from {number(before.spend_ratio, 3)} to {ratio}")
    return tuple(causes) or ("solved again; the inputs are as planned",)


def day_page(campaign: Campaign, records: Sequence[PriceRecord]) -> str:
    """Return a page in Markdown: the newest price with its reasons and certificate, and the prices of its window.

    Args:
        campaign: of the records.
        records: in the order of their versions; the last one is the price that the page is about.
    """
    *_, newest = shown = changes(campaign, records)
    record = newest.record
    currency = Currency.of(campaign.currency)
    money, per_one = currency.write, f"per {currency.one}"
    paid = f"{money(record.spent)} of {money(record.spent + record.remaining)} are paid"
    planned = (
        f"{money(record.plan[0])} paid or held, and {money(record.plan[-1])} planned by the end" if record.plan else ""
    )
    lines = [
        f"# Campaign {campaign.name}: price version {record.version}",
        f"{_meaning(campaign, newest)}{_step(newest)}. It is {newest.certificate}.",
        f"Reasons: {'; '.join(newest.reasons)}.",
        f"{paid}{planned and f'; {planned}'}.",
        _table(
            ("figure", "value"),
            [
                ("model", record.model_version),
                ("share of ties", number(record.tie_share)),
                ("gap", number(record.gap)),
                ("violation", number(record.violation)),
                ("requests of the solve", number(record.sample_rows)),
                ("requests so far", number(record.requests)),
                ("requests expected", number(record.expected)),
            ],
        ),
        *_budgets(campaign, record, currency),
        *(f"- {remark}" for remark in outcome_remarks(record, campaign)),
        "## The window so far",
        _table(
            ("solved at (UTC)", "version", f"price {per_one}", "change", "paid", "off its plan", "reasons"),
            [
                (
                    f"{change.record.solved_at:%Y-%m-%d %H:%M}",
                    str(change.record.version),
                    number(currency.unit * change.price),
                    MISSING if change.change is None else percent(change.change),
                    money(change.record.spent),
                    percent(change.record.pacing_error),
                    "; ".join(change.reasons),
                )
                for change in shown
                if change.record.window == record.window
            ],
        ),
    ]
    return "\n\n".join(lines) + "\n"


def _budgets(campaign: Campaign, record: PriceRecord, currency: Currency) -> list[str]:
    """Table of the further budgets; nothing without one."""
    rows = [
        (
            budget.name,
            f"{'at least ' if budget.floor else ''}{budget.amount(budget.limit, currency)}{budget.each} in "
            f"{'each ' if budget.period != 'campaign' else 'the '}{budget.period}",
            budget.group.replace("|", "\\|"),
            budget.amount(budget.used, currency),
            budget.amount(budget.plan, currency),
            budget.priced(currency, campaign.told_in),
            percent(budget.error),
            budget.status,
        )
        for budget in further_budgets(campaign, record)
    ]
    names = (
        "budget",
        "limit",
        "group",
        "used",
        "planned by the end",
        f"price per {currency.one}",
        "off its plan",
        "status",
    )
    return ["## Further budgets", _table(names, rows)] if rows else []


def _meaning(campaign: Campaign, change: Change) -> str:
    if campaign.in_money:
        return return_sentence(campaign, price_of(campaign, change.record) / campaign.told_in)
    currency = Currency.of(campaign.currency)
    return f"The price is {number(currency.unit * change.price)} responses per {currency.one}"


def _step(change: Change) -> str:
    if not change.change:
        return ""
    return f", {percent(abs(change.change))} {'above' if change.change > 0 else 'below'} the price before"


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(names)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
