"""Solving on Ray actors: the same answers in at most two rounds, through deaths and interruptions."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shadowprice.allocation import (
    Problem,
    RayExecutor,
    Resource,
    StoredProblem,
    on_response,
    solve,
    write_shards,
)
from shadowprice.allocation.population.source import parts
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.allocation.sources.memory import MemorySource
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, InvalidProblem, MissingExtra, Unavailable
from shadowprice.on_ray import parts as parts_module
from shadowprice.on_ray.local import start_ray

LEVELS = np.arange(1, 11) * 20
ACCOUNTS = 60_013


@pytest.fixture(scope="module")
def value() -> np.ndarray:
    random = np.random.default_rng(5)
    value = np.sort(random.random((LEVELS.size, ACCOUNTS), dtype=np.float32), axis=0)
    return value[:, np.argsort(value[3])]


@pytest.fixture(scope="module")
def north() -> np.ndarray:
    return np.random.default_rng(6).random(ACCOUNTS) < 0.3


@pytest.fixture(scope="module")
def cluster():
    """Ray itself, started once; executors leave a Ray they did not start alone."""
    import ray

    start_ray(ray, num_cpus=4, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def executor(cluster):
    """Two actors over seven shards, for every test that ends no actor: a process of Ray takes a second to start."""
    with RayExecutor(workers=2, shards=7) as executor:
        yield executor


def assert_same(found, wanted) -> None:
    assert found.status == wanted.status
    np.testing.assert_array_equal(found.level, wanted.level)
    np.testing.assert_allclose(found.prices, wanted.prices, rtol=1e-12)
    for name in ("tie_share", "primal", "dual", "rounded", "gap", "violation"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12, abs=1e-12), name


def budget(money: float = 20.0 * ACCOUNTS):
    return [Resource.total("b", on_response(LEVELS), money)]


def test_a_problem_in_memory_is_cut_into_shards_and_solved_in_two_rounds(executor, value, north) -> None:
    problem = Problem(value, [Resource.total("b", on_response(LEVELS), 9.0 * ACCOUNTS, north)])
    here = solve(problem)
    found = solve(problem, executor)
    assert_same(found, here)
    assert executor.rounds == 2
    again = solve(problem, executor, near=float(here.prices[0]) * 1.001)
    assert_same(again, here)
    assert executor.rounds == 1
    # Another problem of the same executor; a limit on a mean of members counts them first.
    mean = Problem(value, [Resource.per_account("b", on_response(LEVELS), 9.0, north)])
    found = solve(mean, executor)
    assert_same(found, solve(mean))
    assert executor.rounds == 2 + found.passes


def test_more_workers_than_shards_and_processors_start_an_actor_for_each_shard(cluster, value) -> None:
    problem = Problem(value, budget())
    with RayExecutor(workers=12, shards=2) as executor:
        assert_same(solve(problem, executor), solve(problem))
        assert len(executor.pool.actors) == 2


def test_without_ray_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"shadowprice\[ray\]"):
        RayExecutor()


def test_several_limits_take_two_rounds_as_well(executor) -> None:
    random = np.random.default_rng(8)
    accounts = 150_000
    value = np.sort(random.random((LEVELS.size, accounts), dtype=np.float32), axis=0)
    groups = random.random((4, accounts)) < 0.4
    limits = [Resource.total(f"b{k}", on_response(LEVELS), (5.0 + k) * accounts, groups[k]) for k in range(4)]
    problem = Problem(value, limits)
    here = solve(problem)
    found = solve(problem, executor)
    assert executor.rounds == 1 + found.passes
    assert found.passes == 1
    assert np.count_nonzero(here.prices) >= 2
    assert_same(found, here)
    np.testing.assert_array_equal(found.fractional.account, here.fractional.account)


def test_stored_shards_are_loaded_once_and_their_errors_come_back(cluster, value, north, tmp_path) -> None:
    ends = np.linspace(0, ACCOUNTS, 4).astype(int)
    folder = write_shards(
        tmp_path / "s",
        ({"value": value[:, one:other], "north": north[one:other]} for one, other in itertools.pairwise(ends)),
    )
    here = solve(Problem(value, budget()))
    with RayExecutor(workers=2) as executor:
        assert_same(solve(StoredProblem(folder, budget()), executor, level_path=tmp_path / "level.npy"), here)
        assert executor.rounds == 2
        actors = executor.pool.actors
        tighter = budget(15.0 * ACCOUNTS)
        assert_same(solve(StoredProblem(folder, tighter), executor), solve(Problem(value, tighter)))
        assert executor.pool.actors == actors
        path = folder / "00002.value.npy"
        whole = path.read_bytes()
        path.write_bytes(whole[:1000])
        os.utime(folder / "shards.json", ns=(1, 1))
        with pytest.raises(InvalidInput, match=r"00002\.value\.npy: not a whole"):
            solve(StoredProblem(folder, budget()), executor, level_path=tmp_path / "other.npy")
        negative = value[:, ends[2] :].copy()
        negative[:, 5] = -1.0
        np.save(path, negative)
        with pytest.raises(InvalidProblem, match=r"00002\.value\.npy: b\.cost: must not be negative"):
            solve(StoredProblem(folder, budget()), executor)
    assert sorted(os.listdir(tmp_path)) == ["level.npy", "s"]


def test_an_actor_that_dies_between_rounds_is_replaced_from_its_source(cluster, value, tmp_path) -> None:
    folder = write_shards(tmp_path / "s", [{"value": part} for part in np.array_split(value, 3, axis=1)])
    here = solve(Problem(value, budget()))
    # Files are read anew at each pass by the first, and arrays are held by the second.
    for dying, (problem, keep) in enumerate(
        ((StoredProblem(folder, budget()), False), (Problem(value, budget()), True))
    ):
        with RayExecutor(workers=2, shards=3, keep=keep) as executor:
            assert_same(solve(problem, executor), here)
            cluster.kill(executor.pool.actors[dying], no_restart=False)
            assert_same(solve(problem, executor), here)
            assert executor.rounds == 2


def watched(value: np.ndarray, limits: list[Resource], hook: Callable[[], None]) -> Any:
    """A problem whose readings by a worker call a hook first."""
    here = os.getpid()

    # Within the function, so that a worker gets the class itself and not its name.
    class Watched(MemorySource):
        def tiles(self, names):
            if os.getpid() != here:
                hook()
            return MemorySource.tiles(self, names)

        def blocks(self, starts, width, names):
            if os.getpid() != here:
                hook()
            return MemorySource.blocks(self, starts, width, names)

    class WatchedProblem:
        resources = limits
        identity = hook

        def shards(self, count):
            cut = parts(value.shape[1], count)
            return [Watched(f"{start}", {"value": value[:, start:stop]}) for start, stop in cut]

    return WatchedProblem()


def test_an_actor_that_dies_in_the_middle_of_a_pass_is_replaced(cluster, tmp_path) -> None:
    value = np.random.default_rng(0).random((LEVELS.size, 50_000)).astype(np.float32).cumsum(axis=0)
    limits = budget(100.0 * value.shape[1])
    marker = tmp_path / "begun"

    def slow() -> None:
        marker.touch()
        time.sleep(0.4)

    with RayExecutor(workers=2) as executor:
        problem = watched(value, limits, slow)
        executor.hold(problem)

        def kill() -> None:
            while not marker.exists():
                time.sleep(0.01)
            cluster.kill(executor.pool.actors[1], no_restart=False)

        killer = threading.Thread(target=kill)
        killer.start()
        found = solve(problem, executor)
        killer.join()
    assert_same(found, solve(Problem(value, limits)))


def test_actors_that_die_again_and_again_are_given_up(cluster, monkeypatch) -> None:
    monkeypatch.setattr(parts_module, "RESTARTS", 1)
    value = np.ones((LEVELS.size, 2_000), dtype=np.float32).cumsum(axis=0)
    with RayExecutor(workers=1) as executor, pytest.raises(Unavailable, match="died 2 times"):
        solve(watched(value, budget(), lambda: os._exit(1)), executor)


INTERRUPTED = """
import os, signal, sys, time, numpy as np
from pathlib import Path
from shadowprice.allocation import *
from shadowprice.allocation.population.source import parts
from shadowprice.allocation.sources.memory import MemorySource
# A process that was started in the background of a shell ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
marker, here = Path(sys.argv[1]), os.getpid()
class Held(MemorySource):
    def blocks(self, starts, width, names):
        # Long enough to be interrupted on any machine: the solve must not end first.
        if os.getpid() != here:
            marker.touch()
            time.sleep(600)
        return MemorySource.blocks(self, starts, width, names)
