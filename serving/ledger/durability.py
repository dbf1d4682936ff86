"""Settings for what a store in Redis must keep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shadowprice.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Durability:
    """Demands of a ledger on its Redis.

    declared  the operator vouches for its persistence and eviction policy, which then are not read by ``CONFIG GET``
    replicas  replicas that must acknowledge each group of calls before it is answered
    witness   file outside Redis that notes how many records there are; None: none is kept
    """

    declared: bool = False
    replicas: int = 0
    witness: Path | None = None

    def __post_init__(self) -> None:
        if self.replicas < 0:
            raise InvalidInput(f"must be a number of replicas, 0 for none, got {self.replicas}", field="redis_replicas")
