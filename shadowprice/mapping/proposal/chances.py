"""Guess about the column that holds the probability with which each offer of a trial was drawn."""

import math
from collections import defaultdict
from collections.abc import Sequence

import duckdb

from shadowprice.mapping.proposal.guesses import EVEN, Proposed, drawn, hinted
from shadowprice.mapping.proposal.profile import Cells, Profile
from shadowprice.mapping.sources import table_of


def chance(
    db: duckdb.DuckDBPyConnection, trials: Profile, offers: Cells | None, free: Sequence[Cells]
) -> Proposed | None:
    """Return the probability of each offer: a column of them, else the share of each offer in the rows.

    Args:
        db: with the rows of the trials.
        trials: the offers that were made.
        offers: column of the offer or of its value; None where there is none.
        free: columns that nothing is known of.

    A column has probabilities by its name, or where the inverses of its numbers add up to the number of rows at each
    offer, within :data:`EVEN` standard errors.
    """
    numbers = [cells for cells in free if cells.kind == "number"]
    named = [cells for cells in numbers if hinted(cells, "propensity")]
    if named:
        return Proposed(own=named[0].name, reason="probability with which this value was drawn")
    if offers is None:
        return None
    found = next((cells for cells in numbers if _adds_up(db, trials, offers, cells)), None)
    if found is None:
        return drawn(offers)
    return Proposed(own=found.name, reason="the probability of each row? it fits the shares of the offers", check=True)


def drawn_by(
    db: duckdb.DuckDBPyConnection, trials: Profile, offers: Cells, account: str, free: Sequence[Cells]
) -> Proposed | None:
    """Return the column by which offers were drawn: all rows with the same value have one offer.

    Its values are more than the offers, and each account has one of them; there are at least twice as many accounts.
    """
    own, offer = trials.sql(account), trials.sql(offers.name)
    for cells in free:
        if cells.unique or not cells.full or not (cells.kind == "text" or cells.whole):
            continue
        value = trials.sql(cells.name)
        query = f"""SELECT count(DISTINCT {value}), count(DISTINCT ({value}, {offer})), count(DISTINCT {own}),
            count(DISTINCT ({own}, {value})) FROM {table_of(trials.source)}"""
        ((values, pairs, accounts, once),) = db.execute(query).fetchall()
        if len(offers.values) < values == pairs and 2 * values <= accounts == once:
            reason = "all rows with the same value have one offer: intervals then count these and not accounts"
            return Proposed(own=cells.name, reason=reason, check=True)
    return None


def _adds_up(db: duckdb.DuckDBPyConnection, trials: Profile, offers: Cells, cells: Cells) -> bool:
    """Return whether the inverses of a column add up to the number of rows at each offer."""
    if len(cells.values) < 2 or not all(0 < trials.number(value) < 1 for value in cells.values):
        return False
    columns = f"{trials.sql(offers.name)}, {trials.sql(cells.name)}"
    counted = db.execute(f"SELECT {columns}, count(*) FROM {table_of(trials.source)} GROUP BY ALL").fetchall()
    total, variance = defaultdict[str, float](float), defaultdict[str, float](float)
    for offer, value, rows in counted:
        weight = 1 / (trials.number(value or "") or math.inf)
        total[offer] += rows * weight
        variance[offer] += rows * weight * (weight - 1)
    every = sum(rows for *_, rows in counted)
    return all(abs(total[offer] - every) <= EVEN * math.sqrt(max(variance[offer], 0.0)) for offer in total)