class HeldProblem:
    resources = [Resource.total("b", on_response(np.arange(1, 11) * 20), 1e7)]
    identity = None
    def shards(self, count):
        value = np.random.default_rng(0).random((10, 200_000)).astype(np.float32).cumsum(axis=0)
        return [Held("accounts", {"value": value[:, a:b]}) for a, b in parts(200_000, count)]
problem = HeldProblem()
executor = RayExecutor(workers=2)
executor.hold(problem)
print("ready", flush=True)
solve(problem, executor, level_path=sys.argv[2])
print("finished", flush=True)
"""


LONGEST = 300.0
"""Seconds that Ray may take to start or to end on a machine that does other work."""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_leaves_no_process_and_no_file(tmp_path, eventually) -> None:
    mark = f"interrupted-{os.getpid()}-{time.time_ns()}"
    marker, out = tmp_path / "begun", tmp_path / "out"
    out.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(marker), str(out / "level.npy")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SHADOWPRICE_TEST_MARK": mark},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    eventually(lambda: marker.exists() or process.poll() is not None, LONGEST)
    assert len(marked(mark)) > 3
    # As a terminal does it: to the whole process group.
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=LONGEST)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in stderr
    assert "finished" not in stdout
    assert list(out.iterdir()) == []
    eventually(lambda: marked(mark) == [], LONGEST)


def marked(mark: str) -> list[str]:
    """Commands of the processes that inherited the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        except OSError:
            continue
    return found


def test_accounts_of_a_campaign_are_mapped_by_the_actors(executor, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    curves: dict[Side, Curves] = {}
    for side, levels, accounts in (("customer", (10, 20, 40), 5000), ("merchant", (10, 30), 3000)):
        response = np.sort(rng.random((len(levels), accounts), dtype=np.float32), axis=0)
        np.save(tmp_path / f"{side}.npy", response)
        mapped = np.load(tmp_path / f"{side}.npy", mmap_mode="r")
        weight = rng.poisson(2.0, accounts).astype(float)
        curves[side] = Curves(np.array(levels), mapped, weight, tmp_path / f"{side}.npy")
    campaign = Campaign(
        name="joint",
        sides={"customer": Terms(levels=(10, 20, 40)), "merchant": Terms(levels=(10, 30), cost_basis="on_grant")},
        budget=Budget(limit=100_000),
        starts_at=datetime(2026, 3, 1, tzinfo=UTC),
    )
    requests = {side: each.weight for side, each in curves.items() if each.weight is not None}
    problem = CampaignProblem(campaign, curves, requests)
    wanted = solve(problem.whole())
    assert_same(solve(problem, executor), wanted)
    assert executor.rounds <= 2
