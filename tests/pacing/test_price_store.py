"""The price store under honest use, two solvers at once, a killed solver, and damaged files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shadowprice.errors import Conflict, NotFound, PriceRejected, Unavailable
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

SOLVED = datetime(2026, 3, 1, tzinfo=UTC)

SOLVER = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from shadowprice.errors import Conflict
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord

root, me, until = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store, at = PriceStore(root / "store"), datetime(2026, 3, 1, tzinfo=UTC)
(root / f"ready-{me}").touch()
while not (root / "go").exists():
    time.sleep(0.001)
version = 0
while version < until:
    newest = store.latest("spring")
    version = newest.version + 1 if newest else 1
    if version > until:
        break
    try:
        store.publish(PriceRecord(
            campaign="spring", version=version, slot=version, prices={"budget": 0.1}, tie_share=0.0, status="optimal",
            primal=1.0, dual=1.0, gap=0.0, violation=0.0, spent=me, remaining=0, sample_rows=1, model_version="m",
            solved_at=at, expires_at=at,
        ).sealed())
        print(version, flush=True)
    except Conflict:
        pass
"""


def record(version: int, campaign: str = "spring", spent: int = 0) -> PriceRecord:
    return PriceRecord(
        campaign=campaign,
        version=version,
        slot=version,
        prices={"budget": 0.001 * version},
        tie_share=0.5,
        status="optimal",
        primal=1.0,
        dual=1.0,
        gap=0.0,
        violation=0.0,
        spent=spent,
        remaining=10,
        sample_rows=5,
        model_version="m",
        solved_at=SOLVED,
        expires_at=SOLVED + timedelta(hours=2),
    ).sealed()


@pytest.fixture
def store(tmp_path: Path) -> PriceStore:
    return PriceStore(tmp_path / "prices")


def test_what_is_published_is_read_back_exactly(store: PriceStore) -> None:
    assert store.latest("spring") is None
    assert store.versions("spring") == []
    for version in (1, 2, 3):
        assert store.publish(record(version)) == record(version)
    assert store.versions("spring") == [1, 2, 3]
    assert store.latest("spring") == record(3)
    assert store.read("spring", 2) == record(2)
    assert (store.root / "spring" / "0000000002.json").is_file()


def test_campaigns_have_versions_of_their_own(store: PriceStore) -> None:
    store.publish(record(1))
    store.publish(record(1, campaign="autumn"))
    assert store.latest("autumn") == record(1, campaign="autumn")
    assert store.versions("spring") == [1]


@pytest.mark.parametrize("version", [1, 2, 4])
def test_only_the_version_after_the_newest_may_be_published(store: PriceStore, version: int) -> None:
    for earlier in (1, 2):
        store.publish(record(earlier))
    with pytest.raises(Conflict, match="next version is 3"):
        store.publish(record(version, spent=99))
    assert [store.read("spring", v).spent for v in store.versions("spring")] == [0, 0]


def test_a_lost_price_is_restored_unless_one_as_new_is_there(store: PriceStore) -> None:
    assert store.restore(record(7))
    assert store.latest("spring") == record(7)
    assert store.publish(record(8)).version == store.next_version("spring") - 1
    assert not store.restore(record(7))
    assert not store.restore(record(8, spent=99))
    assert store.latest("spring") == record(8)
    with pytest.raises(PriceRejected, match="checksum"):
        store.restore(PriceRecord(**{**record(9).__dict__, "sha256": ""}))


def test_an_unsealed_record_is_not_published(store: PriceStore) -> None:
    with pytest.raises(PriceRejected, match="checksum"):
        store.publish(PriceRecord(**{**record(1).__dict__, "sha256": ""}))
    assert store.versions("spring") == []


def solvers(tmp_path: Path, count: int, until: int, code: str = SOLVER) -> list[subprocess.Popen[str]]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(me), str(until)], stdout=subprocess.PIPE, text=True
        )
        for me in range(count)
    ]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("ready-*"))) < count:
        assert time.monotonic() < deadline, "the solvers did not start"
        time.sleep(0.01)
    (tmp_path / "go").touch()
    return started


