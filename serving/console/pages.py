"""Templates of the console; style, tables and the writing of figures are those of the report."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from shadowprice import reports
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.reports import wording
from shadowprice.reports.headline import unordered
from shadowprice.reports.report import per_major

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of every page: no script, nothing from elsewhere, no frame around it, no copy in a cache."""


def environment(currency: Currency, campaign: Campaign) -> Environment:
    """Return the environment of the templates, which escapes every value."""
    pages = Environment(
        loader=FileSystemLoader([Path(__file__).parent / "templates", *reports.__path__]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "number": wording.number,
        "percent": wording.percent,
        "duration": wording.duration,
        "money": lambda minor: wording.MISSING if minor is None else wording.money(minor, currency),
        "moment": moment,
        "estimate": wording.estimate,
        "per_major": lambda found: per_major(found, currency.unit),
    }
    names = {side: terms.names(currency) for side, terms in campaign.sides.items()}

    def offered(decision: Mapping[str, Any]) -> str:
        """Return the name of a decision's level; its amount where the campaign does not have the level."""
        known = dict(enumerate(names.get(decision["side"], ())))
        return known.get(decision["level"], wording.money(decision["incentive"], currency))

    pages.globals |= {
        "currency": currency,
        "level_names": names,
        "offered": offered,
        "unordered": unordered(campaign),
    }
    return pages


def moment(at: datetime | None) -> str:
    """Return a time in UTC, to the second; a dash where there is none.

    >>> from datetime import UTC
    >>> moment(datetime(2026, 3, 1, 12, 5, tzinfo=UTC))
    '2026-03-01 12:05:00 UTC'
    """
    return wording.MISSING if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
