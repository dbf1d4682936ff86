"""Split exposures into training, stopping and test rows by time or by account, never by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.decision import uniform
from shadowprice.documents import Plain
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.clusters import row_clusters

PARTS = ("train", "validation", "test")
PURGED = "purged"
MOST_DELAY_DAYS = 36_525


@dataclass(frozen=True, kw_only=True)
class Split(Plain):
    """A rule that puts every exposure in one part.

    by                ``time``: by decided_at, train < validation_from ≤ validation < test_from ≤ test;
                      ``account``: by a hash of the account or its cluster, so that neither is in two parts
    validation_from   first instant of validation (time only)
    test_from         first instant of the test (time only)
    shares            expected shares of accounts in train, validation, test (account only)
    label_delay_days  days from decided_at until the label is known (time only)
    purge             drop training rows whose label is known only after test_from, as a model that goes
                      live at test_from could not have learned from them. Off by default: published
                      figures on delayed labels are made without. Validation rows stay either way: they
                      choose when to stop and calibrate, and with a long delay none would be left.
    """

    by: Literal["time", "account"]
    validation_from: datetime | None = None
    test_from: datetime | None = None
    shares: tuple[float, float, float] = (0.70, 0.15, 0.15)
    label_delay_days: float = 0.0
    purge: bool = False

    @classmethod
    def between(
        cls,
        validation_from: datetime | str | None = None,
        test_from: datetime | str | None = None,
        *,
        label_delay_days: float = 0.0,
        purge: bool = False,
    ) -> Self:
        """Return the split by time where an instant is given, by account otherwise.

        Raises:
            InvalidInput: a text is not a time, or one of the two instants is missing.
        """
        if validation_from is None and test_from is None:
            return cls(by="account")
        return cls(
            by="time",
            validation_from=_time(validation_from, "validation_from"),
            test_from=_time(test_from, "test_from"),
            label_delay_days=label_delay_days,
            purge=purge,
        )

    def __post_init__(self) -> None:
        require(self.by in ("time", "account"), "split.by", f"must be 'time' or 'account', got {self.by!r}")
        if self.by == "account":
            if self.validation_from or self.test_from or self.purge:
                raise InvalidInput("a split by account takes no times; use by='time'", field="split.by")
            if len(self.shares) != 3 or min(self.shares) < 0 or not np.isclose(sum(self.shares), 1.0):
                raise InvalidInput("must be three shares, not negative, that add up to 1", field="split.shares")
            return
        for name in ("validation_from", "test_from"):
            value = getattr(self, name)
            if value is None or value.tzinfo is None:
                raise InvalidInput("a split by time needs it, with a time zone", field=f"split.{name}")
            try:
                object.__setattr__(self, name, value.astimezone(UTC))
            except OverflowError as error:
                raise InvalidInput(f"is not a time of the calendar: {value}", field=f"split.{name}") from error
        if self._instant("validation_from") > self._instant("test_from"):
            raise InvalidInput("must not be before validation_from", field="split.test_from")
        if not 0 <= self.label_delay_days <= MOST_DELAY_DAYS:
            raise InvalidInput(f"must be 0 to {MOST_DELAY_DAYS} days", field="split.label_delay_days")

    def later(self, by: timedelta) -> Self:
        """Return the split of a log that goes on for ``by``: both instants move, a split by account stays.

        >>> Split(by="account").later(timedelta(days=1)).by
        'account'
        """
        if self.validation_from is None or self.test_from is None:
            return self
        return replace(self, validation_from=self.validation_from + by, test_from=self.test_from + by)

    def assign(self, exposure: pd.DataFrame) -> NDArray[np.str_]:
        """Part of each row of a frame with account_id, decided_at and, where accounts have them, cluster.

        Returns:
            str (rows,): ``train``, ``validation``, ``test``, or ``purged`` where ``purge`` is on.

        O(rows). The same account and time give the same part in every process and for every data set.
        """
        if self.by == "account":
            return self._by_account(exposure)
        decided = exposure["decided_at"]
        test_from = self._instant("test_from")
        part = np.where(
            decided >= test_from, "test", np.where(decided >= self._instant("validation_from"), *PARTS[1::-1])
        )
        if self.purge:
            late = decided + pd.Timedelta(days=self.label_delay_days) > test_from
            part[(part == "train") & late.to_numpy()] = PURGED
        return part

    def _by_account(self, exposure: pd.DataFrame) -> NDArray[np.str_]:
        code, unique = pd.factorize(row_clusters(exposure))
        # A prefix of its own keeps the split independent of the hash that breaks ties between levels.
        point = np.array([uniform(f"split/{account}") for account in unique])
        edges = np.cumsum(self.shares)[:2]
        part: NDArray[np.str_] = np.asarray(PARTS)[np.digitize(point, edges)[code]]
        return part

    def _instant(self, name: str) -> pd.Timestamp:
        return pd.Timestamp(getattr(self, name))


def _time(value: datetime | str | None, name: str) -> datetime | None:
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise InvalidInput(f"is not a time: {value!r}", field=name) from None
