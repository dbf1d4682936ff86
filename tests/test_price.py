"""The price record: sealed, exact through JSON, and refused when anything in it was touched."""

import hashlib
import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadowprice.errors import PriceRejected
from shadowprice.price import ExpectedOutcome, PriceRecord

SOLVED = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(**changes: Any) -> PriceRecord:
    fields: dict[str, Any] = {
        "campaign": "spring",
        "version": 3,
        "slot": 12,
        "prices": {"budget": 0.00123456789012345},
        "tie_share": 0.25,
        "status": "optimal",
        "primal": 100.5,
        "dual": 100.5,
        "gap": 0.0,
        "violation": -1e-16,
        "spent": 5000,
        "remaining": 7000,
        "sample_rows": 400,
        "model_version": "m1",
        "solved_at": SOLVED,
        "expires_at": SOLVED + timedelta(hours=2),
        "window": SOLVED - timedelta(hours=12),
        "step": 1,
        "at": 12.25,
        "requests": 300,
        "expected": 700.5,
        "plan": (5100.0, 5400.0, 6000.5, 7000.0),
        "pacing_error": 0.01,
        "seconds": 0.02,
        "spend_ratio": 0.9,
        "arrivals": (300.0, 420.0, 700.0, 1000.5),
        "plans": {"north": (510.0, 600.0, 700.5, 800.0), "rush": (30.0, 120.0)},
        "pacing_errors": {"north": -0.02, "rush": 0.0},
    }
    return PriceRecord(**(fields | changes))


def test_a_sealed_record_survives_json_exactly() -> None:
    sealed = record().sealed()
    assert PriceRecord.from_json(sealed.to_json()) == sealed
    assert PriceRecord.from_json(sealed.to_json().encode()) == sealed


def test_second_outcomes_survive_json_and_a_record_without_them_has_the_fields_that_it_always_had() -> None:
    expected = ExpectedOutcome(expected=(0.012, 0.01, 0.014), least=(0.0115, 0.0095, 0.0135))
    sealed = record(outcomes={"calm": expected}).sealed()
    assert PriceRecord.from_json(sealed.to_json()) == sealed
    assert json.loads(sealed.to_json())["outcomes"]["calm"]["least"] == [0.0115, 0.0095, 0.0135]
    assert "outcomes" not in record().to_dict()
    changed = json.loads(sealed.to_json())
    for wrong in ([1.0], [0.1, 0.2, math.inf], None, "abc"):
        changed["outcomes"]["calm"]["least"] = wrong
        with pytest.raises(PriceRejected):
            PriceRecord.from_json(json.dumps(changed))


def test_the_checksum_is_sha256_over_the_sorted_compact_json_of_the_rest() -> None:
    sealed = record().sealed()
    body = json.loads(sealed.to_json())
    del body["sha256"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert sealed.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_the_checksum_does_not_depend_on_time_zone_or_the_order_of_prices() -> None:
    tokyo = timezone(timedelta(hours=9))
    one = record(prices={"a": 0.1, "b": 0.2})
    other = record(prices={"b": 0.2, "a": 0.1}, solved_at=SOLVED.astimezone(tokyo))
    assert one.checksum() == other.checksum()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("campaign", "summer"),
        ("version", 4),
        ("slot", 13),
        ("prices", {"budget": 0.0012}),
        ("prices", {"other": 0.00123456789012345}),
        ("tie_share", 0.26),
        ("status", "infeasible"),
        ("primal", 101.0),
        ("dual", 101.0),
        ("gap", 1e-9),
        ("violation", 0.0),
        ("spent", 5001),
        ("remaining", 7001),
        ("sample_rows", 401),
        ("model_version", "m2"),
        ("solved_at", "2026-03-01T12:00:01+00:00"),
        ("expires_at", "2027-03-01T14:00:00+00:00"),
        ("sha256", "0" * 64),
        ("sha256", ""),
    ],
)
def test_a_record_changed_after_sealing_is_refused(key: str, value: object) -> None:
    body = json.loads(record().sealed().to_json())
    assert body[key] != value
    with pytest.raises(PriceRejected, match="checksum"):
        PriceRecord.from_json(json.dumps(body | {key: value}))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(json.loads(record().to_json()))), st.sampled_from([None, "x", [], {}, -1, 1e400, [[1]]]))
