"""Problems described by files or by embeddings, against the same problems in memory."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shadowprice.allocation import (
    CurveProblem,
    Problem,
    Resource,
    StoredProblem,
    on_response,
    solve,
    write_shards,
)
from shadowprice.allocation.executors import InProcess
from shadowprice.errors import InvalidInput, InvalidProblem
from shadowprice.responses.layers.heads import HazardHead

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
    readable = solve(Problem(arrays["value"], limits(arrays), arrays["allowed"]), solver="breakpoints")
    assert here.primal == pytest.approx(readable.primal, rel=1e-11)
    for count, kind in ((1, "npy"), (2, "parquet"), (7, "npy")):
        folder = write_shards(tmp_path / f"{count}-{kind}", cut(arrays, count), kind=kind)
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
    folder = write_shards(tmp_path / "s", cut({**arrays, "cost": cost}, 2), kind="npy")
    first = np.load(folder / "00000.value.npy").shape[1]
    with pytest.raises(InvalidProblem, match=r"00001\.value\.npy: b\.cost: must not be negative") as error:
        solve(StoredProblem(folder, FORMS["total of a stored cost"]))
    assert error.value.rows == (15_000 - first,)


def test_a_shard_that_is_missing_truncated_or_of_another_kind_is_named(arrays, tmp_path) -> None:
    limits = FORMS["total of a stored cost"]
    for kind, name in (("npy", "00001.cost.npy"), ("parquet", "00001.parquet")):
        folder = write_shards(tmp_path / kind, cut(arrays, 3), kind=kind)
        path = folder / name
        whole = path.read_bytes()
        for content in (whole[: len(whole) // 2], whole[:40], b"", b"something else"):
            path.write_bytes(content)
            with pytest.raises(InvalidInput, match=f"{kind}/{name}: not a whole"):
                solve(StoredProblem(folder, limits))
        path.unlink()
        with pytest.raises(InvalidInput, match=f"{kind}/{name}: there is no such file"):
            solve(StoredProblem(folder, limits))
        if kind == "npy":
            np.save(path, np.zeros((3, 4), dtype=np.float32))
            with pytest.raises(InvalidInput, match=f"{kind}/{name}: must be float32 of shape"):
                solve(StoredProblem(folder, limits))
    (tmp_path / "npy" / "shards.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"shards\.json: not a list of shards"):
        StoredProblem(tmp_path / "npy", limits)
    with pytest.raises(InvalidInput, match="there is no such file"):
        StoredProblem(tmp_path / "nowhere", limits)


def test_a_parquet_shard_with_missing_rows_columns_or_entries_is_named(arrays, tmp_path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_shards(tmp_path / "p", cut(arrays, 2), kind="parquet")
    path = folder / "00001.parquet"
    table = pq.read_table(path)
    gone = table.set_column(table.schema.get_field_index("cost_1"), "cost_1", pa.nulls(table.num_rows, pa.float32()))
    for wrong, message in (
        (table.slice(1), "must have .* rows"),
        (table.drop_columns(["value_3"]), "columns are missing: value_3"),
        (gone, "'cost' has missing entries"),
    ):
        pq.write_table(wrong, path)
        with pytest.raises(InvalidInput, match=message) as error:
            solve(StoredProblem(folder, FORMS["total of a stored cost"]))
        assert str(path) in str(error.value)


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


def test_limits_on_arrays_that_are_not_stored_and_other_solvers_are_refused(arrays, tmp_path) -> None:
    folder = write_shards(tmp_path / "s", [{"value": arrays["value"]}])
    with pytest.raises(InvalidProblem, match="there is no array 'cost'"):
        solve(StoredProblem(folder, FORMS["total of a stored cost"]))
    with pytest.raises(InvalidProblem, match="must be a boolean per account"):
        solve(StoredProblem(folder, [Resource.total("b", LEVELS, 1e6, members=[1, 2])]))
    with pytest.raises(InvalidProblem, match="in memory"):
        solve(StoredProblem(folder, FORMS["total, paid on response"]), solver="breakpoints")


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
    for count, kind in ((1, "npy"), (2, "parquet"), (7, "npy")):
        folder = write_shards(tmp_path / f"{count}", cut(given, count), kind=kind)
        executor = InProcess()
        found = solve(StoredProblem(folder, limits), executor, level_path=tmp_path / "level.npy")
        assert_same(found, here)
        np.testing.assert_array_equal(found.fractional.account, here.fractional.account)
        np.testing.assert_allclose(found.fractional.share, here.fractional.share, rtol=1e-9)
        # Members are counted for the mean, then there is a sample.
        assert executor.rounds == 2 + found.passes


def head(depth: int = 8) -> HazardHead:
    random = np.random.default_rng(1)
    return HazardHead(
        levels=LEVELS.astype(np.int64),
        weight=random.normal(size=(LEVELS.size, depth)).astype(np.float32) * 0.5,
        bias=np.full(LEVELS.size, -1.0, dtype=np.float32),
        default_embedding=np.zeros(depth, dtype=np.float32),
    )


def test_curves_on_the_fly_give_the_answer_of_the_whole_matrix(tmp_path) -> None:
    random = np.random.default_rng(2)
    embedding = random.normal(size=(50_000, 8)).astype(np.float32)
    north = random.random(50_000) < 0.5
    curve = head().response
    value = curve(embedding)
    np.save(tmp_path / "embedding.npy", embedding)
    for given in (embedding, tmp_path / "embedding.npy"):
        for limits in (
            lambda a: [Resource.total("b", on_response(LEVELS), 300_000.0)],
            lambda a: [Resource.per_account("b", on_response(LEVELS), 12.0, a["north"])],
            lambda a: [Resource.per_response("b", on_response(LEVELS), 55.0, a["value"])],
        ):
            whole = solve(Problem(value, limits({"value": value, "north": north})))
            found = solve(CurveProblem(given, curve, limits, {"north": north}))
            assert whole.status == "optimal"
            assert found.primal == pytest.approx(whole.primal, rel=1e-9)
            assert found.prices[0] == pytest.approx(whole.prices[0], rel=1e-9)
            assert found.gap <= 1e-9
            np.testing.assert_array_equal(found.level, whole.level)


def test_a_curve_may_give_several_matrices_and_its_shape_is_checked() -> None:
    embedding = np.random.default_rng(2).normal(size=(9_000, 8)).astype(np.float32)

    def curve(rows: np.ndarray) -> dict[str, np.ndarray]:
        response = head().response(rows)
        return {"value": np.float32(2.0) * response, "response": response}

    def limits(a):
        return [Resource.total("b", on_response(LEVELS, a["response"]), 60_000.0)]

    found, whole = solve(CurveProblem(embedding, curve, limits)), curve(embedding)
    assert found.primal == pytest.approx(solve(Problem(whole["value"], limits(whole))).primal, rel=1e-12)
    with pytest.raises(InvalidProblem, match="curve: must give 'value' of shape"):
        solve(CurveProblem(embedding, lambda rows: head().response(rows).T, limits))
    with pytest.raises(InvalidInput, match="embedding: must have shape"):
        CurveProblem(embedding[0], curve, limits)


def test_the_snippet_of_the_documentation_runs(tmp_path, monkeypatch, capsys) -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "solve-large-problems.md"
    code = page.read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {})
    assert capsys.readouterr().out.count("optimal") == 2


INTERRUPTED = """
import signal, sys, time, numpy as np
from shadowprice.allocation import *
# A process that was started in the background of a shell ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
def curve(rows):
    print("computing", flush=True)
    time.sleep(0.2)
    return np.cumsum(np.abs(rows), axis=1).T
