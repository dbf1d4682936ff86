from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from shadowprice.tables import TABLES, validate_tables
from shadowprice.tables.coercion import NO_ZONE, NOT_A_TIME, coerce
from shadowprice.tables.schema import FLAG, REAL, TEXT, TIME, WHOLE


def misfit_rows(column: pd.Series[Any], kind: str) -> dict[str, list[int]]:
    return {reason: np.flatnonzero(wrong).tolist() for wrong, reason in coerce(column, kind)[1] if wrong.any()}


def test_tables_of_text_become_the_same_typed_tables(frames: dict[str, pd.DataFrame]) -> None:
    text = {
        name: frame.apply(lambda column: column.astype("string").fillna("").astype(object))
        for name, frame in frames.items()
    }
    tables = validate_tables(text)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(tables, name), frames[name])


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(["2026-03-02T09:30:00Z", "2026-03-02T10:30:00+01:00", "2026-03-02 04:30:00-0500"]),
        pd.Series(pd.to_datetime(["2026-03-02T09:30:00"] * 3)).dt.tz_localize("UTC").dt.as_unit("s"),
        pd.Series(pd.to_datetime(["2026-03-02T17:30:00"] * 3)).dt.tz_localize("Asia/Shanghai"),
        pd.Series([pd.Timestamp("2026-03-02T09:30:00Z")] * 3, dtype=object),
        pd.Series(["2026-03-02T09:30:00Z"] * 3, dtype="category"),
    ],
    ids=["offsets", "seconds", "another zone", "objects", "category"],
)
def test_times_of_any_zone_become_utc(cells: pd.Series[Any]) -> None:
    times, misfits = coerce(cells, TIME)
    assert str(times.dtype) == TIME
    assert times.tolist() == [pd.Timestamp("2026-03-02T09:30:00Z")] * 3
    assert not any(wrong.any() for wrong, _ in misfits)


@pytest.mark.parametrize("cell", ["2026-03-02", "2026-03-02T09:30", "2026-03-02 09:30:00", "20260302"])
def test_a_time_without_zone_is_refused_rather_than_guessed(cell: str) -> None:
    column = pd.Series(["2026-03-02T09:30:00Z", cell, None])
    assert misfit_rows(column, TIME) == {NO_ZONE: [1]}
    assert misfit_rows(pd.Series(pd.to_datetime([cell, None])), TIME) == {NO_ZONE: [0]}


def test_what_is_no_time_is_refused() -> None:
    text = pd.Series(["2026-13-45T00:00:00Z", "soon", "2026-03-02T09:30:00Z", "0001-01-01T00:00:00Z", "T09:30:00Z"])
    assert misfit_rows(text, TIME) == {NOT_A_TIME: [0, 1, 3, 4]}
    assert misfit_rows(pd.Series([1_700_000_000]), TIME) == {NOT_A_TIME: [0]}
    ancient = pd.Series(pd.array(["0001-01-01"], dtype="datetime64[s]")).dt.tz_localize("UTC")
    assert misfit_rows(ancient, TIME) == {NOT_A_TIME: [0]}


@pytest.mark.parametrize(
    "cells",
    [[1, 2], [1.0, 2.0], ["1", "2"], [Decimal(1), Decimal(2)], np.array([1, 2], np.uint64), ["1.0", "2e0"]],
)
def test_whole_numbers_are_read_from_any_notation(cells: Any) -> None:
    whole, misfits = coerce(pd.Series(cells), WHOLE)
    assert whole.dtype == pd.Int64Dtype()
    assert whole.tolist() == [1, 2]
    assert not any(wrong.any() for wrong, _ in misfits)


def test_numbers_that_are_not_whole_are_refused_by_row() -> None:
    column = pd.Series(["1", "1.5", "", "many", "9e18", None, "inf"])
    found = {reason.split(";")[0]: rows for reason, rows in misfit_rows(column, WHOLE).items()}
    assert found == {
        "must be a whole number": [1],
        "is not a whole number": [3],
        "must not exceed 9007199254740992": [4, 6],
    }


def test_unknown_numbers_stay_unknown() -> None:
    number, misfits = coerce(pd.Series(["1.25", "", None, "-3e2"]), REAL)
    np.testing.assert_array_equal(number.to_numpy(), [1.25, np.nan, np.nan, -300.0])
    assert not any(wrong.any() for wrong, _ in misfits)


def test_yes_and_no_count_as_one_and_zero() -> None:
    assert coerce(pd.Series([True, False]), WHOLE)[0].tolist() == [1, 0]


def test_flags_are_read_from_words_and_digits() -> None:
    flags, misfits = coerce(pd.Series(["true", "False", "1", "0", None, "yes"]), FLAG)
    assert flags.tolist() == [True, False, True, False, pd.NA, pd.NA]
    assert np.flatnonzero(misfits[0][0]).tolist() == [5]


def test_identifiers_are_never_guessed_from_numbers() -> None:
    assert list(misfit_rows(pd.Series([1, 2]), TEXT).values()) == [[0, 1]]
    assert list(misfit_rows(pd.Series(["a", 2.0, None, ["b"]]), TEXT).values()) == [[1, 3]]
    kept, _ = coerce(pd.Series(["007", "NA", ""]), TEXT)
    assert kept.tolist() == ["007", "NA", None]