def test_of_several_solvers_exactly_one_publishes_each_version(tmp_path: Path) -> None:
    started = solvers(tmp_path, count=3, until=60)
    won = [[int(line) for line in process.communicate(timeout=60)[0].split()] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert sorted(version for mine in won for version in mine) == list(range(1, 61))
    assert sum(bool(mine) for mine in won) > 1, "the solvers never competed"
    store = PriceStore(tmp_path / "store")
    for me, mine in enumerate(won):
        assert {store.read("spring", version).spent for version in mine} <= {me}


def test_a_solver_killed_while_publishing_leaves_only_whole_records(tmp_path: Path) -> None:
    (process,) = solvers(tmp_path, count=1, until=10**9)
    store = PriceStore(tmp_path / "store")
    while len(store.versions("spring")) < 20:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    versions = store.versions("spring")
    assert versions == list(range(1, len(versions) + 1))
    assert all(store.read("spring", version).version == version for version in versions)
    assert store.publish(record(len(versions) + 1)) == store.latest("spring")


def test_a_draft_left_by_a_killed_solver_is_not_a_price(store: PriceStore) -> None:
    store.publish(record(1))
    (store.root / "spring" / ".0000000002.abc").write_text('{"half": ')
    (store.root / "spring" / ".0000000002.json").write_text('{"half": ')
    assert store.versions("spring") == [1]
    assert store.publish(record(2)) == store.latest("spring")


@pytest.mark.parametrize("damage", ["", "{", "null", "flip"])
def test_a_damaged_newest_price_is_refused_by_name_and_skipped_only_on_request(
    store: PriceStore, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for version in (1, 2):
        store.publish(record(version))
    path = store.root / "spring" / "0000000002.json"
    path.write_text(path.read_text().replace('"spent": 0', '"spent": 1') if damage == "flip" else damage)
    with pytest.raises(PriceRejected, match=r"0000000002\.json"):
        store.latest("spring")
    assert store.latest("spring", verified_only=True) == record(1)
    # The damaged version is taken all the same: its number is never used again.
    assert store.next_version("spring") == 3
    with pytest.raises(Conflict):
        store.publish(record(2))
    before = path.read_bytes()
    with caplog.at_level("WARNING"):
        assert store.publish(record(3)) == store.latest("spring")
    assert path.read_bytes() == before, "what is damaged is evidence and stays"
    assert "0000000002.json" in caplog.text
    # Behind a sound price it is history.
    assert store.unsound("spring") == []
    assert [kept.version for kept in store.sound("spring")] == [3, 1]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [3, 9_999_999_999])
@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text('{"plan": [1' + "0" * 400 + "]}"),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.mkdir(),
        lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    ],
)
def test_a_harmful_file_among_the_prices_stops_neither_readers_nor_publishing(
    store: PriceStore, number: int, make: Callable[[Path], object]
) -> None:
    for version in (1, 2):
        store.publish(record(version))
    path = store.root / "spring" / f"{number:010d}.json"
    make(path)
    assert store.latest("spring", verified_only=True) == record(2)
    assert [str(path) in reason for reason in store.unsound("spring")] == [True]
    following = store.next_version("spring")
    assert following == (4 if number == 3 else 3)
    assert store.publish(record(following)) == store.latest("spring", verified_only=True)


def test_with_nothing_but_damaged_files_publishing_goes_on(store: PriceStore) -> None:
    (store.root / "spring").mkdir(parents=True)
    (store.root / "spring" / "9999999999.json").write_text("{}")
    assert store.next_version("spring") == 1
    (store.root / "spring" / "0000000007.json").write_text("{}")
    (store.root / "spring" / "0000000008.json").write_text("{}")
    assert store.next_version("spring") == 9


def test_the_history_has_every_sound_price_and_names_the_files_that_are_none(store: PriceStore) -> None:
    records = [store.publish(record(version)) for version in range(1, 6)]
    folder = store.root / "spring"
    (folder / "0000000002.json").write_text("{")
    (folder / "0000000005.json").write_bytes((folder / "0000000004.json").read_bytes())
    (folder / "notes.json").write_text("{}")
    found, damaged = store.history("spring")
    assert found == [records[0], records[2], records[3]]
    named = ["notes.json", "0000000002.json", "0000000005.json"]
    assert len(damaged) == 3
    assert all(any(name in reason for reason in damaged) for name in named)
    assert store.history("autumn") == ([], [])


def test_with_nothing_sound_there_is_no_verified_price(store: PriceStore) -> None:
    store.publish(record(1))
    (store.root / "spring" / "0000000001.json").write_text("{}")
    assert store.latest("spring", verified_only=True) is None


def test_a_sound_record_under_another_name_is_refused(store: PriceStore) -> None:
    store.publish(record(1))
    folder = store.root / "spring"
    (folder / "0000000002.json").write_bytes((folder / "0000000001.json").read_bytes())
    with pytest.raises(PriceRejected, match="must not be moved"):
        store.latest("spring")
    (folder / "0000000002.json").write_text(record(2, campaign="autumn").to_json())
    with pytest.raises(PriceRejected, match="autumn"):
        store.latest("spring")


@pytest.mark.parametrize("name", ["2.json", "0000000002-copy.json", "latest.json", "-000000001.json"])
def test_a_file_that_is_not_named_like_a_price_is_reported_and_stops_nobody(
    store: PriceStore, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.publish(record(1))
    (store.root / "spring" / name).write_text("{}")
    assert store.latest("spring") == record(1)
    assert [reason.partition(": ")[0] for reason in store.unsound("spring")] == [str(store.root / "spring" / name)]
    with caplog.at_level("WARNING"):
        store.publish(record(2))
    assert name in caplog.text
    assert store.versions("spring") == [1, 2]


def test_a_missing_version_and_an_impossible_campaign_are_not_found(store: PriceStore) -> None:
    with pytest.raises(NotFound, match="version 7"):
        store.read("spring", 7)
    for name in ("", "..", "../secrets", "a/b", ".hidden"):
        with pytest.raises(NotFound):
            store.latest(name)


def test_a_store_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "spring").write_text("a file where the folder should be")
    with pytest.raises(Unavailable, match="spring"):
        PriceStore(tmp_path / "prices").publish(record(1))


