"""Campaigns that share limits and whose ledgers are different processes on one Redis.

One process compares the files that it reads. Those of other processes are compared by what each running ledger notes in
its sums: how its file describes the shared limits, and when it last checked.
"""

from collections.abc import Collection
from typing import Any, cast

import orjson
import redis

from serving.ledger.redis.layout import keys
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput
from shadowprice.limits import Limits, check_alike

SHARED = "shared_limits"
"""Field of the sums with the time of Redis in seconds and the limits that the campaign's file shares, as JSON."""
RUNNING_SECONDS = 300
"""Age of a note from which on its ledger counts as ended. A ledger that ends in order removes its note."""


class SharedLimits:
    """The note of one campaign, and its comparison with those of the others.

    kept  campaigns of this process: their files are compared at the start, and a rolling upgrade replaces their notes
    """

    def __init__(self, client: redis.Redis, campaign: Campaign, kept: Collection[str]) -> None:
        self._client = client
        self._campaign = campaign
        shared = campaign.limits.shared
        self._described = campaign.limits.only(shared)
        self._others = sorted({name for limit in shared for name in limit.campaigns} - {campaign.name, *kept})

    def difference(self) -> str | None:
        """Return the sentence for a running ledger whose file describes a shared limit otherwise, or None.

        A campaign without a running ledger is not compared. O(campaigns). Raises as redis.
        """
        if not self._others:
            return None
        now = self._now()
        with self._client.pipeline(transaction=True) as pipeline:
            for name in self._others:
                pipeline.hget(self._sums(name), SHARED)
            notes: list[Any] = pipeline.execute()
        for name, kept in zip(self._others, notes, strict=True):
            note = None if kept is None else orjson.loads(kept)
            if note is None or note["at"] < now - RUNNING_SECONDS:
                continue
            try:
                check_alike({self._campaign.name: self._described, name: Limits.from_dict(note["limits"])})
            except InvalidInput as error:
                return (
                    f"{error}; the running ledger of {name!r} has another file: end the ledgers of all campaigns that "
                    "share the limit, and start them with files that describe it alike"
                )
        return None

    def note(self) -> None:
        """Write how the campaign's file describes the limits, and that its ledger runs. Raises as redis."""
        content = orjson.dumps({"at": self._now(), "limits": self._described.to_dict()})
        self._client.hset(self._sums(self._campaign.name), SHARED, content.decode())

    def leave(self) -> None:
        """Remove the note; another replica writes it again. Raises as redis."""
        self._client.hdel(self._sums(self._campaign.name), SHARED)

    def _now(self) -> int:
        seconds, _ = cast("tuple[int, int]", self._client.time())
        return seconds

    def _sums(self, name: str) -> str:
        (key,) = keys(name, names=("sums",))
        return key
