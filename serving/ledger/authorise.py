"""Authorising: recording what is promised before it is promised, within the budget."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from datetime import datetime

import orjson

from serving.ledger.database import microseconds
from serving.ledger.messages import Authorizations, Item, Unprocessable
from serving.protocol import NOTHING
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, NotFound


@dataclass(frozen=True)
class Stored:
    """A decision as it is kept; ``repeat`` when it was there before."""

    request_id: str
    level: int
    incentive: int
    response: float
    expected_cost: float
    propensity: float
    reason: str
    repeat: bool = field(kw_only=True)


@dataclass(frozen=True)
class Authorise:
    """A job of the writer: authorise the decisions of one call, all or none.

    hard_stop   refuse money that a total budget no longer has
    decided_at  UTC

    The promise of a request that was decided before is what was promised then. With the hard stop,
    what is promised and not settled counts as spent at its face value; a request whose incentive
    no longer fits is given the level of no incentive, or nothing at all where there is none.
    """

    campaign: Campaign
    hard_stop: bool
    batch: Authorizations
    decided_at: datetime

    def __call__(self, database: sqlite3.Connection) -> list[Stored]:
        """What stands for each item, in order.

        Raises:
            NotFound: another campaign.
            Unprocessable: a level or amount the campaign does not offer.
            Conflict: a request id that stands for another account or side.
        """
        self._check()
        known = _find(database, [item.request_id for item in self.batch.items])
        left = _money_left(database, self.campaign) if self.hard_stop else None
        answers: list[Stored] = []
        new: list[tuple[Item, Stored]] = []
        for index, item in enumerate(self.batch.items):
            before = known.get(item.request_id)
            if before is None:
                stored = self._grant(item, left)
                if left is not None:
                    left -= stored.incentive
                new.append((item, stored))
                known[item.request_id] = (item.account_id, item.side, stored)
            else:
                account_id, side, first = before
                if (account_id, side) != (item.account_id, item.side):
                    raise Conflict(
                        f"items[{index}].request_id: {item.request_id!r} was decided before for another account "
                        "or side; every request needs an identifier of its own"
                    )
                stored = replace(first, repeat=True)
            answers.append(stored)
        self._write(database, new)
        return answers

    def _check(self) -> None:
        if self.batch.campaign != self.campaign.name:
            raise NotFound(f"campaign {self.batch.campaign!r} is not kept here; this is {self.campaign.name!r}")
        for index, item in enumerate(self.batch.items):
            if item.side not in self.campaign.sides:
                raise Unprocessable(
                    f"the campaign has {sorted(self.campaign.sides)}, not {item.side!r}", field=f"items[{index}].side"
                )
            levels = self.campaign.sides[item.side].levels
            if item.level >= len(levels):
                raise Unprocessable(f"must be below {len(levels)}", field=f"items[{index}].level")
            if item.incentive != levels[item.level]:
                raise Unprocessable(
                    f"level {item.level} is {levels[item.level]} minor units", field=f"items[{index}].incentive"
                )

    def _grant(self, item: Item, left: float | None) -> Stored:
        if left is None or item.incentive <= max(left, 0):
            return Stored(
                item.request_id,
                item.level,
                item.incentive,
                item.response,
                item.expected_cost,
                item.propensity,
                item.reason,
                repeat=False,
            )
        free = self.campaign.sides[item.side].levels[0] == 0
        return Stored(
            item.request_id,
            level=0 if free else NOTHING,
            incentive=0,
            response=item.response_unpaid,
            expected_cost=0.0,
            propensity=1.0,
            reason="budget_exhausted",
            repeat=False,
        )

    def _write(self, database: sqlite3.Connection, new: list[tuple[Item, Stored]]) -> None:
        at = microseconds(self.decided_at)
        database.executemany(
            "INSERT INTO decision (request_id, account_id, side, level, incentive, response, expected_cost, propensity,"
            " reason, model_version, price_version, decided_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    item.request_id,
                    item.account_id,
                    item.side,
                    stored.level,
                    stored.incentive,
                    stored.response,
                    stored.expected_cost,
                    stored.propensity,
                    stored.reason,
                    self.batch.model_version,
                    self.batch.price_version,
                    at,
                )
                for item, stored in new
            ],
        )
        database.executemany(
            "INSERT INTO tally (side, level, reason, decisions, authorised) VALUES (?, ?, ?, 1, ?)"
            " ON CONFLICT (side, level, reason)"
            " DO UPDATE SET decisions = decisions + 1, authorised = authorised + excluded.authorised",
            [(item.side, stored.level, stored.reason, stored.incentive) for item, stored in new],
        )


def _find(database: sqlite3.Connection, request_ids: list[str]) -> dict[str, tuple[str, str, Stored]]:
    """request id → account, side and decision, of those decided before."""
    rows = database.execute(
        "SELECT account_id, side, request_id, level, incentive, response, expected_cost, propensity, reason"
        " FROM decision WHERE request_id IN (SELECT value FROM json_each(?))",
        (orjson.dumps(request_ids).decode(),),
    )
    return {values[0]: (account_id, side, Stored(*values, repeat=True)) for account_id, side, *values in rows}


def _money_left(database: sqlite3.Connection, campaign: Campaign) -> float | None:
    """Minor units neither spent nor promised; None for a mean, which has no such amount."""
    if campaign.budget.form != "total":
        return None
    (authorised,) = database.execute("SELECT COALESCE(SUM(authorised), 0) FROM tally").fetchone()
    released, spent = database.execute(
        "SELECT COALESCE(SUM(released), 0), COALESCE(SUM(spent), 0) FROM settlement"
    ).fetchone()
    return float(int(campaign.budget.limit) - (authorised - released) - spent)
