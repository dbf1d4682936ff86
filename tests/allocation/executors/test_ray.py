"""Solving on Ray actors: the same answers in at most two rounds, through deaths and interruptions."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from shadowprice.allocation import (
    CurveProblem,
    Problem,
    RayExecutor,
    Resource,
    StoredProblem,
    on_response,
    solve,
    write_shards,
)
from shadowprice.allocation.sources.campaign import CampaignProblem
from shadowprice.campaign import Budget, Campaign, Side, Terms
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, InvalidProblem, MissingExtra, Unavailable
from shadowprice.on_ray.local import start_ray

ROOT = Path(__file__).resolve().parents[3]
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


def assert_same(found, wanted) -> None:
    assert found.status == wanted.status
    np.testing.assert_array_equal(found.level, wanted.level)
    np.testing.assert_allclose(found.prices, wanted.prices, rtol=1e-12)
    for name in ("tie_share", "primal", "dual", "rounded", "gap", "violation"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12, abs=1e-12), name


def budget(money: float = 20.0 * ACCOUNTS):
    return [Resource.total("b", on_response(LEVELS), money)]


def test_a_problem_in_memory_is_cut_into_shards_and_solved_in_two_rounds(cluster, value, north) -> None:
    problem = Problem(value, [Resource.total("b", on_response(LEVELS), 9.0 * ACCOUNTS, north)])
    here = solve(problem)
    with RayExecutor(workers=2, shards=7) as executor:
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
        assert executor.revived == 0
    assert executor.actors == []


def test_without_ray_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"shadowprice\[ray\]"):
        RayExecutor()


def test_several_limits_take_two_rounds_as_well(cluster) -> None:
    random = np.random.default_rng(8)
    accounts = 150_000
    value = np.sort(random.random((LEVELS.size, accounts), dtype=np.float32), axis=0)
    groups = random.random((4, accounts)) < 0.4
    limits = [Resource.total(f"b{k}", on_response(LEVELS), (5.0 + k) * accounts, groups[k]) for k in range(4)]
    problem = Problem(value, limits)
    here = solve(problem)
    with RayExecutor(workers=2, shards=3) as executor:
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
        actors = executor.actors
        tighter = budget(15.0 * ACCOUNTS)
        assert_same(solve(StoredProblem(folder, tighter), executor), solve(Problem(value, tighter)))
        assert executor.actors == actors
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
    for problem, keep in ((StoredProblem(folder, budget()), False), (Problem(value, budget()), True)):
        with RayExecutor(workers=2, shards=3, keep=keep) as executor:
            solve(problem, executor)
            team = executor._held[2]
            ask, asked = team.ask, []

            def ask_and_kill(*arguments, ask=ask, asked=asked, executor=executor):
                found = ask(*arguments)
                cluster.kill(executor.actors[len(asked) % 2])
                asked.append(1)
                return found

            team.ask = ask_and_kill
            assert_same(solve(problem, executor), here)
            assert len(asked) == executor.rounds == 2
            assert executor.revived == 1
            team.ask = ask
            # The other was killed after the last round; the next solve finds out.
            assert_same(solve(problem, executor), here)
            assert executor.revived == 2


def slow(marker: Path, seconds: float):
    """A curve that takes its time and says when it has begun."""

    def curve(rows: np.ndarray) -> np.ndarray:
        marker.touch()
        time.sleep(seconds)
        return np.cumsum(np.abs(rows), axis=1).T

    return curve


def test_an_actor_that_dies_in_the_middle_of_a_pass_is_replaced(cluster, tmp_path) -> None:
    rows = np.random.default_rng(0).random((50_000, LEVELS.size)).astype(np.float32)
    limits = budget(100.0 * rows.shape[0])
    here = solve(CurveProblem(rows, slow(tmp_path / "here", 0.0), limits))
    marker = tmp_path / "begun"
    with RayExecutor(workers=2) as executor:
        problem = CurveProblem(rows, slow(marker, 0.4), limits)
        executor.hold(problem)
        marker.unlink()

        def kill() -> None:
            while not marker.exists():
                time.sleep(0.01)
            cluster.kill(executor.actors[1])

        killer = threading.Thread(target=kill)
        killer.start()
        found = solve(problem, executor)
        killer.join()
        assert executor.revived == 1
    assert_same(found, here)


def test_actors_that_die_again_and_again_are_given_up(cluster, value) -> None:
    here = os.getpid()

    def dies(rows: np.ndarray) -> np.ndarray:
        if os.getpid() != here:
            os._exit(1)
        return np.cumsum(np.abs(rows), axis=1).T

    rows = np.ones((2_000, LEVELS.size), dtype=np.float32)
    with RayExecutor(workers=1, restarts=1) as executor, pytest.raises(Unavailable, match="died 2 times"):
        solve(CurveProblem(rows, dies, budget()), executor)


INTERRUPTED = """
import signal, sys, time, numpy as np
from pathlib import Path
from shadowprice.allocation import *
# A process that was started in the background of a shell ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
marker, held = Path(sys.argv[1]), Path(sys.argv[1] + "-held")
def curve(rows):
    marker.touch()
    # Long enough to be interrupted on any machine: the solve must not end first.
    while held.exists():
        time.sleep(0.05)
    return np.cumsum(np.abs(rows), axis=1).T
