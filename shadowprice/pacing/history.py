"""Ordinary traffic estimated from past requests: the accounts, how often each asks, and at which hours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.documents import read_json
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.files import whole_file, write_whole
from shadowprice.pacing.forecast import Forecast, Profile
from shadowprice.pacing.replay.day import Accounts

if TYPE_CHECKING:
    # Services read traffic too, and have no tables.
    from shadowprice.tables import Tables

FILE = "traffic.json"
Part = Literal["pairs", "contexts"]
"""Parts of the traffic that are kept only where budgets or rules read them."""

TRAFFIC_DAYS = 31
"""Length of the past that traffic is fitted on: older requests have little information on today's traffic."""

CONTEXTS = 4000
"""Requests whose context is kept: those of a campaign's window take their place."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """The ordinary traffic of a campaign.

    profiles  side → its ordinary day
    accounts  side → the accounts that ask and how often each does
    pairs     side → account_id, partner_id, activity; of the sides whose budgets or rules read the partner
    contexts  side → context values of the newest requests; of the sides whose budgets or rules read some
    """

    profiles: Mapping[Side, Profile]
    accounts: Mapping[Side, Accounts]
    pairs: Mapping[Side, pd.DataFrame] = field(default_factory=dict)
    contexts: Mapping[Side, pd.DataFrame] = field(default_factory=dict)

    def forecast(self, campaign: Campaign) -> Forecast:
        """Expected requests by slot of the campaign's window."""
        return Forecast.of(campaign, self.profiles)

    def save(self, folder: Path) -> None:
        """Write one parquet file per side, then traffic.json, each whole or not at all; :meth:`load` is the inverse."""
        folder.mkdir(parents=True, exist_ok=True)
        for side, accounts in self.accounts.items():
            frame = pd.DataFrame({"account_id": accounts.account_id.astype(str), "activity": accounts.activity})
            _write(folder / traffic_file(side), frame)
        for side in SIDES:
            for part in get_args(Part):
                frames, file = getattr(self, part), folder / traffic_file(side, part)
                if side in frames:
                    _write(file, frames[side])
                else:
                    file.unlink(missing_ok=True)
        profiles = {side: {"shares": p.shares.tolist(), "level": p.level} for side, p in self.profiles.items()}
        write_whole(folder / FILE, json.dumps(profiles, indent=1))

    @classmethod
    def load(cls, folder: Path) -> Traffic:
        """Read what :meth:`save` wrote but pairs and contexts (:func:`read_part`).

        Raises:
            NotFound: there is no traffic.
            InvalidInput: a file is missing or damaged.
        """
        path = folder / FILE
        if not path.exists():
            raise NotFound(f"no {FILE} in {folder}; run `shadowprice job featurize` first")
        try:
            profiles: dict[Side, Profile] = {
                side: Profile(np.asarray(p["shares"]), p["level"]) for side, p in read_json(path).items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, error) from error
        accounts: dict[Side, Accounts] = {}
        for side in profiles:
            frame = _read(folder / traffic_file(side), ["account_id", "activity"])
            accounts[side] = Accounts(
                frame["account_id"].to_numpy(dtype=str), np.asarray(frame["activity"], dtype=np.float64)
            )
        return cls(profiles, accounts)


def read_part(folder: Path, part: Part) -> dict[Side, pd.DataFrame]:
    """Read :attr:`Traffic.pairs` or :attr:`Traffic.contexts` of a workspace; empty where nothing reads them.

    Raises:
        InvalidInput: a file is damaged.
    """
    files = {side: folder / traffic_file(side, part) for side in SIDES}
    return {side: _read(path) for side, path in files.items() if path.exists()}


def _write(file: Path, frame: pd.DataFrame) -> None:
    with whole_file(file) as draft:
        frame.to_parquet(draft, index=False)


