"""Hours, days, weeks and months in which limits begin anew, by the clock of a time zone."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shadowprice.errors import InvalidInput

Period = Literal["campaign", "month", "week", "day", "hour"]

_HOUR = timedelta(hours=1)
_NAMES: dict[Period, str] = {
    "campaign": "",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "day": "%Y-%m-%d",
    "hour": "%Y-%m-%dT%H",
}


@dataclass(frozen=True)
class Calendar:
    """The periods of a time zone; weeks begin on Monday, and a day may have 23 or 25 hours.

    time_zone  IANA name, such as ``Europe/Berlin``

    Example:
        >>> noon = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
        >>> Calendar().name("day", noon), Calendar("Europe/Berlin").name("day", noon), Calendar().name("week", noon)
        ('2026-03-02', '2026-03-03', '2026-W10')
    """

    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            _ = self._zone
        except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
            raise InvalidInput(
                f"must be an IANA name such as Europe/Berlin, got {self.time_zone!r}", field="limits.time_zone"
            ) from error

    @cached_property
    def _zone(self) -> tzinfo:
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    def name(self, period: Period, at: datetime) -> str:
        """Name of the period that contains a time; empty for the whole campaign.

        The name of an hour has the difference to UTC, but in UTC: two hours of one name would be one when clocks are
        put back.
        """
        pattern = _NAMES[period] + ("%z" if period == "hour" and self._zone is not UTC else "")
        return at.astimezone(self._zone).strftime(pattern)

    def began(self, period: Period, at: datetime) -> datetime:
        """Beginning of the period that contains a time; the first instant of all for the whole campaign."""
        if period == "campaign":
            return datetime.min.replace(tzinfo=UTC)
        local = at.astimezone(self._zone)
        if period == "hour":
            return at - timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        back = {"day": 0, "week": local.weekday(), "month": local.day - 1}[period]
        # Wall time: the zone finds the offset of that day.
        return local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0) - timedelta(days=back)

    def number(self, period: Period, at: datetime) -> int:
        """Count of the periods up to the one that contains a time: of two times the difference tells how far apart."""
        local = at.astimezone(self._zone)
        if period == "campaign":
            return 0
        if period == "month":
            return 12 * local.year + local.month
        if period == "hour":
            offset = local.utcoffset() or timedelta()
            return int((at.timestamp() + (offset % _HOUR).total_seconds()) // 3600)
        return local.toordinal() if period == "day" else (local.toordinal() - 1) // 7

    def cuts(self, begin: datetime, end: datetime) -> list[datetime]:
        """``begin``, the beginnings of hours between, and ``end``: no period of any kind begins elsewhere."""
        cuts, at = [begin], self.began("hour", begin) + _HOUR
        while at < end:
            cuts.append(at)
            at = self.began("hour", at) + _HOUR
        return [*cuts, end]
