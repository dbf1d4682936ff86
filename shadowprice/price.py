"""The price record: λ* of a campaign for one slot, with its certificate, sealed by a checksum."""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from shadowprice.campaign import MODEL_VERSION, NAME
from shadowprice.documents import parse_json, read_document
from shadowprice.errors import PriceRejected

SCHEMA_VERSION = 6
LOG = ("log_rows", "log_head")
"""Fields that a record without a log leaves out, as records of earlier releases do."""
OPTIONAL = (*LOG, "outcomes")
"""Fields that a record leaves out where they are empty."""
TIMES = ("solved_at", "expires_at", "window")
LAST_VERSION = 10**10 - 1
"""Largest version: files of prices are named by ten digits."""
MOST_BYTES = 1 << 24
"""Bytes of a record at most: plans of a year by the hour, for dozens of budgets."""


@dataclass(frozen=True, kw_only=True)
class ExpectedOutcome:
    """Second outcome that requests are expected to have: its mean, or the sum of a period.

    expected  under the prices of a solve: value, and low and high end of its 95 % interval
    least     the same of the levels with the least of it
    """

    expected: tuple[float, float, float]
    least: tuple[float, float, float]

    def __post_init__(self) -> None:
        for name in ("expected", "least"):
            numbers = tuple(map(float, getattr(self, name)))
            if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
                raise PriceRejected(f"price record: {name} of a second outcome must be three finite numbers")
            object.__setattr__(self, name, numbers)

    def of(self, name: str) -> str:
        """Return ``expected`` or ``least`` with its interval.

        >>> ExpectedOutcome(expected=(0.012, 0.0104, 0.0136), least=(0.0115, 0.01, 0.0131)).of("least")
        '0.0115 [0.01, 0.0131]'
        """
        value, low, high = getattr(self, name)
        return f"{value:.3g} [{low:.3g}, {high:.3g}]"

    def to_dict(self) -> dict[str, list[float]]:
        """Plain JSON types."""
        return {"expected": list(self.expected), "least": list(self.least)}


