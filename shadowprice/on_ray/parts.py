"""Work on the parts of something large, one after the other in this process or side by side on Ray actors."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from shadowprice.errors import MissingExtra, ShadowpriceError, Unavailable
from shadowprice.on_ray.local import join_ray

Part = TypeVar("Part")
Found = TypeVar("Found")

RESTARTS = 3
"""Times that an actor is replaced, and that a part is tried again on another one."""
AHEAD = 2
"""Parts of each actor that are waiting, running or finished and not taken yet; fewer in all start no actor."""
PATIENCE = 600
"""Seconds within which the next part has to be done."""


class Actors:
    """Ray actors, of one processor each; they start when they are first asked and end with :meth:`close`.

    Fewer parts than workers start an actor each and no more: a cluster may not have processors for all.

    Args:
        workers: how many.
        folder: that all of them reach at the same path; None where they exchange no files.
        address: of a Ray cluster; by default the one of ``RAY_ADDRESS``, else Ray starts on this machine.

    actors  their handles, empty until they start
    """

    def __init__(self, workers: int, folder: Path | None = None, address: str | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("several workers need ray; install shadowprice[ray]") from error
        self.workers, self.folder, self.address = workers, folder, address
        self._ray, self._started = ray, False
        self._kind: Any = None
        self.actors: list[Any] = []

    def each(self, work: Callable[[Part], Found], parts: Iterable[Part]) -> Iterator[Found]:
        """Yield the result of each part, in order. The parts of an actor that dies are done by another one."""
        rest = iter(parts)
        first = list(islice(rest, AHEAD * self.workers))
        if len(first) < AHEAD * self.workers:
            # So few are done in less time than Ray takes to start.
            yield from map(work, first)
            return
        held, waiting = self.send(work), deque[Any]()
        self._start(self.workers)
        for number, part in enumerate(chain(first, rest)):
            if len(waiting) == AHEAD * self.workers:
                yield self._taken(waiting.popleft())
            waiting.append(self._asked(number, held, part))
        while waiting:
            yield self._taken(waiting.popleft())

    def send(self, work: Callable[[Part], Found]) -> list[Any]:
        """Return a reference to a work that each actor reads once."""
        self._start(0)
        return [self._ray.put(work)]

    def at_once(self, works: Sequence[list[Any]], parts: Sequence[tuple[int, Any]]) -> list[Any]:
        """Return the results of all parts. The actor of a part's number does it, by its own work of :meth:`send`."""
        self._start(1 + max((number for number, _ in parts), default=-1))
        waiting = [self._asked(number, works[number % self.workers], part) for number, part in parts]
        return [self._taken(each) for each in waiting]

    def close(self) -> None:
        """End the actors, and Ray where they started it."""
        actors, self.actors, self._kind = self.actors, [], None
        for actor in actors if self._ray.is_initialized() else ():
            self._ray.kill(actor)
        if self._started:
            self._started = False
            self._ray.shutdown()

    def _start(self, parts: int) -> None:
        if self._kind is None:
            self._started = join_ray(self._ray, self.workers, self.address)
            self._kind = self._ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS)(_Actor)
        while len(self.actors) < min(self.workers, parts):
            self.actors.append(self._kind.remote())

    def _asked(self, number: int, held: list[Any], part: Any) -> Any:
        return self.actors[number % self.workers].do.remote(held, part)

    def _taken(self, result: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(result, timeout=PATIENCE)
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, ShadowpriceError) else error from None
        except errors.GetTimeoutError:
            asked = f"has the Ray cluster {self.workers} processors that are free?"
            raise Unavailable(f"no Ray actor was done within {PATIENCE} s; {asked}") from None
        except errors.RayActorError as error:
            raise Unavailable(f"a Ray actor died {RESTARTS + 1} times, the last with: {error}") from error


class _Actor:
    """Process that does one work after the other, part by part."""

    def __init__(self) -> None:
        self._held: Any = None

    def do(self, held: list[Any], part: Any) -> Any:
        """Do a part of the work behind a reference, which is read once for all its parts."""
        if self._held != held:
            import ray

            self._held, self._work = held, ray.get(held[0])
        return self._work(part)


_ACTORS: ContextVar[Actors | None] = ContextVar("actors", default=None)


@contextmanager
def on_actors(workers: int, folder: Path) -> Iterator[None]:
    """Give the parts of every :func:`in_parts` inside to Ray actors.

    ``RAY_ADDRESS`` names the cluster; without it Ray starts on this machine, when there is something to do.

    Args:
        workers: how many; with fewer than 2 the parts stay in this process.
        folder: that all of them reach at the same path, for files that the parts exchange.

    Raises:
        MissingExtra: Ray is not installed.
    """
    actors = Actors(workers, folder) if workers > 1 else None
    token = _ACTORS.set(actors)
    try:
        yield
    finally:
        _ACTORS.reset(token)
        if actors is not None:
            actors.close()


def in_parts(work: Callable[[Part], Found], parts: Iterable[Part]) -> Iterator[Found]:
    """Yield ``work(part)`` of each part, in order: here, or on the actors of :func:`on_actors`.

    A few parts are under way at a time, so memory does not grow with their number. There, ``work`` is sent once to each
    actor, and an exception of the project is raised here as it was there.

    Example:
        >>> list(in_parts(len, ["one", "three"]))
        [3, 5]
    """
    actors = _ACTORS.get()
    return map(work, parts) if actors is None else actors.each(work, parts)


def exchange_folder() -> Path | None:
    """Return the folder that all who work on the parts reach; None for this machine's own."""
    actors = _ACTORS.get()
    if actors is None or actors.folder is None:
        return None
    actors.folder.mkdir(parents=True, exist_ok=True)
    return actors.folder
