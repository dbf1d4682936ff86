"""Shards in Ray actors, which stay from one solve to the next and may outlive the process that started them.

A round of questions costs milliseconds whatever the work, so a solve asks as few as it can: a sample and a pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import numpy as np

from shadowprice import __version__
from shadowprice.allocation.executors.worker import Taken, Worker
from shadowprice.allocation.population.sampling import WIDTH
from shadowprice.allocation.population.sharded import Request, Team
from shadowprice.allocation.population.source import Sharded, Source
from shadowprice.allocation.population.tiled import Layout
from shadowprice.errors import InvalidInput, MissingExtra, ShadowpriceError, Unavailable
from shadowprice.on_ray.local import join_ray

NAMESPACE = "shadowprice"
"""Namespace of Ray in which the actors have their names."""


class RayExecutor:
    """Solves on Ray actors: ``with RayExecutor(workers=4) as executor: solve(problem, executor)``.

    Args:
        workers: actors; never more than there are shards.
        shards: parts that a problem in memory or one of curves is cut into; as many as workers by default.
        keep: whether actors load their shards; otherwise they read the files anew at each pass, with little memory.
        address: of a Ray cluster; by default the one this process is connected to, else ``RAY_ADDRESS``, else Ray is
            started on this machine and stopped by :meth:`close`.
        cpus: that Ray reserves for each actor; none for actors with a name, which are idle most of the time.
        name: of actors that stay in the cluster when this executor is closed: the next one of that name, such as that
            of the next hour's solve, finds them running. Without a name they end with the executor.
        restarts: of dead actors that one round may need. A dead actor's shards are loaded again from their source.
        timeout: seconds within which some worker has to answer.

    A stored problem's folder must be readable by every worker at the same path. Actors keep their shards until another
    problem is solved, whose shards they take in place; a folder that was not written anew is the same problem whatever
    its limits.

    rounds    questions that the last solve put to all shards
    revived   actors that had to be replaced so far
    actors    their handles

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        shards: int | None = None,
        keep: bool = True,
        address: str | None = None,
        cpus: float = 1.0,
        name: str = "",
        restarts: int = 3,
        timeout: float = 600.0,
    ) -> None:
        if workers < 1 or (shards is not None and shards < 1):
            raise InvalidInput("must be at least 1", field="workers" if workers < 1 else "shards")
        try:
            import ray
        except ModuleNotFoundError as error:
            raise MissingExtra("RayExecutor needs ray; install shadowprice[ray]") from error
        self._ray = ray
        self.workers, self.shards, self.keep, self.address = workers, shards or workers, keep, address
        self.cpus, self.name, self.restarts, self.timeout = 0.0 if name else cpus, name, restarts, timeout
        self.rounds = 0
        self.revived = 0
        self._started = False
        self._held: tuple[object, Sequence[Source], _Actors] | None = None
        self.actors: list[Any] = []

    def hold(self, problem: Sharded) -> tuple[Sequence[Source], Team]:
        """Take the shards of a problem, or keep those it holds already."""
        if self._held is None or self._held[0] != problem.identity:
            self._connect()
            sources = problem.shards(self.shards)
            self._held = (problem.identity, sources, _Actors(self, sources))
        return self._held[1], self._held[2]

    def close(self) -> None:
        """End the actors unless they have a name, and Ray where this executor started it."""
        try:
            self._release()
        finally:
            if self._started:
                self._started = False
                self._ray.shutdown()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _release(self) -> None:
        self._held = None
        actors, self.actors = self.actors, []
        if not self.name and self._ray.is_initialized():
            for actor in actors:
                self._ray.kill(actor)

    def _connect(self) -> None:
        if join_ray(self._ray, int(self.workers * self.cpus + 1), self.address):
            self._started = True


class _Actors:
    """A team of actors; actor w holds every W-th shard."""

    def __init__(self, executor: RayExecutor, sources: Sequence[Source]) -> None:
        ray = self._ray = executor._ray
        self._executor = executor
        self.sizes = [source.accounts for source in sources]
        self.grain = WIDTH if executor.keep else max(source.grain for source in sources)
        self._levels = sources[0].levels
        count = min(executor.workers, len(sources))
        parts = [{at: sources[at] for at in range(worker, len(sources), count)} for worker in range(count)]
        # What an actor holds stays here, so that another can take its place.
        self._sources = [ray.put(part) for part in parts]
        self._problem = uuid.uuid4().hex
        self.count, self.actors = count, executor.actors
        if executor.name and not self.actors:
            self._end_others()
        self._class = ray.remote(Worker)
        self.actors += [self._start(worker) for worker in range(len(self.actors), count)]
        for worker in range(count):
            self._send(worker)

    def ask(self, layout: Layout, requests: Sequence[Request]) -> list[Any]:
        """One round; the requests of an actor that dies are put to its successor."""
        ray = self._ray
        mine: dict[int, list[int]] = {}
        for at, request in enumerate(requests):
            mine.setdefault(request.shard % self.count, []).append(at)
        answers: list[Any] = [None] * len(requests)
        # Levels travel in the smallest type that holds them.
        small = np.min_scalar_type(self._levels - 1).str

        def put(worker: int) -> Any:
            questions = [
                (replace(requests[at], into=None), None if requests[at].into is None else small) for at in mine[worker]
            ]
            return self.actors[worker].answer.remote(self._problem, layout, questions)

        waiting = {put(worker): worker for worker in mine}
        deaths = 0
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=self._executor.timeout)
            if not ready:
                raise Unavailable(
                    f"no worker answered within {self._executor.timeout:g} s; has the Ray cluster buffer for "
                    f"{self.count} actors of {self._executor.cpus:g} CPU?"
                )
            worker = waiting.pop(ready[0])
            try:
                found = ray.get(ready[0])
            except (ray.exceptions.RayTaskError, ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
                taken = isinstance(error, ray.exceptions.RayTaskError)
                if taken and not isinstance(error.cause, Taken):
                    raise error.cause if isinstance(error.cause, ShadowpriceError) else error from None
                deaths += 1
                if deaths > self._executor.restarts:
                    how = "were taken by other solves or died"
                    raise Unavailable(f"actors {how} {deaths} times in one round, the last with: {error}") from error
                if not taken:
                    self._executor.revived += 1
                    ray.kill(self.actors[worker])
                    self.actors[worker] = self._start(worker)
                self._send(worker)
                waiting[put(worker)] = worker
                continue
            for at, (answer, level) in zip(mine[worker], found, strict=True):
                answers[at] = answer
                buffer = requests[at].into
                if level is not None and buffer is not None:
                    buffer[:] = level
        return answers

    def _start(self, worker: int) -> Any:
        options: dict[str, Any] = {"num_cpus": self._executor.cpus, "max_restarts": 0}
        if self._executor.name:
            name = _named(self._executor.name, worker)
            options |= {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
        return self._class.options(**options).remote()

    def _end_others(self) -> None:
        """End the actors of this name that are too many, or run another version of the package."""
        name, ray = self._executor.name, self._ray
        wanted = {_named(name, worker) for worker in range(self.count)}
        for each in ray.util.list_named_actors(all_namespaces=True):
            own = each["namespace"] == NAMESPACE and each["name"].startswith(f"{name}@")
            if own and each["name"] not in wanted:
                ray.kill(ray.get_actor(each["name"], namespace=NAMESPACE))

    def _send(self, worker: int) -> None:
        self.actors[worker].take.remote(self._problem, self._sources[worker], self._executor.keep)


def _named(name: str, worker: int) -> str:
    return f"{name}@{__version__}-{worker}"
