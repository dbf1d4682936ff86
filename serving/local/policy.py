"""Flat policy of a run in words: what everybody is given, and why it is served."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from operations.common.workspace import MODEL, PRICES, REPORT, instead_of, read_campaign
from shadowprice.campaign import FLAT, Campaign, Side
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import NotFound
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.price_store import PriceStore
from shadowprice.policy import flat_shares
from shadowprice.reports.wording import listed, percent
from shadowprice.responses.layers.heads import curves_of, load_heads


def policy_in_words(run: Path) -> list[str]:
    """Return lines about the policy of a run: none where each account has a curve of its own.

    Raises:
        NotFound: the run has no model.
    """
    if not (run / MODEL).exists():
        page = run / REPORT
        mend = f"read {page}, and name another run" if page.exists() else "`shadowprice run --resume` goes on with it"
        raise NotFound(f"{run} has no model to serve; {mend}")
    version = str(read_meta((run / MODEL).resolve())["model_version"])
    if read_meta((run / MODEL).resolve()).get("recipe") != FLAT:
        return []
    refused = instead_of(run, version)
    why = "the policy of the campaign is flat"
    if refused is not None:
        why = f"the flat policy is served, because the gate refused model {refused['model_version']}: {run / REPORT}"
    return [why, f"whoever asks, the price gives {shares_in_words(run)}"]


def shares_in_words(run: Path) -> str:
    """Return the chances of each level at the newest price of a flat policy, in words."""
    campaign = read_campaign(run)
    price = PriceStore(run / PRICES).latest(campaign.name, verified_only=True)
    if price is None:
        raise NotFound(f"campaign {campaign.name!r} has no price in {run / PRICES}; run `shadowprice resolve`")
    heads = load_heads((run / MODEL).resolve())
    curves = {side: curves_of(head, head.default_embedding[None]) for side, head in heads.items()}
    shares = flat_shares(campaign, curves, price.of(campaign.priced), price.tie_share)
    currency = Currency.of(campaign.currency)
    return "; ".join(_of_side(campaign, curves[side], side, share, currency) for side, share in shares.items())


def _of_side(campaign: Campaign, curve: Curves, side: Side, share: NDArray[np.float64], currency: Currency) -> str:
    names, levels = campaign.terms(side).names(currency), np.flatnonzero(share)
    if levels.size == 1:
        why = "" if np.ptp(curve.response) else ", because no other level has an effect that the log shows"
        return f"every {side} {names[levels[0]]}{why}"
    return f"{side}s " + listed(f"{names[level]} {percent(share[level])}" for level in levels)
