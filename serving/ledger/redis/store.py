"""The Redis store: scripts write, plain commands read."""

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import redis
from redis.client import Pipeline
from redis.exceptions import ResponseError

from serving.http.limits import MAX_SWEEP
from serving.ledger.clock import Calendar, Clock, monotonic, wall
from serving.ledger.durability import ONE_IF_ANY, Durability
from serving.ledger.groups import Groups
from serving.ledger.moves import Allowance, Move, MoveRow, State, Step, check_own
from serving.ledger.records import Answer, Ceiling, Correction, Counted, Dates, Owners, ReportedOutcome, Row, Storage
from serving.ledger.redis import rows, sums
from serving.ledger.redis.calls import authorize, release, settle
from serving.ledger.redis.condition import Condition
from serving.ledger.redis.connection import DurabilityCheck, NotDurable, check_durable, connect, connected_replicas
from serving.ledger.redis.corrections import correct
from serving.ledger.redis.layout import check_layout, keys
from serving.ledger.redis.lease import Lease
from serving.ledger.redis.limits import read_owners, read_usage
from serving.ledger.redis.moves import read_moves, take_step
from serving.ledger.redis.peers import SharedLimits
from serving.ledger.redis.scripts import KEYS, Call, Runner, unavailable
from serving.ledger.redis.seen import read_seen, went_back
from serving.ledger.redis.writers import forget_writers, records_of
from serving.ledger.seen import EPOCH, Seen
from serving.ledger.totals import LedgerTotals
from serving.ledger.traffic import Traffic
from serving.ledger.witness import Witness
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, InvalidInput, Unavailable
from shadowprice.limits.usage import Usage
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow

logger = logging.getLogger("serving")
Result = TypeVar("Result")
RECORDS = ("decided", "settled", "corrected", "moved")
"""Keys of what was recorded, in the order of recording: decisions, outcomes, corrections, moves."""