rows = np.random.default_rng(0).random((200_000, 10)).astype(np.float32)
problem = CurveProblem(rows, curve, [Resource.total("b", on_response(np.arange(1, 11) * 20), 1e7)])
executor = RayExecutor(workers=2)
executor.hold(problem)
marker.unlink()
held.touch()
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


def test_accounts_of_a_campaign_are_mapped_by_the_actors(cluster, tmp_path: Path) -> None:
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
    with RayExecutor(workers=2) as executor:
        assert_same(solve(problem, executor), wanted)
        assert executor.rounds <= 2


def test_actors_with_a_name_stay_for_the_next_solve_and_take_its_shards(cluster, value) -> None:
    """One executor a solve, as one process an hour: the second finds the actors of the first."""
    import ray

    pids = []
    for share in (0.5, 0.25):
        problem = Problem(value, budget(share * 20.0 * value.shape[1]))
        with RayExecutor(workers=2, name="hourly") as executor:
            assert_same(solve(problem, executor), solve(problem))
            other = Problem(value[:, ::2], budget(10.0 * value.shape[1]))
            assert_same(solve(other, executor), solve(other))
            assert executor.revived == 0
            pids.append([ray.get(each.__ray_call__.remote(lambda _: os.getpid())) for each in executor.actors])
    assert pids[0] == pids[1]
    # Fewer workers: the others end, and none is left of another version.
    with RayExecutor(workers=1, name="hourly") as executor:
        solve(problem, executor)
        assert len(ray.util.list_named_actors(all_namespaces=True)) == 1
        ray.kill(executor.actors[0])


def test_a_solve_whose_actors_another_one_took_sends_its_shards_again(cluster, value) -> None:
    import ray

    problem, other = Problem(value, budget(10.0 * value.shape[1])), Problem(value[:, ::2], budget(1e5))
    with RayExecutor(workers=2, name="both") as first, RayExecutor(workers=2, name="both") as second:
        wanted = [solve(each) for each in (problem, other)]
        for _ in range(2):
            assert_same(solve(problem, first), wanted[0])
            assert_same(solve(other, second), wanted[1])
        assert first.revived == second.revived == 0
        for actor in first.actors:
            ray.kill(actor)


def test_the_page_on_large_problems_runs_on_a_cluster_that_is_there(cluster, tmp_path) -> None:
    """All code of the page, in a process of its own that joins the cluster by its address."""
    program = """
import sys
from pathlib import Path
from snippets import blocks
names = {"__name__": "__main__"}
for block in blocks():
    if block.page == "docs/how-to/solve-large-problems.md" and block.language == "python":
        exec(compile(block.text, str(block), "exec"), names)
import numpy as np
for name in ("found", "again"):
    np.testing.assert_allclose(names[name].prices, names["stored"].prices, rtol=1e-12)
print("on actors:", names["executor"].rounds > 0)
"""
    address = cluster.get_runtime_context().gcs_address
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "docs")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": address, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "on actors: True" in done.stdout
