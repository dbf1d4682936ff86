"""The number of records that were seen in a ledger's store, to notice a store that lost some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

EPOCH = "epoch"
"""Name of a random id that a store gets once: a store that was emptied and begun anew has another."""


class Seen(NamedTuple):
    """Records of a campaign: the id of its store, and the numbers of decisions, outcomes, corrections and moves."""

    epoch: str
    decisions: int
    outcomes: int
    corrections: int
    moves: int = 0

    def lost_by(self, found: Seen) -> bool:
        """Return whether a store that has ``found`` lost records that were seen."""
        return found.epoch != self.epoch or any(has < had for has, had in zip(found[1:], self[1:], strict=True))

    def joined(self, counts: Sequence[int]) -> Seen:
        """Return the larger number of records of each kind."""
        return Seen(self.epoch, *(max(had, has) for had, has in zip(self[1:], counts, strict=True)))

    def told(self) -> str:
        """Return the numbers in words."""
        moves = f", {self.moves} moves" if self.moves else ""
        return f"{self.decisions} decisions{moves}, {self.outcomes} outcomes and {self.corrections} corrections"
