"""Accounts in a campaign's ledger in Redis: their rows, and the replacement of identifiers in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import orjson
import redis
from redis.exceptions import ResponseError

from operations.erasure.record import Erasure, Erasures
from operations.erasure.source import Source, word
from serving.ledger.redis import rows
from serving.ledger.redis.connection import DurabilityCheck, connect
from serving.ledger.redis.layout import check_layout, keys
from serving.ledger.redis.lease import Lease
from serving.ledger.redis.scripts import KEYS
from shadowprice.errors import Conflict, Unavailable
from shadowprice.limits.sums import owner_of, renamed
from shadowprice.pacing.decision_log.basis import erased
from shadowprice.pacing.decision_log.records import Decision

NOTED = "erased_until"
"""Field of the sums with the time of the newest erasure that was made in the ledger."""
MOVE = """
for _, key in ipairs(KEYS) do
    local kept = redis.call('HGET', key, ARGV[1])
    if kept then
        redis.call('HINCRBY', key, ARGV[2], kept)
        redis.call('HDEL', key, ARGV[1])
    end
end
"""
"""Add a sum to another and remove it; KEYS: amounts, counts; ARGV: both names."""
OWNERS = tuple(map(Decision._fields.index, ("account_id", "partner_id")))
BASIS = Decision._fields.index("basis")
"""Places in a decision."""
BATCH = 1000
SECONDS = 60.0


class RedisAccounts(Source):
    """The ledger of a campaign at an address.

    Raises:
        Conflict: its layout is not that of this release.
        InvalidInput: not an address.
        Unavailable: Redis does not answer, or is no master.
    """

    def __init__(self, url: str, password: str | None, campaign: str) -> None:
        # The settings of Redis are the ledger's to check; some servers do not show them.
        self._client = connect(url, password, DurabilityCheck(declared=True))
        # One transaction holds all rows of an account.
        self._client.connection_pool.connection_kwargs["socket_timeout"] = SECONDS
        super().__init__(f"Redis ledger of {campaign}")
        self._lease = Lease(self._client, f"ledger:{{{campaign}}}:log_writer")
        check_layout(self._client, campaign)
        self._key = dict(zip(KEYS, keys(campaign), strict=True))

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:
        """Yield what each key holds of the requests that name the account, and its sums of limits.

        ``requests`` gets the requests of the account.
        """
        own: set[bytes] = set()
        for name, kept in self._scan("decision"):
            decided = rows.decision(kept)
            if account in (decided.account_id, decided.partner_id):
                own.add(name)
                requests |= {decided.request_id} if decided.account_id == account else set()
                yield {"table": "decision", **decided._asdict()}
        for key in ("outcome", "release", "limit_share"):
            held: Any = self._client.hmget(self._key[key], list(own)) if own else []
            for name, kept in zip(own, held, strict=True):
                if kept is not None:
                    yield {"table": key, "request_id": name.decode(), "kept": _text(key, kept)}
        for kept in cast("list[bytes]", self._client.lrange(self._key["corrected"], 0, -1)):
            row = rows.correction(kept)
            if row.request_id.encode() in own:
                yield {"table": "correction", **row._asdict()}
        for key in ("limit_amount", "limit_count"):
            for name, kept in self._scan(key):
                if owner_of(name.decode()) == account:
                    yield {"table": key, "name": name.decode(), "kept": kept.decode()}

    def erase(self, erasures: Erasures) -> int:
        """Make the erasures that the ledger does not note, in one transaction. Ledgers may run meanwhile.

        A request of a ledger while the rows are read is read as well: until there is none, nothing is written.

        Raises:
            Conflict: a key is gone.
            Unavailable: Redis does not answer.
        """
        try:
            noted = cast("bytes | None", self._client.hget(self._key["sums"], NOTED))
            first: Any = self._client.lrange(self._key["decided"], 0, 0)
            dates = [row.decided_at for row in rows.find(self._client, self._key["decision"], first) if row]
            due = erasures.after((noted or b"").decode(), dates[0] if dates else None)
            if not due:
                return 0
            changes = _Changes(erasures, due)
            while not self._made(changes, due[-1].at):
                pass
            with suppress(ResponseError):
                # The append-only file holds the replaced texts until it is written anew.
                self._client.bgrewriteaof()  # type: ignore[no-untyped-call]
            return changes.rows
        except redis.RedisError as error:
            raise Unavailable(f"{self.place}: {error}; repeat the command") from error

    def keep_log(self) -> None:
        """Keep every ledger from writing the log for the next :data:`SECONDS`.

        Raises:
            Conflict: a ledger writes it.
        """
        if not self._lease.take(SECONDS):
            raise Conflict(f"{self.place}: a ledger writes its log; stop all of them, wait a minute and try again")

    def _made(self, changes: _Changes, until: str) -> bool:
        """Read the next requests, or write the changes where there is none; return whether they are written."""
        decision, share, decided = (self._key[name] for name in ("decision", "limit_share", "decided"))
        with self._client.pipeline() as pipeline:
            pipeline.watch(decided)  # type: ignore[no-untyped-call]
            names: Any = pipeline.lrange(decided, changes.read, changes.read + BATCH - 1)
            if names:
                changes.add(names, pipeline.hmget(decision, names), pipeline.hmget(share, names))
                return False
            pipeline.multi()
            for key, mapping in ((decision, changes.decision), (share, changes.share)):
                if mapping:
                    pipeline.hset(key, mapping=mapping)
            for before, after in changes.sums.items():
                pipeline.eval(MOVE, 2, self._key["limit_amount"], self._key["limit_count"], before, after)
            pipeline.hset(self._key["sums"], NOTED, until)
            try:
                pipeline.execute()
            except redis.WatchError:
                return False
        return True

    def mentions(self, account: str) -> int:
        """Count the rows, with ids of requests and events, that contain the identifier."""
        pattern = re.compile(word(account), re.MULTILINE)
        matches = (
            pattern.search(name.decode()) or pattern.search(_text(key, kept))
            for key in HELD
            for name, kept in self._scan(key)
        )
        return sum(hit is not None for hit in matches)

    def _scan(self, key: str) -> Iterator[tuple[bytes, bytes]]:
        return cast("Iterator[tuple[bytes, bytes]]", self._client.hscan_iter(self._key[key], count=BATCH))


HELD = ("decision", "outcome", "event", "limit_share", "limit_amount")
"""Keys with texts that callers sent."""


def _text(key: str, kept: bytes) -> str:
    """Return what a field of a key holds as text; records as JSON."""
    return orjson.dumps(rows.unpack(kept)).decode() if key in ("decision", "outcome") else kept.decode()


class _Changes:
    """Fields to write and sums to move, of the requests that were read so far."""

    def __init__(self, erasures: Erasures, due: Sequence[Erasure]) -> None:
        self._erasures, self._due = erasures, due
        self.read = self.rows = 0
        self.decision: dict[bytes, bytes] = {}
        self.share: dict[bytes, bytes] = {}
        self.sums: dict[str, str] = {}

    def add(self, names: Sequence[bytes], decisions: Any, shares: Any) -> None:
        """Add requests with their decisions and sums as Redis keeps them."""
        for name, kept, sums in zip(names, decisions, shares, strict=True):
            row = rows.unpack(kept)
            matched = self._erasures.match([row[place] for place in OWNERS], self._due)
            if not matched:
                continue
            new = {before: erasure.pseudonym for before, erasure in matched.items()}
            # A record from before the field has none.
            own = slice(BASIS, BASIS + 1)
            row[own] = [erased(basis, *(row[place] for place in OWNERS)) for basis in row[own]]
            row = [new.get(value, value) if place in OWNERS else value for place, value in enumerate(row)]
            self.decision[name] = rows.pack(row)
            if sums is not None:
                after = {key: renamed(key, new) for key in sums.decode().split("\n")}
                self.share[name] = "\n".join(after.values()).encode()
                self.sums |= {before: fresh for before, fresh in after.items() if fresh != before}
        self.read += len(names)
        self.rows = len(self.decision)
