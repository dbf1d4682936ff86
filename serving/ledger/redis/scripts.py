"""The scripts, and running many of them in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import NoScriptError

from serving.ledger.groups import Group
from shadowprice.errors import ShadowpriceError, Unavailable

KEYS = (
    "decision",
    "promise",
    "release",
    "outcome",
    "event",
    "sums",
    "decided",
    "settled",
    "asked:customer",
    "asked:merchant",
)
"""What a campaign has, in the order in which every script gets it."""


def text(name: str) -> str:
    """The text of a script as it stands in its file."""
    return (files("serving.ledger.redis") / f"{name}.lua").read_text()


@cache
def source(name: str) -> str:
    """The text of a script, with what all share before it."""
    return text("common") + text(name)


@cache
def digest(name: str) -> str:
    """What Redis calls the script."""
    return sha1(source(name).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Call:
    """A script to run; ``read`` makes the result of what it answers, or raises."""

    script: str
    arguments: Sequence[str | int | bytes]
    read: Callable[[Any], Any]


class Runner:
    """Runs groups of calls, each group in one round trip, and so behind one sync of the file."""

    def __init__(self, client: redis.Redis, keys: Sequence[str]) -> None:
        self._client = client
        self._keys = keys

    def __call__(self, group: Group) -> None:
        """Run the calls and resolve their futures."""
        try:
            answers = self._run([call for call, _ in group])
        except redis.RedisError as error:
            failure = Unavailable(f"the ledger's Redis does not answer: {error}; send the call again")
            for _, future in group:
                future.set_exception(failure)
            return
        for (call, future), answer in zip(group, answers, strict=True):
            try:
                if isinstance(answer, redis.RedisError):
                    raise Unavailable(f"the ledger's Redis refuses to write: {answer}")
                future.set_result(call.read(answer))
            except ShadowpriceError as error:
                future.set_exception(error)

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
        with self._client.pipeline(transaction=False) as pipeline:
            for call in calls:
                pipeline.evalsha(digest(call.script), len(self._keys), *self._keys, *call.arguments)
            return pipeline.execute(raise_on_error=False)
