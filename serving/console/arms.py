"""Arms of an experiment: their sums in the log, and the lift that the job ``lift`` wrote."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from shadowprice.arms import COMPANY, WHOLE
from shadowprice.campaign import Campaign
from shadowprice.documents import read_json
from shadowprice.errors import Unavailable

FACTS = ("level", "per", "per_request", "mature", "requests", "mature_hours", "sample_ratio")
"""Facts of a lift that the page shows."""
SUMS = ["requests", "outcomes", "responses", "cost"]


@dataclass(frozen=True)
class WrittenLift:
    """Content of the file of a lift, and when it was written."""

    at: datetime
    content: dict[str, Any]

    @property
    def latest(self) -> dict[str, tuple[float, float, float]]:
        """Return, by arm, the incremental value per day on the last day, with the interval of all days together.

        An arm whose interval has no end yet is left out.
        """
        latest_of = {}
        for row in self.content["daily"]:
            last = tuple(row["value"][part][-1] for part in ("value", "low", "high")) if row["days"] else (None,)
            if None not in last:
                latest_of[row["arm"]] = last
        return latest_of


def arm_rows(campaign: Campaign, cells: pd.DataFrame) -> list[dict[str, Any]]:
    """One row for each arm: its share of the units, and its sums in the log. The holdout's share is of all accounts."""
    if campaign.experiment is None:
        return []
    sums = cells.groupby("arm")[SUMS].sum() if len(cells) else pd.DataFrame(columns=SUMS)
    kinds: dict[str, str] = {arm.name: arm.kind for arm in campaign.experiment.arms}
    shares = dict(campaign.experiment.shares)
    if campaign.holdout is not None:
        kinds[COMPANY], shares[COMPANY] = "no campaign treats it", campaign.holdout.share
    return [
        {
            "arm": name,
            "kind": kinds.get(name, "as policy"),
            "share": share / WHOLE,
            **{column: float(sums[column].get(name, 0)) for column in SUMS},
        }
        for name, share in shares.items()
    ]


def read_lift(path: Path, campaign: Campaign) -> WrittenLift | None:
    """Read the file of a lift; None where there is none yet of the campaign's window.

    Raises:
        Unavailable: it cannot be read, or is of another campaign.
    """
    if not path.exists():
        return None
    try:
        content = read_json(path)
        at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        written = WrittenLift(at, {name: content[name] for name in ("campaign", "baseline", "lifts", "daily", *FACTS)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{path} is not a lift ({error!r}); run the job lift again") from error
    if written.content["campaign"] != campaign.name:
        of = written.content["campaign"]
        raise Unavailable(f"{path} is the lift of campaign {of!r}; name that of {campaign.name!r}")
    return written if at >= campaign.starts_at else None