def _read(file: Path, columns: list[str] | None = None) -> pd.DataFrame:
    try:
        return pd.read_parquet(file, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> InvalidInput:
    return InvalidInput(f"cannot be read ({error}); run `shadowprice job featurize` again", field=str(file))


def traffic_file(side: Side, part: Part | Literal[""] = "") -> str:
    """Name of the file with a part of the traffic of a side; by default its accounts and how often each asks."""
    return f"traffic-{side}{part and f'-{part}'}.parquet"


def fit_traffic(campaign: Campaign, tables: Tables, served: Mapping[Side, ArrayLike]) -> Traffic:
    """Fit on past requests.

    Args:
        campaign: whose sides count.
        tables: of which ``exposure`` is read.
        served: side → accounts that can be served; requests of others are not forecast.

    Requests that still await their outcome count too: where the table holds the requests to be
    allocated, they are the traffic to expect. Only the last ``TRAFFIC_DAYS`` days of each side count.
    A side whose requests all carry the same time of day has no hours in its data: its day is taken
    as even. Accounts that can be served but never asked are left out.

    The level is that of the past, whatever number the campaign states: :meth:`Traffic.forecast` reads it.
    """
    profiles: dict[Side, Profile] = {}
    accounts: dict[Side, Accounts] = {}
    pairs: dict[Side, pd.DataFrame] = {}
    contexts: dict[Side, pd.DataFrame] = {}
    coverage = campaign.coverage()
    for side in campaign.sides:
        if side not in served:
            continue
        with tables.connect() as db:
            db.register("served", pa.table({"account_id": pa.array(np.asarray(served[side], dtype=str), pa.string())}))
            db.execute(f"""
                CREATE VIEW own AS SELECT * FROM exposure
                WHERE side = '{side}' AND account_id IN (SELECT account_id FROM served)""")
            db.execute(f"""
                CREATE VIEW recent AS SELECT * FROM own
                WHERE decided_at > (SELECT max(decided_at) FROM own) - INTERVAL {TRAFFIC_DAYS} DAY""")
            hourly = db.sql("""
                SELECT epoch_us(decided_at) // 3600000000 AS hour, count(*) AS requests FROM recent
                GROUP BY hour ORDER BY hour""").fetchnumpy()
            # Accounts that ask as often stand in the order in which they first asked.
            activity = db.sql("""
                SELECT account_id, count(*) AS activity FROM recent
                GROUP BY account_id ORDER BY activity DESC, min(row)""").to_arrow_table()
            if coverage.reads_partner(side):
                pairs[side] = db.sql("""
                    SELECT account_id, coalesce(partner_id, '') AS partner_id, count(*) AS activity
                    FROM recent GROUP BY ALL ORDER BY ALL""").df()
            names = coverage.context_names(side)
            if names and set(names) <= set(tables.columns("exposure")):
                chosen = ", ".join(f'"{name}"' for name in names)
                newest = db.sql(f"SELECT {chosen} FROM recent ORDER BY decided_at DESC, row LIMIT {CONTEXTS}")
                contexts[side] = newest.df()
        hours, count = (np.asarray(hourly[name], dtype=np.int64) for name in ("hour", "requests"))
        if not hours.size:
            continue
        # A day without a request has no information on the level, inside or outside the data.
        dates = np.unique(hours // 24)
        if np.unique(hours % 24).size == 1:
            profiles[side] = Profile(np.ones(24), int(count.sum()) / float(dates.size))
        else:
            # The first and the last day may lack hours: each hour of the day has a number of days of its own.
            there = (dates[:, None] * 24 + np.arange(24) >= hours[0]) & (
                dates[:, None] * 24 + np.arange(24) <= hours[-1]
            )
            days = there.sum(axis=0)
            profiles[side] = Profile.of_counts(hours, count * (days.max() / days[hours % 24]), float(days.max()))
        accounts[side] = Accounts(
            activity["account_id"].to_numpy().astype(str), activity["activity"].to_numpy().astype(np.float64)
        )
    return Traffic(profiles, accounts, pairs, contexts)
