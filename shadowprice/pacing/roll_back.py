"""An earlier price as the next one, for an operator who mistrusts the newest."""

from dataclasses import replace
from datetime import datetime

from shadowprice.errors import Conflict, NotFound
from shadowprice.price import PriceRecord

SOLVED = (
    *("prices", "tie_share", "status", "primal", "dual", "gap", "violation"),
    *("sample_rows", "solved_at", "expires_at", "seconds"),
)
"""Fields of a record that come from its solve; the others describe the window when it was published."""


def rolled_back(earlier: PriceRecord, newest: PriceRecord | None, version: int, now: datetime) -> PriceRecord:
    """Return the solve of an earlier record as a sealed record that may be published next.

    Money, requests, plan and slot stay those of the newest record, so the next re-solve compares the spend with them.
    It is the next price of the same slot.

    Args:
        earlier: published before.
        newest: newest sound record of the campaign.
        version: of the record that is returned.
        now: UTC.

    Raises:
        NotFound: there is no newest record.
        Conflict: ``earlier`` is active already, expired, or of another campaign, window or model than the newest.
    """
    if newest is None:
        raise NotFound(f"campaign {earlier.campaign!r} has no sound price; solve and publish one")
    label = f"price version {earlier.version}"
    if earlier.version == newest.version:
        raise Conflict(f"{label} is active already")
    for name, mine, active in (
        ("campaign", earlier.campaign, newest.campaign),
        ("the window from", earlier.window, newest.window),
        ("model", earlier.model_version, newest.model_version),
    ):
        if mine != active:
            raise Conflict(f"{label} is of {name} {mine}, and {active} is active; solve and publish a new price")
    if earlier.stale(now):
        expired = f"{earlier.expires_at:%Y-%m-%d %H:%M} UTC"
        raise Conflict(f"{label} expired at {expired}; solve and publish a new price")
    solved = {name: getattr(earlier, name) for name in SOLVED}
    return replace(newest, **solved, version=version, step=newest.step + 1).sealed()