@dataclass(frozen=True, kw_only=True)
class PriceRecord:
    """An immutable price of money.

    version       rises by one with every publication of the campaign
    slot          hour of the campaign window the price was solved for
    prices        limit → λ, response per minor unit: ≥ 0 of a cap, ≤ 0 of a floor, any sign of an equality
    tie_share     probability of the dearer of two tied levels
    gap           relative difference of dual bound and primal value
    violation     largest relative excess over a budget; ≤ 0 is feasible
    spent, remaining   minor units when the price was solved
    sample_rows   requests the price was solved on
    window        when the campaign's window opened, or will; slots, totals and plans are comparable within one window
    step          which price of its slot it is: 0 the first, the hour's own
    at            hours since the window opened, when it was solved
    requests      requests decided when it was solved
    expected      requests expected in the rest of the window
    plan          minor units paid, or expected cost of open authorizations: when it was solved, and as planned at the
                  end of its slot and of each later one
    pacing_error  what was paid over what the record before had planned by then, less one
    seconds       time the solve took
    spend_ratio   minor units paid per minor unit that the model's curves expect, as learned in the window so far
    plans         further total budget → the same as ``plan``, to the end of its present period
    pacing_errors further budget → the same as ``pacing_error``
    arrivals      requests decided: when it was solved, and as expected at the end of its slot and of each later one
    by            user, machine and release that published it; empty of a record that was not published by a job
    log_rows      decisions in the served log when it was published, and log_head the root of their hash tree
                  (:mod:`shadowprice.pacing.decision_log.tree`); both are left out where no log was read
    outcomes      limit on a second outcome → what was expected of it; left out where none is limited
    """

    campaign: str
    version: int
    slot: int
    prices: Mapping[str, float]
    tie_share: float
    status: str
    primal: float
    dual: float
    gap: float
    violation: float
    spent: int
    remaining: int
    sample_rows: int
    model_version: str
    solved_at: datetime
    expires_at: datetime
    window: datetime | None = None
    step: int = 0
    at: float = 0.0
    requests: int = 0
    expected: float = 0.0
    plan: tuple[float, ...] = ()
    pacing_error: float = 0.0
    seconds: float = 0.0
    spend_ratio: float = 1.0
    plans: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pacing_errors: Mapping[str, float] = field(default_factory=dict)
    arrivals: tuple[float, ...] = ()
    by: str = ""
    log_rows: int = 0
    log_head: str = ""
    outcomes: Mapping[str, ExpectedOutcome] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    sha256: str = field(default="")

    def __post_init__(self) -> None:
        if isinstance(self.version, bool) or not isinstance(self.version, int) or not 1 <= self.version <= LAST_VERSION:
            raise PriceRejected(f"price record: version must be a whole number from 1 to {LAST_VERSION}")
        for name, pattern in (("campaign", NAME), ("model_version", MODEL_VERSION)):
            if not re.fullmatch(pattern, str(getattr(self, name))):
                raise PriceRejected(f"price record: {name} {getattr(self, name)!r} is not a name")
        for name in TIMES:
            moment = getattr(self, name)
            if name != "window" and moment is None:
                raise PriceRejected(f"price record: {name} is missing")
            if moment is not None and moment.tzinfo is None:
                raise PriceRejected(f"price record: {name} must carry a time zone")
        if not self.prices:
            raise PriceRejected("price record: it holds no price")
        for name, price in self.prices.items():
            if not math.isfinite(price):
                raise PriceRejected(f"price record: price of {name!r} is {price}; it must be finite")
        if not 0 <= self.tie_share <= 1:
            raise PriceRejected("price record: tie_share must lie in [0, 1]")
        object.__setattr__(self, "plan", tuple(float(amount) for amount in self.plan))
        object.__setattr__(self, "arrivals", tuple(map(float, self.arrivals)))
        object.__setattr__(self, "plans", {name: tuple(map(float, plan)) for name, plan in self.plans.items()})
        numbers = [self.at, self.expected, self.pacing_error, self.seconds, *self.pacing_errors.values()]
        if not all(map(math.isfinite, chain(numbers, self.plan, self.arrivals, *self.plans.values()))):
            raise PriceRejected("price record: at, expected, plans, arrivals, pacing errors and seconds must be finite")
        if len(self.arrivals) != len(self.plan):
            raise PriceRejected("price record: arrivals must have as many entries as the plan")
        if bool(self.log_rows) != bool(self.log_head) or self.log_rows < 0:
            raise PriceRejected("price record: log_rows and log_head belong together")
        if not 0 < self.spend_ratio < math.inf:
            raise PriceRejected("price record: spend_ratio must be positive and finite")

    def checksum(self) -> str:
        """SHA-256 over the canonical JSON of everything but the checksum itself."""
        body = {key: value for key, value in self.to_dict().items() if key != "sha256"}
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def sealed(self) -> PriceRecord:
        """Return the record with its checksum filled in."""
        return replace(self, sha256=self.checksum())

    def verify(self) -> PriceRecord:
        """Return the record, or raise :class:`PriceRejected` where the content does not match the checksum."""
        if self.schema_version != SCHEMA_VERSION:
            raise PriceRejected(f"price record: schema_version {self.schema_version} is not {SCHEMA_VERSION}")
        if self.sha256 != self.checksum():
            raise PriceRejected(f"price record: version {self.version} of {self.campaign!r} fails its checksum")
        return self

    def planned(self, at: float, budget: str | None = None) -> float:
        """Minor units that were to be paid ``at`` hours after the window opened, of the main or a further budget.

        NaN without a plan, and of a further budget from the end of its period on. O(log hours).
        """
        plan = self.plan if budget is None else self.plans.get(budget, ())
        if len(plan) < 2:
            return math.nan
        ends = [self.at, *(max(self.slot, 0) + 1.0 + hour for hour in range(len(plan) - 1))]
        if budget is not None and at >= ends[-1]:
            return math.nan
        after = min(max(bisect_right(ends, at), 1), len(ends) - 1)
        share = (at - ends[after - 1]) / (ends[after] - ends[after - 1])
        return plan[after - 1] + min(max(share, 0.0), 1.0) * (plan[after] - plan[after - 1])

    def priced_before(self, other: PriceRecord | None) -> bool:
        """Return whether ``other`` prices this record's slot and step, or a later one, of the same window and model.

        Prices for the time before the window (slot −1) may follow each other.
        """
        return (
            other is not None
            and self.slot >= 0
            and (self.window, self.model_version) == (other.window, other.model_version)
            and (self.slot, self.step) <= (other.slot, other.step)
        )

    def of(self, names: Iterable[str]) -> list[float]:
        """Prices by name; 0 of a budget that the record does not have, as one that was added after its solve."""
        return [self.prices.get(name, 0.0) for name in names]

    def stale(self, now: datetime) -> bool:
        """Return whether the record is past its expiry."""
        return now >= self.expires_at

    def to_json(self) -> str:
        """JSON text of the record, keys sorted."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> PriceRecord:
        """Parse and verify. Raises :class:`PriceRejected` for anything that is not a sound record."""
        try:
            data = parse_json(text)
            names = {f.name for f in fields(cls)}
            names -= set(OPTIONAL) - set(data)
            if set(data) != names:
                raise PriceRejected(f"price record: fields differ from the schema: {sorted(set(data) ^ names)}")
            for key in TIMES:
                if data.get(key) is not None:
                    data[key] = datetime.fromisoformat(data[key])
            if "outcomes" in data:
                data["outcomes"] = {name: ExpectedOutcome(**own) for name, own in data["outcomes"].items()}
            return cls(**data).verify()
        # Lists in the place of numbers, and numbers that no float holds, fail in the checks of the fields.
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise PriceRejected(f"price record: not readable: {error}") from error

    @classmethod
    def read(cls, path: Path) -> PriceRecord:
        """Parse and verify a file.

        Raises:
            OSError: the file cannot be read.
            PriceRejected: it is not a regular file, too large, or not a sound record.
        """
        try:
            return cls.from_json(read_document(path, MOST_BYTES))
        except ValueError as error:
            raise PriceRejected(f"price record: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        data = asdict(self)
        data["prices"] = dict(self.prices)
        data["plan"] = list(self.plan)
        data["arrivals"] = list(self.arrivals)
        data["plans"] = {name: list(plan) for name, plan in self.plans.items()}
        data["pacing_errors"] = dict(self.pacing_errors)
        for key in TIMES:
            if data.get(key) is not None:
                data[key] = data[key].astimezone(UTC).isoformat()
        data["outcomes"] = {name: own.to_dict() for name, own in self.outcomes.items()}
        for key in OPTIONAL:
            if not data[key]:
                del data[key]
        return data
