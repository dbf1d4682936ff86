"""The Redis store: scripts write, plain commands read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import orjson
import redis

from serving.ledger.groups import Groups
from serving.ledger.redis.connection import check_durable, connect
from serving.ledger.redis.layout import check_layout, keys
from serving.ledger.redis.scripts import KEYS, Call, Runner
from serving.ledger.refusals import captured, other_content, other_outcome, other_owner
from serving.ledger.store import CAUSES, SWEEP, Counted, Decision, Entry, Outcome, OutcomeRow, Recorded, time_of
from serving.ledger.totals import Totals
from serving.ledger.traffic import HOUR, Asked, Hour, Traffic
from shadowprice.campaign import SIDES, Campaign
from shadowprice.errors import Unavailable

Result = TypeVar("Result")
PROPENSITY = Decision._fields.index("propensity")
"""Place of the propensity in a decision; the probabilities of all levels follow."""


class RedisStore:
    """A :class:`serving.ledger.store.Store` in Redis; several ledgers may share it.

    Raises:
        InvalidInput: not an address, or a Redis that may lose what it was told.
        Conflict: the campaign's books there have another layout.
        Unavailable: Redis does not answer.
    """

    def __init__(self, url: str, password: str | None, campaign: Campaign) -> None:
        self._campaign = campaign
        self._client = connect(url, password)
        check_durable(self._client)
        check_layout(self._client, campaign.name)
        own = keys(campaign.name)
        self._key = dict(zip(KEYS, own, strict=True))
        self._groups = Groups("ledger-redis", Runner(self._client, own))

    @property
    def alive(self) -> bool:
        """Whether calls are still sent."""
        return self._groups.alive

    def authorise(self, entries: Sequence[Entry], ceiling: int | None, at: int) -> Future[list[Recorded]]:
        """As :class:`~serving.ledger.store.Store` says; so are the others."""
        arguments: list[str | int | bytes] = ["" if ceiling is None else ceiling, at, SWEEP]
        reserved = {entry.wanted.side: entry.reserved for entry in entries}
        arguments += [",".join(map(str, reserved.get(side, ()))) for side in SIDES]
        for entry in entries:
            wanted, spare = entry.wanted, entry.spare
            arguments += [
                wanted.request_id,
                wanted.account_id,
                wanted.side,
                entry.expires_at,
                wanted.incentive,
                wanted.reserved,
                wanted.level,
                wanted.reason,
                repr(float(wanted.propensity)),
                ",".join(repr(float(share)) for share in wanted.propensities),
                *_around_probabilities(wanted),
                spare.level,
                *_around_probabilities(spare),
            ]

        def read(answer: list[Any]) -> list[Recorded]:
            if answer[0] == b"conflict":
                raise other_owner(entries[answer[1]].wanted, answer[1])
            return [
                Recorded(_decision(kept), repeat=True)
                if isinstance(kept, bytes)
                else Recorded(entry.at(None if kept < 0 else kept), repeat=False)
                for entry, kept in zip(entries, answer, strict=True)
            ]

        return self._groups.submit(Call("authorise", arguments, read))

    def settle(self, outcomes: Sequence[Outcome], at: int) -> Future[Counted]:
        """Capture."""
        arguments: list[str | int | bytes] = [at]
        for outcome in outcomes:
            arguments += [
                f"{outcome.source}\n{outcome.event_id}",
                outcome.request_id,
                outcome.side,
                repr(outcome.response),
                outcome.cost,
                outcome.content,
                orjson.dumps([outcome.side, outcome.observed_at]),
            ]

        def read(answer: Any) -> Counted:
            if isinstance(answer, int):
                return Counted(answer, len(outcomes) - answer)
            if answer[0] == b"content":
                raise other_content(outcomes[answer[1]])
            raise other_outcome(outcomes[answer[1]], float(answer[2]), int(answer[3]))

        return self._groups.submit(Call("settle", arguments, read))

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release what was not made use of."""

        def read(answer: Any) -> Counted:
            if isinstance(answer, int):
                return Counted(answer, len(request_ids) - answer)
            raise captured(answer[1].decode())

        return self._groups.submit(Call("release", [at, *request_ids], read))

    def expire(self, at: int) -> Future[int]:
        """Release what is due."""
        return self._groups.submit(Call("expire", [at, SWEEP], int))

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""
        found = self._read(lambda client: self._decisions(client, request_ids))
        return {decision.request_id: decision for decision in found if decision is not None}

    def totals(self) -> Totals:
        """All sums, of one moment: they are one hash."""
        raw: Any = self._read(lambda client: client.hgetall(self._key["sums"]))
        sums = {tuple(name.decode().split("|")): value for name, value in raw.items()}
        sides = self._campaign.sides
        amount = {
            name: {side: int(sums.get((name, side), 0)) for side in sides}
            for name in ("authorised", "reserved", "closed", "spent", "late", "outcomes", *CAUSES)
        }
        return Totals(
            decisions={
                (name[1], int(name[2]), name[3]): int(count) for name, count in sums.items() if name[0] == "decisions"
            },
            authorised=amount["authorised"],
            outstanding={side: amount["reserved"][side] - amount["closed"][side] for side in sides},
            spent=amount["spent"],
            responses={side: float(sums.get(("responses", side), 0.0)) for side in sides},
            outcomes=amount["outcomes"],
            released={(side, cause): amount[cause][side] for side in sides for cause in CAUSES},
            late=amount["late"],
        )

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests by hour, from the times of each side; and the newest, from the order of recording."""
        return self._read(lambda client: self._traffic(client, since, limit))

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """Decisions in the order of their recording."""

        def query(client: redis.Redis) -> list[Decision]:
            names: Any = client.lrange(self._key["decided"], sequence, sequence + limit - 1)
            return [decision for decision in self._decisions(client, names) if decision is not None]

        return self._read(query)

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """Outcomes in the order of their recording."""

        def query(client: redis.Redis) -> list[OutcomeRow]:
            names: Any = client.lrange(self._key["settled"], sequence, sequence + limit - 1)
            rows: Any = client.hmget(self._key["outcome"], names) if names else []
            return [_outcome(name.decode(), row) for name, row in zip(names, rows, strict=True)]

        return self._read(query)

    def close(self) -> None:
        """Finish what was called and hang up."""
        self._groups.close()
        self._client.close()

    def _traffic(self, client: redis.Redis, since: int, limit: int) -> Traffic:
        hours = []
        for side in self._campaign.sides:
            key = self._key[f"asked:{side}"]
            start = since
            while True:
                # The first request at or after ``start`` says which hour is the next that is not empty.
                first: Any = client.zrange(key, start, "+inf", byscore=True, offset=0, num=1, withscores=True)
                if not first:
                    break
                hour = (int(first[0][1]) - since) // HOUR
                end = since + (hour + 1) * HOUR
                count: Any = client.zcount(key, start, f"({end}")
                hours.append((hour, side, int(count)))
                start = end
        names: Any = client.lrange(self._key["decided"], -limit, -1) if limit else []
        asked = [
            Asked(decision.request_id, decision.account_id, decision.side)
            for decision in self._decisions(client, names[::-1])
            if decision is not None and decision.decided_at >= since
        ]
        return Traffic([Hour(time_of(since + hour * HOUR), side, count) for hour, side, count in sorted(hours)], asked)

    def _decisions(self, client: redis.Redis, request_ids: Sequence[str | bytes]) -> list[Decision | None]:
        if not request_ids:
            return []
        kept: Any = client.hmget(self._key["decision"], list(request_ids))
        return [None if value is None else _decision(value) for value in kept]

    def _read(self, query: Callable[[redis.Redis], Result]) -> Result:
        try:
            try:
                return query(self._client)
            except redis.TimeoutError:
                raise
            except redis.ConnectionError:
                # A kept connection may have been closed meanwhile.
                return query(self._client)
        except redis.RedisError as error:
            raise Unavailable(f"the ledger's Redis does not answer: {error}") from error


def _around_probabilities(decision: Decision) -> tuple[bytes, bytes]:
    """JSON of a decision before its propensity and after its probabilities, which the script computes."""
    before, after = decision[:PROPENSITY], decision[PROPENSITY + 2 :]
    return orjson.dumps(list(before))[:-1] + b",", b"," + orjson.dumps(list(after))[1:]


def _decision(kept: bytes) -> Decision:
    row: list[Any] = orjson.loads(kept.split(b"\n", 3)[3])
    row[PROPENSITY] = float(row[PROPENSITY])
    row[PROPENSITY + 1] = tuple(map(float, row[PROPENSITY + 1]))
    return Decision(*row)


def _outcome(request_id: str, kept: bytes) -> OutcomeRow:
    late, response, cost, recorded_at, row = kept.split(b"\n", 4)
    side, observed_at = orjson.loads(row)
    return OutcomeRow(request_id, side, float(response), int(cost), late == b"1", observed_at, int(recorded_at))
