"""Faults of tables that only all rows together show: shares that the propensities rule out, and rows that are lost."""

from collections.abc import Collection, Sequence

import numpy as np

from shadowprice.campaign import Campaign, Side
from shadowprice.currency import Currency
from shadowprice.datasets.split import Split
from shadowprice.evaluation.uplift.shares import CHANCE, ROUNDED, Shares, shares
from shadowprice.evidence.dropped import LIMIT, Dropped, drawn_only, dropped, refuse_dropped
from shadowprice.evidence.rows import read_rows
from shadowprice.evidence.sizes import check_sizes
from shadowprice.tables import Tables
from shadowprice.tables.problems import Problems


def refuse_faults(
    tables: Tables,
    campaign: Campaign,
    currency: Currency,
    split: Split | None = None,
    confounders: Collection[str] = (),
) -> tuple[Tables, Dropped]:
    """Refuse tables from which a model would learn little, or something wrong.

    Args:
        tables: checked.
        campaign: with the levels of the sides.
        currency: of the messages.
        split: that training will use.
        confounders: sides whose levels were not drawn at random; their propensities are not compared with the shares.

    Returns:
        The tables, less the outcomes of a few offers that were not drawn
        (:func:`~shadowprice.evidence.dropped.drawn_only`), and rows that are learned from and rows that are not.

    Raises:
        InvalidTable: the propensities of a side cannot have led to the shares of its levels; or more than
            :data:`~shadowprice.evidence.dropped.LIMIT` of the offers have a propensity of 1 beside drawn ones, or of
            the offers or ties would be lost for one reason.
        InvalidProblem: see :func:`~shadowprice.evidence.sizes.check_sizes`.

    O(n log n) in the rows of the tables.
    """
    problems = Problems()
    check_sizes(tables, campaign)
    drawn = []
    for side, terms in campaign.sides.items():
        if terms.segments or len(terms.levels) < 2 or side in confounders:
            continue
        drawn.append(side)
        read = read_rows(tables, side)
        if read.level.size:
            ratio = shares(read.level, read.propensity, len(terms.levels), read.account)
            if ratio.p_value is not None and ratio.p_value < CHANCE:
                problems.add("exposure", "propensity", _mismatch(side, terms.names(currency), ratio, read.level.size))
            certain = int(np.count_nonzero(read.propensity >= 1))
            if ratio.drawn and certain > LIMIT * read.level.size:
                problems.add("exposure", "propensity", _certain(side, certain, read.level.size))
    tables = drawn_only(tables, drawn)
    counted = dropped(tables, split)
    refuse_dropped(counted, problems)
    problems.refuse()
    return tables, counted


def _mismatch(side: Side, names: Sequence[str], found: Shares, rows: int) -> str:
    total = float(np.nansum(found.planned))
    mend = "give the probability with which each offer was drawn, or 1 in every row if levels were not drawn at random"
    if found.uniform and abs(total - 1) > ROUNDED and np.isfinite(found.planned).all():
        return f"of the levels of {side}s add up to {total:.4g}, not to 1: {mend}"
    error = np.sqrt(found.planned * (1 - found.planned) / rows)
    worst = int(np.nanargmax(np.abs(found.found - found.planned) / np.where(error > 0, error, np.inf)))
    return (
        f"cannot have led to the shares found: {names[worst]} was planned for "
        f"{found.planned[worst]:.1%} of the offers of {side}s and stands in {found.found[worst]:.1%} of {rows:,} "
        f"(chi-square, p = {found.p_value:.1g}): {mend}"
    )


def _certain(side: Side, certain: int, rows: int) -> str:
    return (
        f"is 1 in {certain:,} of {rows:,} offers of {side}s ({certain / rows:.1%}), and below 1 in the others: rows "
        "whose level was not drawn do not show its effect, and a model would learn from them as from a trial; "
        "leave them out, in a mapping with `where`"
    )