def test_nothing_but_a_rejection_comes_out_of_a_field_of_the_wrong_kind(key: str, value: object) -> None:
    body = json.loads(record().sealed().to_json()) | {key: value}
    with pytest.raises(PriceRejected):
        PriceRecord.from_json(json.dumps(body))


@pytest.mark.parametrize("text", [b"\xff\xfe", "", "[]", "[[1]]", "3", "null", "{}", '"price"', "{", '{"version": 1}'])
def test_text_that_is_no_record_is_refused(text: str | bytes) -> None:
    with pytest.raises(PriceRejected):
        PriceRecord.from_json(text)


def test_an_unknown_field_and_an_unknown_schema_are_refused() -> None:
    body = json.loads(record().sealed().to_json())
    with pytest.raises(PriceRejected, match="surprise"):
        PriceRecord.from_json(json.dumps(body | {"surprise": 1}))
    newer = record(schema_version=7).sealed()
    with pytest.raises(PriceRejected, match="schema_version 7"):
        PriceRecord.from_json(newer.to_json())


def test_an_unsealed_record_is_refused_by_readers() -> None:
    with pytest.raises(PriceRejected, match="checksum"):
        record().verify()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"version": 0}, "version"),
        ({"prices": {}}, "no price"),
        ({"prices": {"budget": float("-inf")}}, "budget"),
        ({"prices": {"budget": float("nan")}}, "budget"),
        ({"prices": {"budget": float("inf")}}, "budget"),
        ({"tie_share": 1.1}, "tie_share"),
        ({"tie_share": float("nan")}, "tie_share"),
        ({"spend_ratio": 0.0}, "spend_ratio"),
        ({"spend_ratio": float("nan")}, "spend_ratio"),
        ({"plans": {"north": (1.0, float("nan"))}}, "plans"),
        ({"arrivals": (300.0, 420.0)}, "arrivals"),
        ({"pacing_errors": {"north": float("inf")}}, "pacing errors"),
    ],
)
def test_a_record_that_could_not_be_used_cannot_be_made(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PriceRejected, match=named):
        record(**changes)


def test_a_record_is_stale_from_its_expiry_on() -> None:
    sealed = record()
    assert not sealed.stale(sealed.expires_at - timedelta(seconds=1))
    assert sealed.stale(sealed.expires_at)


def test_sealing_again_gives_the_same_seal() -> None:
    sealed = record().sealed()
    assert sealed.sealed() == sealed
    assert replace(sealed, spent=1).sealed().sha256 != sealed.sha256


def test_a_record_of_another_schema_is_refused() -> None:
    earlier = record(schema_version=5).sealed()
    with pytest.raises(PriceRejected, match="schema_version 5 is not 6"):
        PriceRecord.from_json(earlier.to_json())
    body = json.loads(record().sealed().to_json())
    with pytest.raises(PriceRejected, match=r"fields differ from the schema: \['by'\]"):
        PriceRecord.from_json(json.dumps({key: value for key, value in body.items() if key != "by"}))


def test_the_plan_is_read_off_between_the_hours() -> None:
    one = record()
    for at, planned in ((12.25, 5100), (12.625, 5250), (13, 5400), (13.5, 5700.25), (15, 7000), (20, 7000), (3, 5100)):
        assert one.planned(at) == pytest.approx(planned)
    assert math.isnan(record(plan=(), arrivals=()).planned(13))
    assert one.planned(12.625, "north") == pytest.approx(555)
    assert one.planned(12.625, "rush") == pytest.approx(75)
    assert math.isnan(one.planned(13, "rush"))  # of the next hour, which the record does not plan
    assert math.isnan(one.planned(13, "added later"))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"plan": [1' + "0" * 400 + "]}",
        '{"prices": ' + "[" * 700 + "]" * 700 + "}",
        '{"status": ' + "[" * 900 + "]" * 900 + "}",
        '{"solved_at": "0001-01-01T00:00:00+23:59"}',
    ],
)
def test_json_that_no_solver_writes_is_refused_and_not_an_error(text: str) -> None:
    sealed = json.loads(record().sealed().to_json())
    try:
        change = json.loads(text)
    except RecursionError:
        change = None
    with pytest.raises(PriceRejected):
        PriceRecord.from_json(text if change is None else json.dumps(sealed | change))
