"""Reasons why a Redis must not be used, shared by those who write, read and check."""

from dataclasses import dataclass

from shadowprice.errors import Unavailable


@dataclass
class Condition:
    """Each reason is a sentence, or None.

    went_back  Redis lost records; this holds until the ledger is restarted
    unsafe     Redis may lose records, by its newest check
    unlike     another running ledger describes a shared limit otherwise, by the newest check
    failed     the newest write failed
    """

    went_back: str | None = None
    unsafe: str | None = None
    unlike: str | None = None
    failed: str | None = None

    @property
    def trouble(self) -> str | None:
        """The reason why writes fail, or would."""
        return self.went_back or self.unsafe or self.unlike or self.failed

    def check(self) -> None:
        """Raise :class:`Unavailable` where Redis must not be used at all."""
        reason = self.went_back or self.unsafe or self.unlike
        if reason is not None:
            raise Unavailable(reason)
