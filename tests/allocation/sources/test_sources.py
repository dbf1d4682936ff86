"""Problems in files, against the same problems in memory."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.allocation.oracles.breakpoints import solve_breakpoints
from shadowprice.allocation import (
    Problem,
    Resource,
    StoredProblem,
    on_response,
    solve,
    write_shards,
)
from shadowprice.allocation.executors import InProcess
from shadowprice.errors import InvalidInput, InvalidProblem

LEVELS = np.arange(1, 7) * 20
ACCOUNTS = 20_011


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    value = np.sort(random.random((LEVELS.size, ACCOUNTS), dtype=np.float32), axis=0)
    # Sorted by worth, and accounts that are alike: shards differ, and ties lie across them.
    value = value[:, np.argsort(value[3])]
    value[:, 5_000:5_400] = value[:, 5_000:5_001]
    allowed = random.random(value.shape) < 0.8
    allowed[0] = True
    return {
        "value": value,
        "response": np.sort(random.random(value.shape, dtype=np.float32), axis=0),
        "cost": np.sort(LEVELS[:, None] * random.random(value.shape), axis=0).astype(np.float32),
        "north": random.random(ACCOUNTS) < 0.4,
        "allowed": allowed,
    }


FORMS = {
    "total, paid on response": lambda a: [Resource.total("b", on_response(LEVELS), 20.0 * ACCOUNTS)],
    "total of a stored cost": lambda a: [Resource.total("b", a["cost"], 8.0 * ACCOUNTS)],
    "granted to members": lambda a: [Resource.total("b", LEVELS, 25.0 * ACCOUNTS, a["north"])],
    "mean of members": lambda a: [Resource.per_account("b", on_response(LEVELS, a["response"]), 15.0, a["north"])],
    "per response": lambda a: [Resource.per_response("b", on_response(LEVELS), 40.0, a["value"])],
    "per another response": lambda a: [Resource.per_response("b", a["cost"], 30.0, a["response"], carry=100.0)],
    "impossible": lambda a: [Resource.total("b", LEVELS, 10.0 * ACCOUNTS)],
}


def cut(arrays: dict[str, np.ndarray], count: int):
    # Unequal shards; some blocks of a sample lie across two of them.
    ends = (ACCOUNTS * np.linspace(0, 1, count + 1) ** 1.5).astype(int)
    for start, stop in itertools.pairwise(ends):
        yield {name: array[..., start:stop] for name, array in arrays.items()}


def assert_same(found, wanted) -> None:
    assert found.status == wanted.status
    np.testing.assert_array_equal(found.level, wanted.level)
    np.testing.assert_allclose(found.prices, wanted.prices, rtol=1e-12)
    for name in ("tie_share", "primal", "dual", "rounded"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12, abs=1e-12), name
    assert found.gap == pytest.approx(wanted.gap, abs=1e-12)
    assert found.violation == pytest.approx(wanted.violation, abs=1e-12)
    np.testing.assert_allclose(found.spend, wanted.spend, rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_prices_levels_and_certificate_do_not_depend_on_the_shards(form: str, arrays, tmp_path) -> None:
    limits = FORMS[form]
    here = solve(Problem(arrays["value"], limits(arrays), arrays["allowed"]))
    readable = solve_breakpoints(Problem(arrays["value"], limits(arrays), arrays["allowed"]))
    assert here.primal == pytest.approx(readable.primal, rel=1e-11)
    for count in (1, 2, 7):
        folder = write_shards(tmp_path / f"{count}", cut(arrays, count))
        executor = InProcess()
        found = solve(StoredProblem(folder, limits), executor, level_path=tmp_path / "level.npy")
        assert_same(found, here)
        assert found.passes == here.passes
        counts_members = form == "mean of members"
        assert executor.rounds <= (2 + counts_members if here.status == "optimal" else 5)


def test_levels_go_to_a_file_that_is_whole(arrays, tmp_path) -> None:
    problem = Problem(arrays["value"], FORMS["total of a stored cost"](arrays))
    here = solve(problem)
    path = tmp_path / "out" / "level.npy"
    found = solve(problem, level_path=path)
    assert isinstance(found.level, np.memmap)
    assert not found.level.flags.writeable
    np.testing.assert_array_equal(np.load(path), here.level)
    folder = write_shards(tmp_path / "bad", cut({**arrays, "value": np.where(arrays["value"] > 0.999, np.nan, 0.5)}, 3))
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="finite"):
        solve(StoredProblem(folder, FORMS["total of a stored cost"]), level_path=path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["level.npy"]


def test_a_wrong_entry_is_named_by_file_and_row(arrays, tmp_path) -> None:
    cost = arrays["cost"].copy()
    cost[2, 15_000] = -1.0
    folder = write_shards(tmp_path / "s", cut({**arrays, "cost": cost}, 2))
    first = np.load(folder / "00000.value.npy").shape[1]
    with pytest.raises(InvalidProblem, match=r"00001\.value\.npy: b\.cost: must not be negative") as error:
        solve(StoredProblem(folder, FORMS["total of a stored cost"]))
    assert error.value.rows == (15_000 - first,)


def test_a_shard_that_is_missing_truncated_or_of_another_kind_is_named(arrays, tmp_path) -> None:
    limits, name = FORMS["total of a stored cost"], "00001.cost.npy"
    folder = write_shards(tmp_path / "s", cut(arrays, 3))
    path = folder / name
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:40], b"", b"something else"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=f"s/{name}: not a whole"):
            solve(StoredProblem(folder, limits))
    path.unlink()
    with pytest.raises(InvalidInput, match=f"s/{name}: there is no such file"):
        solve(StoredProblem(folder, limits))
    np.save(path, np.zeros((3, 4), dtype=np.float32))
    with pytest.raises(InvalidInput, match=f"s/{name}: must be float32 of shape"):
        solve(StoredProblem(folder, limits))
    (folder / "shards.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"shards\.json: not a list of shards"):
        StoredProblem(folder, limits)
    with pytest.raises(InvalidInput, match="there is no such file"):
        StoredProblem(tmp_path / "nowhere", limits)


def test_a_folder_of_shards_is_written_whole_or_not_at_all(arrays, tmp_path) -> None:
    def stops():
        yield from cut(arrays, 3)
        raise RuntimeError("out of data")

    with pytest.raises(RuntimeError, match="out of data"):
        write_shards(tmp_path / "s", stops())
    unlike = [{"value": arrays["value"]}, {"value": arrays["value"].astype(np.float64)}]
    with pytest.raises(InvalidInput, match="every shard needs the same arrays"):
        write_shards(tmp_path / "s", unlike)
    assert list(tmp_path.iterdir()) == []
    write_shards(tmp_path / "s", cut(arrays, 2))
    assert json.loads((tmp_path / "s" / "shards.json").read_text())["levels"] == LEVELS.size
    with pytest.raises(InvalidInput, match="exists already"):
        write_shards(tmp_path / "s", cut(arrays, 2))


def test_limits_on_arrays_that_are_not_stored_are_refused(arrays, tmp_path) -> None:
    folder = write_shards(tmp_path / "s", [{"value": arrays["value"]}])
    with pytest.raises(InvalidProblem, match="there is no array 'cost'"):
        solve(StoredProblem(folder, FORMS["total of a stored cost"]))
    with pytest.raises(InvalidProblem, match="must be a boolean per account"):
        solve(StoredProblem(folder, [Resource.total("b", LEVELS, 1e6, members=[1, 2])]))


@pytest.mark.parametrize("groups", [3, 10])
def test_several_limits_over_groups_do_not_depend_on_the_shards(groups: int, arrays, tmp_path) -> None:
    random = np.random.default_rng(groups)
    north = {f"m{k}": random.random(ACCOUNTS) < 0.5 for k in range(groups)}
    given = {"value": arrays["value"], "cost": arrays["cost"], **north}

    def limits(a):
        return [
            Resource.total("all", on_response(LEVELS), 18.0 * ACCOUNTS),
            Resource.per_account("mean", on_response(LEVELS), 20.0, a["m1"]),
            *(Resource.total(f"b{k}", a["cost"], 5.0 * ACCOUNTS, a[f"m{k}"]) for k in range(groups)),
        ]

    here = solve(Problem(given["value"], limits(given)))
    assert np.count_nonzero(here.prices) >= 2
    for count in (1, 2, 7):
        folder = write_shards(tmp_path / f"{count}", cut(given, count))
        executor = InProcess()
        found = solve(StoredProblem(folder, limits), executor, level_path=tmp_path / "level.npy")
        assert_same(found, here)
        np.testing.assert_array_equal(found.fractional.account, here.fractional.account)
        np.testing.assert_allclose(found.fractional.share, here.fractional.share, rtol=1e-9)
        # Members are counted for the mean, then there is a sample.
        assert executor.rounds == 2 + found.passes


def test_the_snippet_of_the_documentation_runs(tmp_path, monkeypatch, capsys) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "solve-large-problems.md"
    code = page.read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out.count("optimal") == 1


INTERRUPTED = """
import signal, sys, time, numpy as np
from shadowprice.allocation import *
from shadowprice.allocation.sources.memory import MemorySource
# A process that was started in the background of a shell ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow(MemorySource):
    def tiles(self, names):
        for start in range(0, self.accounts, 20_000):
            print("reading", flush=True)
            time.sleep(0.2)
            yield start, {name: array[..., start : start + 20_000] for name, array in self.arrays.items()}
