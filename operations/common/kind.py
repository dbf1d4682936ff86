"""Kinds of data set by name. A new one is a class in :mod:`operations.kinds` and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shadowprice.errors import NotFound

CAMPAIGN, VOUCHERS, DELIVERY = "campaign", "vouchers", "delivery"
KINDS = {
    CAMPAIGN: "operations.kinds.campaign:CampaignKind",
    VOUCHERS: "operations.kinds.vouchers:VouchersKind",
    DELIVERY: "operations.kinds.delivery:DeliveryKind",
}
"""Kind → class, imported when a job needs it; see :class:`operations.kinds.base.Kind`."""


def find_kind(name: str) -> Any:
    """Return the :class:`operations.kinds.base.Kind` called ``name``, or raise :class:`NotFound`."""
    if name not in KINDS:
        raise NotFound(f"data set of kind {name!r} is unknown; choose one of {', '.join(KINDS)}")
    module, cls = KINDS[name].split(":")
    return getattr(import_module(module), cls)()
