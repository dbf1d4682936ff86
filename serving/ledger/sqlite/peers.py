"""Ledgers in sqlite whose campaigns share limits: each file holds the sums of its own campaign.

A shared limit counts the sums of all its campaigns. One process keeps these files, and their writers take turns: the
others' sums are read from what they committed, and do not change before this writer's commit. So no commit spans two
files, and a crash between two commits leaves no sum wrong.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from serving.ledger.records import Ceiling
from serving.ledger.sqlite.database import open_for_reading
from serving.ledger.sqlite.usage import read_usage
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, Unavailable
from shadowprice.limits import name_of
from shadowprice.limits.usage import Usage


@dataclass
class Peers:
    """Files of the campaigns of one process, by name; writers of campaigns with a shared limit take turns."""

    files: dict[str, Path] = field(default_factory=dict)
    _turn: Lock = field(default_factory=Lock)
    _readers: dict[str, sqlite3.Connection] = field(default_factory=dict)

    def turn(self, campaign: Campaign) -> AbstractContextManager[object]:
        """Return what a writer holds from the start of a transaction to the end of its commit."""
        return self._turn if campaign.limits.shared else nullcontext()

    def check(self, campaign: Campaign) -> None:
        """Make sure that this process keeps the ledgers of all campaigns that share a limit with this one.

        Raises:
            Conflict: one is missing; names it.
        """
        for limit in campaign.limits.shared:
            missing = sorted(set(limit.campaigns) - {campaign.name, *self.files})
            if missing:
                raise Conflict(
                    f"limit {limit.name!r} of campaign {campaign.name!r} is shared with {missing}, whose ledgers this "
                    "process does not keep; keep all of them in one process (--campaigns), or use Redis"
                )

    def elsewhere(self, ceiling: Ceiling | None, sums: Iterable[str]) -> dict[str, Usage]:
        """Return the sums of the other campaigns that share their limits, added up, by name; for a writer in turn.

        Absent ones are zero. O(campaigns of the limits · sums).

        Raises:
            Unavailable: a file cannot be read.
        """
        bounds = {} if ceiling is None else ceiling.by_name
        wanted: dict[str, list[str]] = {}
        for key in dict.fromkeys(sums):
            bound = bounds.get(name_of(key))
            for name in () if bound is None else bound.campaigns:
                wanted.setdefault(name, []).append(key)
        usages: dict[str, Usage] = {}
        for name, theirs in wanted.items():
            try:
                read = read_usage(self._reader(name), theirs)
            except sqlite3.Error as error:
                raise Unavailable(
                    f"the ledger of {name!r}, which shares a limit, cannot be read: {error}; nothing was recorded"
                ) from error
            for key, usage in read.items():
                usages[key] = usages.get(key, Usage()).plus(*usage)
        return usages

    @contextmanager
    def reading(self, campaign: str) -> Iterator[sqlite3.Connection]:
        """Open the file of a campaign that shares a limit, to read for one caller.

        Raises:
            Unavailable: this process does not keep it, or it cannot be read.
        """
        if campaign not in self.files:
            raise Unavailable(f"the ledger of {campaign!r}, which shares a limit, is not kept by this process")
        try:
            with closing(open_for_reading(self.files[campaign])) as database:
                yield database
        except sqlite3.Error as error:
            raise Unavailable(f"the ledger of {campaign!r}, which shares a limit, cannot be read: {error}") from error

    def close(self, campaign: str) -> None:
        """Let go of a file."""
        with self._turn:
            reader = self._readers.pop(campaign, None)
            if reader is not None:
                reader.close()

    def _reader(self, name: str) -> sqlite3.Connection:
        if name not in self.files:
            raise Unavailable(f"the ledger of {name!r}, which shares a limit, is not kept by this process")
        if name not in self._readers:
            self._readers[name] = open_for_reading(self.files[name])
        return self._readers[name]
