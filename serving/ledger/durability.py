"""Demands on the durability of a store."""

from dataclasses import dataclass
from pathlib import Path

from shadowprice.errors import InvalidInput

ONE_IF_ANY = -1


@dataclass(frozen=True, kw_only=True)
class Durability:
    """Demands of a ledger on its store; the first two are of Redis.

    declared  the operator vouches for its persistence and eviction policy, which then are not read by ``CONFIG GET``
    replicas  replicas that must acknowledge each group of calls before it is answered; :data:`ONE_IF_ANY`: one while
              Redis has any
    witness   file outside the store that notes how many records there are; None: none is kept
    """

    declared: bool = False
    replicas: int = 0
    witness: Path | None = None

    def __post_init__(self) -> None:
        if self.replicas < ONE_IF_ANY:
            rule = f"must be a number of replicas, 0 for none, {ONE_IF_ANY} for one while there is any"
            raise InvalidInput(f"{rule}, got {self.replicas}", field="redis_replicas")