def test_a_full_disk_leaves_no_trace_of_the_price(store: PriceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.publish(record(1))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match="No space left"):
            store.publish(record(2))
    assert [path.name for path in (store.root / "spring").iterdir()] == ["0000000001.json"]
    assert store.publish(record(2)) == store.latest("spring")


def test_published_files_are_plain_json(store: PriceStore) -> None:
    store.publish(record(1))
    body = json.loads((store.root / "spring" / "0000000001.json").read_text())
    assert body["prices"] == {"budget": 0.001}
    assert body["schema_version"] == 6


RACERS = SOLVER.replace("slot=version", "slot=slot").replace(
    """version = 0
while version < until:
    newest = store.latest("spring")
    version = newest.version + 1 if newest else 1
    if version > until:
        break
""",
    """for slot in range(until):
    newest = store.latest("spring")
    version = newest.version + 1 if newest else 1
""",
)


def test_two_processes_that_price_the_same_slots_leave_exactly_one_record_of_each(tmp_path: Path) -> None:
    slots = 40
    started = solvers(tmp_path, 2, slots, RACERS)
    published = [solver.communicate(timeout=120)[0].split() for solver in started]
    assert [solver.returncode for solver in started] == [0, 0]
    store = PriceStore(tmp_path / "store")
    records = [store.read("spring", version) for version in store.versions("spring")]
    assert [one.slot for one in records] == list(range(slots))
    assert len(published[0]) + len(published[1]) == slots


def test_a_slot_takes_one_price_but_a_new_model_or_a_new_window_prices_it_again(store: PriceStore) -> None:
    opened = datetime(2026, 3, 1, tzinfo=UTC)

    def of(version: int, slot: int, step: int = 0, model: str = "m", window: datetime = opened) -> PriceRecord:
        plain = {**record(version).__dict__, "slot": slot, "step": step, "model_version": model, "window": window}
        return PriceRecord(**{**plain, "sha256": ""}).sealed()

    for version, slot, step in ((1, -1, 0), (2, -1, 0), (3, 0, 0), (4, 0, 1), (5, 2, 0)):
        store.publish(of(version, slot, step))
    for slot, step in ((2, 0), (1, 0), (0, 1), (0, 0)):
        with pytest.raises(Conflict, match="has a price already"):
            store.publish(of(6, slot, step))
    store.publish(of(6, 2, model="better"))
    store.publish(of(7, 0, model="better", window=opened + timedelta(days=1)))
    assert store.versions("spring") == [1, 2, 3, 4, 5, 6, 7]


def test_old_versions_are_removed_and_numbers_go_on(store: PriceStore) -> None:
    short = PriceStore(store.root, keep=3)
    for version in range(1, 11):
        short.publish(record(version))
    assert short.versions("spring") == [8, 9, 10]
    assert short.next_version("spring") == 11
    assert [each.version for each in short.sound("spring")] == [10, 9, 8]
    with pytest.raises(Conflict, match="next version is 11"):
        short.publish(record(1))
    # By default a thousand are kept: six weeks of hours.
    store.publish(record(11))
    assert store.versions("spring") == [8, 9, 10, 11]


def test_the_newest_sound_price_of_each_model_outlives_its_time(store: PriceStore) -> None:
    """A predictor that cannot load the newest model decides with the newest price of the one before."""
    short = PriceStore(store.root, keep=2)
    for version in range(1, 4):
        short.publish(replace(record(version), model_version="first").sealed())
    for version in range(4, 9):
        short.publish(record(version))
    assert short.versions("spring") == [3, 7, 8]


def test_damaged_history_is_removed_and_a_damaged_newest_number_stays_taken(store: PriceStore) -> None:
    short = PriceStore(store.root, keep=2)
    for version in range(1, 4):
        short.publish(record(version))
    damaged = store.root / "spring" / f"{3:010d}.json"
    damaged.write_text("{")
    assert short.next_version("spring") == 4
    short.publish(record(4))
    assert short.versions("spring") == [3, 4]
    short.publish(record(5))
    assert short.versions("spring") == [4, 5]


def test_a_version_that_cannot_be_removed_does_not_undo_its_publication(
    store: PriceStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.publish(record(1))
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".json":
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    PriceStore(store.root, keep=1).publish(record(2))
    assert store.versions("spring") == [1, 2]
    assert "is not removed" in caplog.text


def test_a_reader_passes_over_what_is_removed_while_it_reads(
    store: PriceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.publish(record(1))
    store.publish(record(2))
    monkeypatch.setattr(PriceStore, "versions", lambda *_: [0, 1, 2])
    assert [each.version for each in store.sound("spring")] == [2, 1]
