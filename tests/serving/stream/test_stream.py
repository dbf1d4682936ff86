"""The stream of decisions: each row of the log arrives at least once, and a repeat is the same event."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cloudevents.http import from_json
from event_sink import EventSink, event_sink

from serving.stream.sink import LONGEST_WAIT, Sink
from serving.stream.stream import KEPT_EVENTS, Stream
from shadowprice.errors import InvalidInput, InvalidRequest
from shadowprice.pacing.decision_log.compaction import compact
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow
from shadowprice.pacing.decision_log.segments import SCHEMAS, RowKind, Segment, segments
from shadowprice.pacing.decision_log.served import read_log

AT = 1_772_000_000_000_000
"""Microseconds since 1970 of the first decision."""


def rows(kind: RowKind, first: int, last: int) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for row in range(first, last + 1):
        at, name = AT + row * 1_000_000, f"r{row}"
        if kind == "decisions":
            facts = ("customer", 1, 50, 0.25, 12.5, 0.5, (0.5, 0.5), "tie", "m1", 3, None, at)
            made.append(Decision(name, f"a{row}", *facts)._asdict())  # type: ignore[arg-type]
        elif kind == "outcomes":
            made.append(vars(OutcomeRow(name, "customer", 1.0, 50, False, at, at + 1)))
        else:
            asked = ("crm/é", f"c{row}", name, "customer", "refund", 0.0, 0, 1.0, 50, False, "{}", at, at + 2)
            made.append(CorrectionRow(*asked)._asdict())  # type: ignore[arg-type]
    return made


def write(log: Path, kind: RowKind, first: int, last: int) -> None:
    log.mkdir(exist_ok=True)
    table = pa.Table.from_pylist(rows(kind, first, last), schema=SCHEMAS[kind])
    pq.write_table(table, Segment.named(log, kind, first, last).path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    for first in range(1, 400, 40):
        write(folder, "decisions", first, first + 39)
    write(folder, "outcomes", 1, 90)
    write(folder, "corrections", 1, 5)
    return folder


@pytest.fixture
def sink() -> Iterator[EventSink]:
    with event_sink() as state:
        yield state


def stream(log: Path, sink: EventSink, batch: int = 50, waited: list[float] | None = None, **how: Any) -> Stream:
    def wait(seconds: float) -> bool:
        if waited is not None:
            waited.append(seconds)
        return False

    target = Sink(sink.url, **how)
    cursor = log.parent / "cursor.json"
    return Stream(log=log, sink=target, cursor=cursor, campaign="spring", batch=batch, wait=wait)


def names(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["source"], event["id"]) for event in events]


def test_every_row_is_an_event_once_and_the_next_run_goes_on(log: Path, sink: EventSink) -> None:
    assert stream(log, sink).send_new() == 495
    known = names(sink.events)
    assert len(known) == len(set(known)) == 495
    served = read_log(log)
    by_kind = {
        kind: [each for each in sink.events if each["source"] == f"/shadowprice/spring/{kind}"] for kind in SCHEMAS
    }
    assert [each["id"] for each in by_kind["decisions"]] == served.decisions["request_id"].tolist()
    assert [each["data"]["cost"] for each in by_kind["outcomes"]] == served.outcomes["cost"].tolist()
    assert by_kind["corrections"][0]["id"] == "crm%2F%C3%A9/c1"
    for event in sink.events[::50]:
        # The reader of the standard's own library takes it, with the time of the log.
        parsed = from_json(json.dumps(event))
        assert parsed["specversion"] == "1.0"
        assert parsed.data["campaign"] == "spring"
    decided = datetime.fromisoformat(by_kind["decisions"][0]["time"])
    assert decided == datetime.fromtimestamp(AT / 1e6 + 1, UTC)
    assert by_kind["decisions"][0]["data"] == {
        **rows("decisions", 1, 1)[0],
        "campaign": "spring",
        "decided_at": by_kind["decisions"][0]["time"],
        "propensities": [0.5, 0.5],
    }
    # No outcome comes before its decision.
    order = [event["subject"] for event in sink.events]
    assert all(order.index(f"r{row}") == row - 1 for row in range(1, 91))
    assert stream(log, sink).send_new() == 0
    write(log, "decisions", 401, 403)
    # The rows before are merged meanwhile, and are not sent again.
    while compact(log, "decisions"):
        pass
    assert len(segments(log, "decisions")) < 11
    assert stream(log, sink).send_new() == 3
    assert [event["id"] for event in sink.events[-3:]] == ["r401", "r402", "r403"]


@pytest.mark.parametrize(("batch", "kind", "calls"), [(1, "cloudevents", 25), (200, "cloudevents-batch", 2)])
def test_the_modes_of_the_http_binding(batch: int, kind: str, calls: int, sink: EventSink, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    few = tmp_path / "few"
    write(few, "decisions", 1, 20)
    write(few, "outcomes", 1, 5)
    stream(few, sink, batch, token_file=str(tmp_path / "token")).send_new()
    assert {content for content, _, _ in sink.calls} == {f"application/{kind}+json; charset=UTF-8"}
    assert {token for _, token, _ in sink.calls} == {"Bearer s3cret"}
    assert (len(sink.calls), len(set(names(sink.events)))) == (calls, 25)


def test_a_sink_in_trouble_is_asked_again_later_and_nothing_is_lost(log: Path, sink: EventSink) -> None:
    troubles = {2: (503, {}), 3: (429, {"Retry-After": "7"}), 4: (500, {}), 5: (500, {})}
    sink.answers = lambda call: troubles.get(call, (200, {}))
    waited: list[float] = []
    assert stream(log, sink, waited=waited).send_new() == 495
    assert len(set(names(sink.events))) == len(sink.events) == 495
    assert len(waited) == 4
    assert waited[1] == 7.0
    assert 0.25 <= waited[0] <= 0.5
    assert 1.0 <= waited[2] <= 2.0 <= waited[3] <= 4.0
    # The repeats of a batch are the same bytes.
    assert len({body for _, _, body in sink.calls[1:6]}) == 1


def test_a_sink_that_is_away_is_waited_for_up_to_a_limit_until_the_stream_ends(log: Path, sink: EventSink) -> None:
    away = stream(log, sink)
    away.sink = Sink("http://127.0.0.1:9/")
    waited: list[float] = []
    away.wait = lambda seconds: bool(waited.append(seconds)) or len(waited) == 12
    assert away.send_new() is None
    assert LONGEST_WAIT / 2 <= waited[-1] <= LONGEST_WAIT
    assert not (log.parent / "cursor.json").exists()
    lag = away.registry.get_sample_value("shadowprice_stream_lag_seconds", {"campaign": "spring"})
    assert lag == pytest.approx(time.time() - AT / 1e6 - 1, abs=60)
    assert away.registry.get_sample_value("shadowprice_stream_behind_rows", {"campaign": "spring"}) == 495
    assert stream(log, sink).send_new() == 495
    done = stream(log, sink)
    done.send_new()
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text().partition("\n## Stream\n")[2]
    exported = {family.name.removesuffix("_created") for family in done.registry.collect()}
    assert {name.removesuffix("_total") for name in re.findall("^[|] `([a-z_]+)`", page, re.M)} == exported
    assert done.registry.get_sample_value("shadowprice_stream_behind_rows", {"campaign": "spring"}) == 0
    assert done.registry.get_sample_value("shadowprice_stream_lag_seconds", {"campaign": "spring"}) == 0


@pytest.mark.parametrize("status", [400, 401, 302])
def test_a_refusal_ends_the_stream_and_says_what_is_not_delivered(status: int, log: Path, sink: EventSink) -> None:
    # Behind a redirect a GET succeeds: it is no delivery.
    sink.answers = lambda call: (200, {}) if call < 4 else (status, {"Location": sink.url})
    with pytest.raises(
        InvalidRequest, match=rf"refuses rows 151 to 200 of decisions: .*HTTP {status} .*: not here"
    ) as error:
        stream(log, sink).send_new()
    assert "not delivered: mend the sink" in str(error.value)
    assert len(sink.calls) == 4
    sink.answers = lambda _: (200, {})
    assert stream(log, sink).send_new() == 345
    assert len(set(names(sink.events))) == len(sink.events) == 495


def test_a_cursor_of_another_log_or_with_another_content_is_refused(log: Path, sink: EventSink) -> None:
    stream(log, sink).send_new()
    for segment in segments(log, "decisions")[5:]:
        segment.path.unlink()
    with pytest.raises(InvalidInput, match=r"row 400 of decisions, and the log ends at row 200"):
        stream(log, sink).send_new()
    (log.parent / "cursor.json").write_text('{"decisions": -1}')
    with pytest.raises(InvalidInput, match="not the cursor of a stream"):
        stream(log, sink).send_new()


def test_a_killed_stream_goes_on_and_every_event_arrives_with_one_content(log: Path, sink: EventSink) -> None:
    def slowly(call: int) -> tuple[int, dict[str, str]]:
        time.sleep(0.01 if call < 60 else 0.0)
        return 200, {}

    sink.answers = slowly
    command = [sys.executable, "-m", "serving.stream", "--campaign", "spring", "--batch", "5", "--once"]
    command += ["--log-dir", str(log), "--sink-url", sink.url, "--cursor-file", str(log.parent / "cursor.json")]
    for enough in (10, 40):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while len(sink.calls) < enough:
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the sink took" in done.stdout
    contents: dict[tuple[str, str], set[str]] = {}
    for event in sink.events:
        contents.setdefault((event["source"], event["id"]), set()).add(json.dumps(event))
    assert len(contents) == 495
    assert {len(each) for each in contents.values()} == {1}
    # What was sent after the cursor was written is sent twice for each kill, and no more.
    assert len(sink.events) < 495 + 2 * (KEPT_EVENTS + 5)
    refused = subprocess.run([*command[:-4], "--sink-url", "ftp://a", *command[-2:]], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--sink-url must be an http or https address" in refused.stderr
