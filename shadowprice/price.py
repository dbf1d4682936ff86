"""The price record: λ* of a campaign for one slot, with its certificate, sealed by a checksum."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from shadowprice.errors import PriceRejected

SCHEMA_VERSION = 1


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
    schema_version: int = SCHEMA_VERSION
    sha256: str = field(default="")

    def __post_init__(self) -> None:
        if self.version < 1:
            raise PriceRejected("price record: version must be at least 1")
        for name in ("solved_at", "expires_at"):
            if getattr(self, name).tzinfo is None:
                raise PriceRejected(f"price record: {name} must carry a time zone")
        if not self.prices:
            raise PriceRejected("price record: it holds no price")
        for name, price in self.prices.items():
            if not math.isfinite(price):
                raise PriceRejected(f"price record: price of {name!r} is {price}; it must be finite")
        if not 0 <= self.tie_share <= 1:
            raise PriceRejected("price record: tie_share must lie in [0, 1]")

    def checksum(self) -> str:
        """SHA-256 over the canonical JSON of everything but the checksum itself."""
        body = {key: value for key, value in self._plain().items() if key != "sha256"}
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def sealed(self) -> PriceRecord:
        """The same record with its checksum filled in."""
        return replace(self, sha256=self.checksum())

    def verify(self) -> PriceRecord:
        """Itself, or :class:`PriceRejected` when the content does not match the checksum."""
        if self.schema_version != SCHEMA_VERSION:
            raise PriceRejected(f"price record: schema_version {self.schema_version} is not {SCHEMA_VERSION}")
        if self.sha256 != self.checksum():
            raise PriceRejected(f"price record: version {self.version} of {self.campaign!r} fails its checksum")
        return self

    def stale(self, now: datetime) -> bool:
        """Whether the record is past its expiry."""
        return now >= self.expires_at

    def to_json(self) -> str:
        """JSON text of the record, keys sorted."""
        return json.dumps(self._plain(), sort_keys=True, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> PriceRecord:
        """Parse and verify. Raises :class:`PriceRejected` for anything that is not a sound record."""
        try:
            data = json.loads(text)
            names = {f.name for f in fields(cls)}
            if set(data) != names:
                raise PriceRejected(f"price record: fields differ from the schema: {sorted(set(data) ^ names)}")
            for key in ("solved_at", "expires_at"):
                data[key] = datetime.fromisoformat(data[key])
            return cls(**data).verify()
        except (ValueError, TypeError, AttributeError) as error:
            raise PriceRejected(f"price record: not readable: {error}") from error

    def _plain(self) -> dict[str, Any]:
        data = asdict(self)
        data["prices"] = dict(self.prices)
        for key in ("solved_at", "expires_at"):
            data[key] = data[key].astimezone(UTC).isoformat()
        return data
