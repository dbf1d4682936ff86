"""Files of a list as e-mail and push tools import them: the columns of each tool, as data."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, NotFound


@dataclass(frozen=True)
class Template:
    """Columns of a tool's import, in order.

    columns  name in the file → column of the list
    source   page of the tool that describes the import
    terms    name of the column of an offer's terms, where offers have any
    by_mail  whether the tool finds people by their e-mail address, so that accounts must be named by it
    """

    columns: Mapping[str, str]
    source: str
    terms: str = "coupon_terms"
    by_mail: bool = False


_COUPON = {"coupon_code": "code", "coupon_offer": "offer_id"}
TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        "braze": Template(
            {"external_id": "account_id", **_COUPON},
            "https://www.braze.com/docs/user_guide/data/unification/user_data/import_users/csv/",
        ),
        "customerio": Template({"id": "account_id", **_COUPON}, "https://docs.customer.io/journeys/uploading-people"),
        "iterable": Template(
            {"userId": "account_id", "couponCode": "code", "couponOffer": "offer_id"},
            "https://support.iterable.com/hc/en-us/articles/115000770906-Importing-User-Lists-",
            terms="couponTerms",
        ),
        "klaviyo": Template(
            {"Email": "account_id", "Coupon Code": "code", "Coupon Offer": "offer_id"},
            "https://help.klaviyo.com/hc/en-us/articles/115005078967-How-to-create-and-add-subscribers-to-a-new-list",
            terms="Coupon Terms",
            by_mail=True,
        ),
        "mailchimp": Template(
            {"Email Address": "account_id", "Coupon Code": "code", "Coupon Offer": "offer_id"},
            "https://mailchimp.com/help/format-guidelines-for-your-import-file/",
            terms="Coupon Terms",
            by_mail=True,
        ),
        "onesignal": Template(
            {"external_id": "account_id", **_COUPON}, "https://documentation.onesignal.com/docs/import"
        ),
    }
)
"""Tools by name. A new one is an entry here."""


def terms_of(campaign: Campaign) -> dict[str, str]:
    """Return offer → its name with amount, least spend and validity; empty where no offer has more than an amount."""
    currency, sides = Currency.of(campaign.currency), campaign.sides.items()
    if not any(any(terms.percent) or any(terms.conditions(currency)) for _, terms in sides):
        return {}
    return {
        offer: name
        for side, terms in sides
        for offer, name in zip(campaign.offer_ids[side], terms.names(currency), strict=True)
    }


def as_import(rows: pa.Table, name: str, terms: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
    """Return the rows of a list that have a code, in the columns of a tool; ``terms`` are those of :func:`terms_of`.

    Example:
        >>> rows = pa.table({"account_id": ["ada", "bob"], "code": ["A1", ""], "offer_id": ["five", ""]})
        >>> as_import(rows, "braze").to_pylist()
        [{'external_id': 'ada', 'coupon_code': 'A1', 'coupon_offer': 'five'}]

    Raises:
        NotFound: there is no template of the name.
        InvalidInput: the tool finds people by e-mail address, and an account is named otherwise.
    """
    template = TEMPLATES.get(name)
    if template is None:
        raise NotFound(f"there is no template {name!r}; there are {', '.join(TEMPLATES)}")
    coded = rows.filter(pc.not_equal(rows["code"], ""))
    if template.by_mail:
        other = np.asarray(pc.invert(pc.match_substring(coded["account_id"], "@")).to_numpy(), dtype=np.bool_)
        reason = f"{name} finds people by e-mail address; name the accounts by it, or take another template"
        InvalidInput.refuse_rows(other, reason, field="account_id")
    written = pa.table({column: coded[own] for column, own in template.columns.items()})
    if not terms:
        return written
    shown = [terms.get(offer, "") for offer in coded["offer_id"].to_pylist()]
    return written.append_column(template.terms, pa.array(shown, pa.string()))