class RedisStore:
    """A :class:`serving.ledger.store.Store` in Redis; several processes may share it.

    ``kept`` are the campaigns of a process that serves them; None for one that serves none, such as a recovery.

    Raises:
        InvalidInput: not an address, or a Redis that may lose records.
        Conflict: the campaign's ledger there has another layout or other levels, or fewer records than the witness;
            or a running ledger describes a shared limit otherwise.
        Unavailable: Redis does not answer.
    """

    def __init__(
        self,
        url: str,
        password: str | None,
        campaign: Campaign,
        clock: Clock = monotonic,
        durability: Durability | None = None,
        kept: Collection[str] | None = None,
        wall: Clock = wall,
    ) -> None:
        durability = durability or Durability()
        self._campaign = campaign
        self._check = DurabilityCheck(durability.declared)
        self._client = connect(url, password, self._check)
        self._check_durable()
        check_layout(self._client, campaign.name)
        own = keys(campaign.name)
        self._key = dict(zip(KEYS, own, strict=True))
        self._condition = Condition()
        seen = read_seen(self._client, *(self._key[name] for name in ("sums", *RECORDS)))
        self._read(lambda client: sums.note_terms(client, self._key["sums"], campaign))
        self._read(lambda client: forget_writers(client, self._key["sums"]))
        self._witness = Witness(durability.witness, campaign.name)
        self._witness.check(seen)
        self._witness.note(seen)
        self._shared = None if kept is None else SharedLimits(self._client, campaign, kept)
        self._read(lambda _: self._check_shared())
        self._replicas = durability.replicas
        kept_time: Any = self._read(lambda client: client.hmget(self._key["sums"], ["date", "ledger_time"]))
        newest, ledger_time = (int(moment or 0) for moment in kept_time)
        self._calendar = Calendar(newest, clock, wall)
        replicas = self._read(self._acknowledging)
        self._runner = Runner(self._client, own, clock, seen, self._condition, self._calendar, ledger_time, replicas)
        self._groups = Groups("ledger-redis", self._runner)
        self._lease = Lease(self._client, f"ledger:{{{campaign.name}}}:log_writer")

    @property
    def alive(self) -> bool:
        """Return whether calls are still sent and Redis has all that was recorded."""
        return self._groups.alive and self._condition.went_back is None

    @property
    def trouble(self) -> str | None:
        """Reason why writes fail."""
        return self._condition.trouble

    def date(self) -> int:
        """Date that every script compares with that of Redis."""
        return self._calendar.now()

    def authorize(self, calls: Sequence[Sequence[Row]], ceiling: Ceiling | None, at: int) -> Future[list[Answer]]:
        """Implements :class:`~serving.ledger.store.Store`, as the other methods do."""
        return self._groups.submit(authorize(calls, ceiling, at))

    def settle(self, outcomes: Sequence[ReportedOutcome], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Capture."""
        return self._groups.submit(settle(outcomes, ceiling, at))

    def correct(self, corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Correct."""
        return self._groups.submit(correct(corrections, ceiling, at))

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release unused authorizations."""
        return self._groups.submit(release(request_ids, at))

    def expire(self, at: int) -> Future[int]:
        """Release expired authorizations."""
        return self._groups.submit(Call("expire", {"at": at, "most": MAX_SWEEP}, int))

    def move(self, step: Step, move: Move, allowance: Allowance, end: State | None, at: int) -> Future[State]:
        """Take a step of a move."""
        check_own(self._campaign.name, step, move)
        return self._groups.submit(take_step(step, move, allowance, end, at))

    def moves(self) -> list[MoveRow]:
        """Moves, the oldest first."""
        return self._read(lambda client: read_moves(client, self._key))

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""
        if not request_ids:
            return {}
        kept = self._read_checked(lambda pipeline: pipeline.hmget(self._key["decision"], list(request_ids)))
        return {decision.request_id: decision for decision in rows.decisions(kept) if decision is not None}

    def totals(self) -> LedgerTotals:
        """All sums, of one moment: they are one hash."""
        raw = self._read_checked(lambda pipeline: pipeline.hgetall(self._key["sums"]))
        return sums.totals(raw, self._campaign)

    def usage(self, sums: Sequence[str]) -> dict[str, Usage]:
        """Sums of further limits."""
        return self._read(lambda client: read_usage(client, self._key, sums)) if sums else {}

    def owners(self, campaign: str, begin: str, after: str, limit: int) -> Owners:
        """Sums of one limit by owner, of any campaign in this Redis."""
        return self._read(lambda client: read_owners(client, campaign, begin, after, limit))

    def dates(self) -> Dates:
        """The last decision that was recorded, and the time of Redis."""
        return self._read(lambda client: sums.read_dates(client, self._key))

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests by hour, from the counts of each quarter; and the newest, from the order of recording."""
        return self._read(lambda client: sums.read_traffic(client, self._key, since, limit))

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """Decisions in the order of their recording."""

        def query(client: redis.Redis) -> list[Decision]:
            names: Any = client.lrange(self._key["decided"], sequence, sequence + limit - 1)
            return [decision for decision in rows.find(client, self._key["decision"], names) if decision is not None]

        return self._read(query)

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """Outcomes in the order of their recording."""

        def query(client: redis.Redis) -> list[OutcomeRow]:
            names: Any = client.lrange(self._key["settled"], sequence, sequence + limit - 1)
            kept: Any = client.hmget(self._key["outcome"], names) if names else []
            return [rows.outcome(row) for row in kept]

        return self._read(query)

    def storage(self) -> Storage:
        """Memory that Redis uses and may use, and rows."""
        return self._read(self._storage)

    def corrections_after(self, sequence: int, limit: int) -> list[CorrectionRow]:
        """Corrections in the order of their recording."""

        def query(client: redis.Redis) -> list[CorrectionRow]:
            kept: Any = client.lrange(self._key["corrected"], sequence, sequence + limit - 1)
            return [rows.correction(row) for row in kept]

        return self._read(query)

    def check(self) -> None:
        """Check the role and settings of Redis and the shared limits, and note in the witness what was recorded."""
        try:
            check_durable(self._client, self._check)
            self._runner.replicas = self._acknowledging(self._client)
            if self._shared is not None:
                # Noted also where it differs, so that neither ledger counts as ended and the other goes on.
                self._shared.note()
                self._condition.unlike = self._shared.difference()
        except NotDurable as error:
            self._condition.unsafe = str(unavailable(error))
            raise unavailable(error) from error
        except redis.RedisError as error:
            # Whether it is safe is not known; calls on a new connection find out.
            raise unavailable(error) from error
        self._condition.unsafe = None
        if self._condition.unlike is not None:
            raise Unavailable(self._condition.unlike)
        self._witness.note(self._runner.seen)

    def may_log(self, seconds: float) -> bool:
        """Return whether this process holds the lease of the log's writer."""
        return self._read(lambda _: self._lease.take(seconds))

    def close(self) -> None:
        """Finish pending calls, release the log's lease, note the witness and disconnect."""
        self._groups.close()
        with suppress(redis.RedisError):
            self._lease.leave()
            self._client.hdel(self._key["sums"], self._runner.own.field)
            if self._shared is not None:
                self._shared.leave()
        self._client.close()
        try:
            self._witness.note(self._runner.seen)
        except Unavailable as error:
            logger.warning("%s", error)

    def _acknowledging(self, client: redis.Redis) -> int:
        """Return the number of replicas that must acknowledge a group from now on."""
        return min(1, connected_replicas(client)) if self._replicas == ONE_IF_ANY else self._replicas

    def _check_shared(self) -> None:
        if self._shared is not None:
            difference = self._shared.difference()
            if difference is not None:
                raise Conflict(difference)
            self._shared.note()

    def _check_durable(self) -> None:
        try:
            check_durable(self._client, self._check)
        except NotDurable as error:
            raise InvalidInput(str(error), field="redis") from error
        except redis.RedisError as error:
            raise Unavailable(f"the ledger's Redis does not answer: {error}") from error

    def _storage(self, client: redis.Redis) -> Storage:
        try:
            memory: Any = client.info("memory")
        except ResponseError:
            # Managed ones may forbid it.
            memory = {}
        decisions, outcomes = (int(client.hlen(self._key[key])) for key in ("decision", "outcome"))  # type: ignore[arg-type]
        return Storage(
            used_bytes=memory.get("used_memory"),
            limit_bytes=memory.get("maxmemory", 0),
            decisions=decisions,
            outcomes=outcomes,
        )

    def _read_checked(self, command: Callable[[Pipeline], object]) -> Any:
        """Return the answer of a command to a store that lost no records, both of one moment.

        Raises:
            Unavailable: it lost records, or it does not answer.
        """
        # Read first: a call that ends meanwhile adds records that this process has then seen.
        seen, own = self._runner.seen, self._runner.own

        def query(client: redis.Redis) -> list[Any]:
            with client.pipeline(transaction=True) as pipeline:
                pipeline.hmget(self._key["sums"], [EPOCH, own.field])
                for name in RECORDS:
                    pipeline.llen(self._key[name])
                command(pipeline)
                return pipeline.execute()

        (epoch, kept), *counts, answer = self._read(query)
        current, written = Seen((epoch or b"").decode(), *counts), records_of(kept)
        if seen.lost_by(current) or written < own.records:
            self._condition.went_back = went_back(seen, counts, own, written)
            self._condition.check()
        return answer

    def _read(self, query: Callable[[redis.Redis], Result]) -> Result:
        self._condition.check()
        try:
            try:
                return query(self._client)
            except redis.TimeoutError:
                raise
            except redis.ConnectionError:
                # A kept connection may have been closed meanwhile.
                return query(self._client)
        except redis.RedisError as error:
            raise unavailable(error) from error
