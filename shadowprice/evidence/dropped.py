"""Rows of the tables that no model learns from, counted before anything is learned."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pandas as pd

from shadowprice.campaign import SIDES, Side
from shadowprice.datasets.split import Split
from shadowprice.graphs.build import snapshot_times
from shadowprice.tables import Tables
from shadowprice.tables.database import ROW, instant
from shadowprice.tables.problems import Problems

LIMIT = 0.05
"""Share of the offers of a side, or of the ties, that may be lost for one reason; beyond it the tables are refused."""


@dataclass(frozen=True)
class SideRows:
    """Offers of one side and how many of them a model learns from.

    offers      rows of the exposure table
    waiting     without a final outcome: newer than the last one that has one, or not mature
    no_outcome  without any outcome, although later offers have one
    not_drawn   with a propensity of 1 beside drawn ones (:func:`drawn_only`)
    no_profile  whose account has no profile by the snapshot of the graph that the request sees
    purged      labels known only after the test begins, which the split leaves out
    learned     offers that remain: they train, validate or test
    """

    offers: int
    waiting: int
    no_outcome: int
    not_drawn: int
    no_profile: int
    purged: int
    learned: int


@dataclass(frozen=True)
class Dropped:
    """Rows that are learned from and rows that are not.

    sides       side → its offers
    ties        rows of the edge table
    early_ties  whose accounts have no profile by the first snapshot after the tie
    late_ties   after the last snapshot: no request sees them
    """

    sides: Mapping[Side, SideRows]
    ties: int
    early_ties: int
    late_ties: int

    def facts(self) -> dict[str, dict[str, int]]:
        """Group → label → number, as the report shows them; reasons without rows are left out."""
        rows_of = {}
        for side, rows in self.sides.items():
            counts = {
                "offers": rows.offers,
                "still without a final outcome": rows.waiting,
                "dropped, no outcome": rows.no_outcome,
                "dropped, the level was not drawn": rows.not_drawn,
                "dropped, no profile at the time": rows.no_profile,
                "left out by the split (purge)": rows.purged,
                "learned from and judged on": rows.learned,
            }
            kept = ("offers", "learned from and judged on")
            rows_of[f"rows of {side}s"] = {name: rows for name, rows in counts.items() if rows or name in kept}
        ties = {"dropped, no profile at the time": self.early_ties, "after the last profile": self.late_ties}
        if any(ties.values()):
            rows_of["rows of ties"] = {"ties": self.ties} | {name: rows for name, rows in ties.items() if rows}
        return rows_of


def drawn_only(tables: Tables, sides: Collection[Side]) -> Tables:
    """Return the tables without the outcomes of offers with a propensity of 1 beside drawn ones, of some sides.

    What chose such a level may move the response too. The offers stay, since they are requests of their accounts. A
    served log keeps its outcomes: a policy reads features that the model reads as well, and arms are drawn.
    """
    with tables.connect() as db:
        names = ", ".join(f"'{side}'" for side in sides)
        chosen = db.sql(f"""
            SELECT request_id FROM exposure WHERE propensity >= 1 AND side IN (
                SELECT side FROM exposure WHERE side IN ({names or "''"}) GROUP BY side HAVING min(propensity) < 1
            )""").fetchnumpy()["request_id"]
    if not len(chosen):
        return tables
    kept = [part[~part["request_id"].isin(chosen)] for part in tables.parts("outcome")]
    return tables.replaced(outcome=pd.concat(kept, ignore_index=True))


def dropped(tables: Tables, split: Split | None = None) -> Dropped:
    """Count the rows that featurize and training will leave out. O(n log n) in the rows of the tables.

    Args:
        tables: checked.
        split: that training will use; None: one that purges nothing.
    """
    times = snapshot_times(tables)
    seen = "CASE " + " ".join(f"WHEN decided_at >= {instant(at)} THEN {instant(at)}" for at in times[::-1]) + " END"
    follows = "CASE " + " ".join(f"WHEN ts <= {instant(at)} THEN {instant(at)}" for at in times) + " END"
    with tables.connect() as db:
        db.execute(f"""CREATE TEMP TABLE judged AS
            SELECT e.{ROW}, e.side, {_reason(split)} AS reason
            FROM (SELECT *, {seen} AS seen FROM exposure) AS e
            LEFT JOIN (SELECT request_id, mature FROM outcome) AS u USING (request_id)
            LEFT JOIN ({_first()}) AS p ON p.account_id = e.account_id AND p.side = e.side
            LEFT JOIN (
                SELECT side, max(decided_at) AS last, min(propensity) AS least
                FROM exposure JOIN outcome USING (request_id) WHERE mature
                GROUP BY side
            ) AS l ON l.side = e.side""")
        counts = db.sql("SELECT side, reason, count(*) FROM judged GROUP BY ALL").fetchall()
        ties, early, late = db.sql(f"""
            SELECT count(*), count(*) FILTER (greatest(s.first, d.first) > seen), count(*) FILTER (seen IS NULL)
            FROM (SELECT *, {follows} AS seen FROM edge) AS e
            LEFT JOIN ({_first()}) AS s ON s.account_id = e.src AND s.side = 'customer'
            LEFT JOIN ({_first()}) AS d ON d.account_id = e.dst AND d.side = 'merchant'""").fetchall()[0]
    of = {(side, reason): rows for side, reason, rows in counts}
    sides: dict[Side, SideRows] = {}
    for side in SIDES:
        offers = sum(rows for (own, _), rows in of.items() if own == side)
        reasons = {
            name: of.get((side, name), 0) for name in ("waiting", "no_outcome", "not_drawn", "no_profile", "purged")
        }
        if offers:
            sides[side] = SideRows(offers=offers, **reasons, learned=offers - sum(reasons.values()))
    return Dropped(sides, ties, early, late)


def refuse_dropped(found: Dropped, problems: Problems) -> None:
    """Add a fault for each reason for which more than :data:`LIMIT` of the rows, or every tie, would be lost."""
    for side, rows in found.sides.items():
        for table, column, count, reason in (
            (
                "outcome",
                "request_id",
                rows.no_outcome,
                "have none although later offers have one: add the outcome of every offer, also of those without a "
                "response",
            ),
            (
                "account",
                "snapshot_ts",
                rows.no_profile,
                "see no profile of their account, which came later, and nothing would be learned from them: give the "
                "accounts a profile from before the first offer",
            ),
        ):
            if count > LIMIT * rows.offers:
                share = f"{count:,} of {rows.offers:,} offers of {side}s ({count / rows.offers:.1%})"
                problems.add(table, column, f"{share} {reason}")
    if found.ties and found.late_ties == found.ties:
        reason = (
            "are after the last profile of an account, and no request sees them: give the accounts a profile from "
            "after the ties and before the first offer"
        )
        problems.add("edge", "ts", f"all {found.ties:,} ties {reason}")
    if found.early_ties > LIMIT * found.ties:
        share = f"{found.early_ties:,} of {found.ties:,} ties ({found.early_ties / found.ties:.1%})"
        reason = "are older than the profile of an account at their end: give the accounts a profile from before them"
        problems.add("edge", "ts", f"{share} {reason}")


def _first() -> str:
    return "SELECT account_id, side, min(snapshot_ts) AS first FROM account GROUP BY account_id, side"


def _reason(split: Split | None) -> str:
    """Return the SQL of the reason why an offer is not learned from; NULL for the others."""
    purged = ""
    if split is not None and split.purge and split.validation_from is not None and split.test_from is not None:
        delay = round(split.label_delay_days * 86_400_000_000)
        purged = f"""WHEN decided_at < {instant(split.validation_from)}
            AND decided_at + to_microseconds({delay}) > {instant(split.test_from)} THEN 'purged'"""
    return f"""CASE
        WHEN u.request_id IS NULL AND e.propensity >= 1 AND l.least < 1 THEN 'not_drawn'
        WHEN u.request_id IS NULL AND decided_at < l.last THEN 'no_outcome'
        WHEN u.request_id IS NULL OR NOT u.mature THEN 'waiting'
        WHEN e.seen IS NULL OR p.first > e.seen THEN 'no_profile'
        {purged} END"""