class SlowProblem:
    resources = [Resource.total("b", on_response(np.arange(1, 7) * 20), 2e7)]
    def shards(self, count):
        value = np.random.default_rng(0).random((6, 400_000)).astype(np.float32).cumsum(axis=0)
        return [Slow("accounts", {"value": value})]
print(solve(SlowProblem(), level_path=sys.argv[1]).status)
"""


def test_ctrl_c_in_the_middle_of_a_pass_leaves_no_file(tmp_path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "level.npy")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(3):
        assert process.stdout.readline() == "reading\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in stderr
    assert "optimal" not in stdout
    assert os.listdir(tmp_path) == []


MEASURE = """
import sys, numpy as np
from shadowprice.allocation import *
def peak():
    return int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1]) * 1024
folder, n = sys.argv[1], int(sys.argv[2])
problem = StoredProblem(folder, [Resource.total("b", on_response(np.arange(1, 11) * 20), 20.0 * n)])
before = peak()
found = solve(problem, level_path=folder + "-level.npy")
print(peak() - before, found.status, found.gap, found.violation)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak from /proc")
def test_what_is_larger_than_memory_is_solved_in_bounded_memory(tmp_path) -> None:
    n, shards = 4_500_000, 6
    random = np.random.default_rng(0)
    folder = tmp_path / "s"
    value = np.cumsum(random.random((10, n // shards), dtype=np.float32), axis=0) * np.float32(0.1)
    write_shards(folder, ({"value": value * np.float32(1 - 0.01 * at)} for at in range(shards)))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(n)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    grown, status, gap, violation = done.stdout.split()
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert size >= 180e6
    assert int(grown) < size / 2.5, f"{int(grown) / 1e6:.0f} MB of {size / 1e6:.0f} MB"
    assert status == "optimal"
    assert abs(float(gap)) <= 1e-9
    assert float(violation) <= 1e-11
