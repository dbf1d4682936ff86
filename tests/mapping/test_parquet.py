"""Parquet files of users: the types that programs write, and files that mean harm, for every reader that they reach."""

import resource
import shutil
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from harmful import HARM

from operations.common.accounts import accounts_of, features_of
from shadowprice.datasets import load
from shadowprice.datasets.folder import read_sessions, read_tables
from shadowprice.errors import InvalidInput, ShadowpriceError
from shadowprice.mapping import map_tables, read_mapping

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "tables"
MAPPING = """currency: EUR
timezone: UTC
sources: {log: "log*.parquet"}
campaign: {campaign_id: spring, starts_at: 2026-04-01T00:00Z, hours: 24, budget_name: coupons, budget_form: total,
  budget_limit: 100, cost_basis_customer: on_response}
tables:
  exposure:
    columns: {request_id: no, account_id: who, face_value: worth, decided_at: sent, propensity: {constant: 0.5},
      redeemed: used, observed_at: {column: sent, plus_days: 2}}
"""
SENT = pd.to_datetime(["2026-03-01 10:00:00.000001"] * 4)


def log(first: int = 0, **columns: object) -> pa.Table:
    """Four rows, with some columns of another type."""
    given: dict[str, object] = {
        "no": [f"r{first + k}" for k in range(4)],
        "who": ["7", "8", "7", "8"],
        "sent": SENT,
        "worth": ["2.50", "5.00"] * 2,
        "used": [1, 0, 0, 1],
    }
    return pa.table({name: pa.array(column) for name, column in (given | columns).items()})


def mapped(folder: Path, *tables: pa.Table) -> Any:
    for number, table in enumerate(tables):
        pa.parquet.write_table(table, folder / f"log{number}.parquet")
    (folder / "mapping.yaml").write_text(MAPPING)
    return map_tables(read_mapping(folder / "mapping.yaml"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, 8, 7, 8]),
        pa.array([7.0, 8.0, 7.0, 8.0]),
        pa.array([7, 8, 7, 8], pa.float32()),
        pa.array([7, 8, 7, 8], pa.decimal128(38, 2)),
        pa.array([b"7", b"8", b"7", b"8"]),
        pa.array(["7", "8", "7", "8"], pa.large_string()),
        pa.array(["7", "8", "7", "8"], pa.string_view()),
        pa.array(["7", "8", "7", "8"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type)[:16],
)
def test_identifiers_of_any_type_are_the_same_texts(column: pa.Array, tmp_path: Path) -> None:
    assert mapped(tmp_path, log(who=column)).exposure["account_id"].tolist() == ["7", "8", "7", "8"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([7.5] * 4), "is a fraction"),
        (pa.array([2.0**53 + 2] * 4), "beyond 2^53"),
        (pa.array([2.0**24 + 2] * 4, pa.float32()), "beyond 2^53"),
        (pa.array([b"\xff"] * 4), "Invalid UTF8"),
        (pa.array([["7"]] * 4), "has no column 'who'"),
        (pa.array([{"a": "7"}] * 4), "has no column 'who'"),
        (pa.nulls(4), "must not be empty"),
    ],
    ids=lambda given: str(getattr(given, "type", given))[:20],
)
def test_identifiers_that_lost_something_are_refused(column: pa.Array, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        mapped(tmp_path, log(who=column))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "one", "other", "wanted"),
    [
        ("who", [7, 8, 7, 8], [7.0, 8.0, 7.0, None], "7"),
        ("worth", [Decimal("2.50"), Decimal("5.00")] * 2, [Decimal("2.5"), Decimal("5.0")] * 2, None),
        ("sent", SENT.as_unit("ms"), SENT + pd.Timedelta(nanoseconds=1), None),
    ],
)
def test_files_of_one_pattern_are_one_population(
    name: str, one: list[Any], other: list[Any], wanted: str | None, tmp_path: Path
) -> None:
    second = log(4, **{name: other})
    tables = mapped(tmp_path, log(**{name: one}), second.slice(0, 3))
    assert tables.rows()["exposure"] == 7
    assert sorted(tables.account["account_id"].unique()) == ["7", "8"]
    assert sorted(tables.offer["face_value"]) == [250, 500]
    assert set(tables.exposure["decided_at"].dt.floor("ms")) == {pd.Timestamp("2026-03-01T10:00Z")}


def test_a_list_beside_the_columns_of_a_mapping_is_left_alone(tmp_path: Path) -> None:
    assert mapped(tmp_path, log(basket=[["a"], ["b", "c"], [], None])).rows()["exposure"] == 4


@pytest.mark.parametrize(
    ("ids", "wanted"),
    [([7.0, 8.0], ["7", "8"]), ([7, 8], ["7", "8"]), ([7.5, 8.0], None), ([2.0**54, 1.0], None), ([7.0, None], None)],
)
def test_accounts_of_a_lift_are_texts_without_a_point(
    ids: list[float], wanted: list[str] | None, tmp_path: Path
) -> None:
    pd.DataFrame({"account_id": ids, "x_age": [1.0, 2.0]}).to_parquet(tmp_path / "people.parquet")
    if wanted is None:
        with pytest.raises(InvalidInput, match="account_id"):
            features_of(tmp_path / "people.parquet", "", ())
        return
    rows, numbers = features_of(tmp_path / "people.parquet", "", ())
    assert rows is not None
    assert (rows["account_id"].tolist(), numbers) == (wanted, ("x_age",))


def in_a_folder(path: Path) -> object:
    shutil.copytree(EXAMPLE, path.parent / "canonical")
    shutil.move(path, path.parent / "canonical" / "account.parquet")
    return read_tables(path.parent / "canonical")


def of_sessions(path: Path) -> object:
    shutil.move(path, path.parent / "session.parquet")
    (path.parent / "behaviour.csv").write_text("session_id,item_id,action,phase,ts\n")
    return read_sessions(path.parent)


def of_receipts(path: Path) -> object:
    shutil.move(path, path.parent / "offers_labelled_apr14_may31.parquet")
    return load("o2o", data=str(path.parent))


def of_a_lift(path: Path) -> object:
    return accounts_of(path, path.parent, ["customer"], partners=False, features=None)


def in_a_mapping(path: Path) -> object:
    shutil.move(path, path.parent / "log0.parquet")
    (path.parent / "mapping.yaml").write_text(MAPPING)
    return map_tables(read_mapping(path.parent / "mapping.yaml"))


@pytest.mark.parametrize("read", [in_a_mapping, in_a_folder, of_sessions, of_receipts, of_a_lift])
@pytest.mark.parametrize("make", HARM)
def test_a_harmful_parquet_file_is_refused_soon_in_one_sentence(
    make: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "log.parquet")
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(ShadowpriceError) as caught:
        read(tmp_path / "log.parquet")
    words = ("cannot be read", "has no column", "there is no file", "is outside of the folder")
    assert sum(any(each in line for each in words) for line in str(caught.value).splitlines()) == 1
    assert time.process_time() - started < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000
