"""The scripts, and running many of them in one round trip."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any
from uuid import uuid4

import redis
from redis.exceptions import NoScriptError

from serving.ledger.clock import Calendar, Clock, time_of
from serving.ledger.groups import Group
from serving.ledger.redis.condition import Condition
from serving.ledger.redis.connection import NotDurable
from serving.ledger.redis.rows import pack, unpack
from serving.ledger.redis.seen import went_back
from serving.ledger.redis.writers import Own
from serving.ledger.seen import Seen
from shadowprice.errors import ShadowpriceError, Unavailable
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow, columns

REPLICA_MILLISECONDS = 1000
"""Longest wait for the acknowledgements of replicas: less than a connection waits for its answer."""

KEYS = (
    "decision",
    "hold",
    "release",
    "outcome",
    "event",
    "sums",
    "decided",
    "settled",
    "correction",
    "corrected",
    "traffic",
    "limit_share",
    "limit_amount",
    "limit_count",
    "move",
    "moved",
    "move_sent",
)
"""What a campaign has, in the order in which every script gets it."""
AFTER = "local answer = run()\nreturn {cmsgpack.pack(answer), written()}\n"
"""End of every script."""


def text(name: str) -> str:
    """The text of a script as it stands in its file."""
    return (files("serving.ledger.redis") / f"{name}.lua").read_text()


@cache
def source(name: str) -> str:
    """The text of a script, with what all share around it: it answers with the numbers of records after it."""
    return f"{_places()}{text('common')}\nlocal function run()\n{text(name)}\nend\n{AFTER}"


def _places() -> str:
    """Return tables of the place of each field in a record, from 1 on as Lua counts."""
    records = {"DECISION_AT": Decision, "OUTCOME_AT": OutcomeRow, "CORRECTION_AT": CorrectionRow}
    return "".join(
        f"local {name} = {{{', '.join(f'{field.name} = {place}' for place, field in enumerate(columns(record), 1))}}}\n"
        for name, record in records.items()
    )


@cache
def digest(name: str) -> str:
    """Name of the script in Redis."""
    return sha1(source(name).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Call:
    """A script to run; ``read`` makes the result of what it answers, or raises.

    message  what the script reads as ``CALL``
    keys     keys that it reads beside those of the campaign
    date     that its sums of limits are of; None: it has none
    """

    script: str
    message: Mapping[str, Any]
    read: Callable[[Any], Any]
    keys: Sequence[str] = ()
    date: int | None = None


class Runner:
    """Runs groups of calls, each group in one round trip, and so behind one sync of the file.

    replicas  replicas that must acknowledge a group before it is answered
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: Sequence[str],
        clock: Clock,
        seen: Seen,
        condition: Condition,
        calendar: Calendar,
        ledger_time: int,
        replicas: int = 0,
    ) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        # Ledger time, and when it was that.
        self._told = ledger_time, clock()
        self._condition = condition
        self._calendar = calendar
        self.replicas = replicas
        self.seen = seen
        self.own = Own(uuid4().hex, 0)

    def __call__(self, group: Group) -> None:
        """Run the calls and resolve their futures."""
        try:
            self._condition.check()
            answers = self._answers([call for call, _ in group])
        except (redis.RedisError, Unavailable) as error:
            failure = unavailable(error)
            self._condition.failed = str(failure)
            for _, future in group:
                future.set_exception(failure)
            return
        self._condition.failed = next((str(answer) for answer in answers if isinstance(answer, Unavailable)), None)
        for (call, future), answer in zip(group, answers, strict=True):
            try:
                if isinstance(answer, Unavailable):
                    raise answer
                future.set_result(call.read(answer))
            except ShadowpriceError as error:
                future.set_exception(error)

    def _answers(self, calls: Sequence[Call]) -> list[Any]:
        """Answer of each script, or an error for its caller.

        Raises:
            Unavailable: Redis lost records, or too few replicas have them; or it has another date than this process.
        """
        answers: list[Any] = []
        lost = newest = None
        for answer in self._run(calls):
            if isinstance(answer, redis.RedisError):
                answers.append(Unavailable(f"the ledger's Redis refuses to write: {answer}"))
                continue
            if answer[0] == b"date":
                newest = int(answer[1])
                continue
            first, *counts, written, ledger_time = answer
            if first == b"went_back":
                lost = went_back(self.seen, counts, self.own, written)
                continue
            self.seen = self.seen.joined(counts)
            self.own = self.own._replace(records=max(self.own.records, written))
            self._told = ledger_time, self._sent_at
            answers.append(unpack(first))
        if lost is not None:
            self._condition.went_back = lost
            raise Unavailable(lost)
        if newest is not None:
            date = time_of(self._calendar.now())
            self._calendar.restart(newest)
            raise Unavailable(
                f"the ledger's date {date.isoformat()} is before {time_of(newest).isoformat()}, the newest in its "
                "Redis, or ahead of the clock of Redis; set both clocks right and send the call again"
            )
        return answers

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        try:
            answers = self._send(calls)
        except redis.TimeoutError:
            raise
        except redis.ConnectionError:
            # A kept connection may have been closed meanwhile. Every script is idempotent, so once more.
            answers = self._send(calls)
        forgotten = [place for place, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if forgotten:
            # Redis forgets scripts when it restarts.
            for name in {calls[place].script for place in forgotten}:
                self._client.script_load(source(name))
            for place, answer in zip(forgotten, self._send([calls[place] for place in forgotten]), strict=True):
                answers[place] = answer
        return answers

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        replicas = self.replicas
        date = self._calendar.now()
        # An answer that is lost tells nothing, so a group that is sent again counts no time twice.
        ledger_time, told_at = self._told
        self._sent_at = self._clock()
        latest = ledger_time + self._sent_at - told_at
        with self._client.pipeline(transaction=False) as pipeline:
            for place, call in enumerate(calls):
                keys = (*self._keys, *call.keys)
                stamp = self._stamp(latest if place == 0 else 0, date if call.date is None else call.date)
                pipeline.evalsha(digest(call.script), len(keys), *keys, pack(call.message), pack(stamp))
            if replicas:
                # WAIT is about writes of its own connection; a call that is repeated on a new one writes nothing else.
                pipeline.incr(f"{self._keys[0]}:sent")
                pipeline.wait(replicas, REPLICA_MILLISECONDS)
            answers: list[Any] = pipeline.execute(raise_on_error=False)
        if replicas:
            *answers, written, acknowledged = answers
            for reply in (written, acknowledged):
                if isinstance(reply, redis.RedisError):
                    raise reply
            if acknowledged < replicas and not any(isinstance(answer, redis.RedisError) for answer in answers):
                raise Unavailable(
                    f"recorded, but by {acknowledged} of {replicas} replicas; send the call again, which is safe"
                )
        return answers

    def _stamp(self, latest: int, date: int) -> dict[str, Any]:
        """Return what every call gets when it is sent: what this process has seen and written, and the time.

        latest  ledger time that it may be at most, for the first call of a group; 0 for the others, which keep that
        """
        epoch, *counts = self.seen
        writer, own = self.own
        return {"epoch": epoch, "counts": counts, "writer": writer, "own": own, "latest": latest, "date": date}


def unavailable(error: redis.RedisError | Unavailable) -> Unavailable:
    """Return the error of a call for its caller."""
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, NotDurable):
        return Unavailable(f"the ledger's Redis may lose records: {error}")
    return Unavailable(f"the ledger's Redis does not answer: {error}; send the call again")