rows = np.random.default_rng(0).random((400_000, 6)).astype(np.float32)
limits = [Resource.total("b", on_response(np.arange(1, 7) * 20), 2e7)]
print(solve(CurveProblem(rows, curve, limits), level_path=sys.argv[1]).status)
"""


def test_ctrl_c_in_the_middle_of_a_pass_leaves_no_file(tmp_path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "level.npy")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    # The example, two parts of the sample, and then the pass.
    for _ in range(6):
        assert process.stdout.readline() == "computing\n"
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
levels = np.arange(1, 11) * 20
folder, n = sys.argv[2], int(sys.argv[3])
limits = [Resource.total("b", on_response(levels), 20.0 * n if sys.argv[1] != "curves" else 5.0 * n)]
if sys.argv[1] == "curves":
    weight = np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32) * np.float32(0.4)
    def curve(rows):
        return np.cumsum(np.exp((rows - np.float32(0.5)) @ weight.T).T, axis=0) * np.float32(0.01)
    problem = CurveProblem(folder + "/embedding.npy", curve, limits)
else:
    problem = StoredProblem(folder, limits)
if sys.argv[1] == "parquet":
    # Arrow itself takes 60 MB once it has read anything.
    import io, pyarrow, pyarrow.parquet
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"x": np.zeros(9, dtype=np.float32)}), file)
    next(pyarrow.parquet.ParquetFile(file).iter_batches())
before = peak()
found = solve(problem, level_path=folder + "-level.npy")
print(peak() - before, found.status, found.gap, found.violation)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak from /proc")
@pytest.mark.parametrize("kind", ["npy", "parquet", "curves"])
def test_what_is_larger_than_memory_is_solved_in_bounded_memory(kind: str, tmp_path) -> None:
    # What Arrow keeps for itself does not grow with the files.
    n, shards = {"npy": 4_500_000, "parquet": 7_200_000, "curves": 2_400_000}[kind], 6
    random = np.random.default_rng(0)
    folder = tmp_path / "s"
    if kind == "curves":
        folder.mkdir()
        out = np.lib.format.open_memmap(folder / "embedding.npy", mode="w+", dtype=np.float32, shape=(n, 16))
        for at in range(shards):
            out[at * n // shards : (at + 1) * n // shards] = random.random((n // shards, 16), dtype=np.float32)
        del out
    else:
        value = np.cumsum(random.random((10, n // shards), dtype=np.float32), axis=0) * np.float32(0.1)
        write_shards(folder, ({"value": value * np.float32(1 - 0.01 * at)} for at in range(shards)), kind=kind)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, kind, str(folder), str(n)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    grown, status, gap, violation = done.stdout.split()
    size = sum(path.stat().st_size for path in folder.iterdir())
    if kind == "curves":
        # What is never made counts: the matrix of all curves beside the embeddings.
        size += n * 10 * 4
    assert size >= 180e6
    assert int(grown) < size / 2.5, f"{int(grown) / 1e6:.0f} MB of {size / 1e6:.0f} MB"
    assert status == "optimal"
    assert abs(float(gap)) <= 1e-9
    assert float(violation) <= 1e-11
