import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet
import pytest

import shadowprice.datasets.folder
from shadowprice.datasets import load
from shadowprice.datasets.folder import read_tables, write_tables
from shadowprice.errors import Conflict, InvalidInput, InvalidTable, NotFound
from shadowprice.tables import TABLES, validate_tables
from shadowprice.tables.database import write_batches


@pytest.fixture
def folder(examples: Path, tmp_path: Path) -> Path:
    """The example folder, to be broken."""
    return Path(shutil.copytree(examples, tmp_path / "mine"))


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_example_folder_loads(examples: Path) -> None:
    dataset = load("tables", data=str(examples))
    assert len(dataset.tables.exposure) == 252
    assert dataset.tables.account["account_id"].nunique() == 40
    assert dataset.split.by == "account"
    for side in ("customer", "merchant"):
        exposure = dataset.tables.exposure[dataset.tables.exposure["side"] == side]
        assert set(dataset.split.assign(exposure)) == {"train", "validation", "test"}


def test_what_is_written_reads_back_the_same_up_to_order(examples: Path, tmp_path: Path) -> None:
    tables = read_tables(examples)
    again = read_tables(write_tables(tables, tmp_path / "run" / "tables"))
    for name, frame in tables.as_dict().items():
        order = list(frame.columns)
        pd.testing.assert_frame_equal(
            getattr(again, name).sort_values(order, ignore_index=True), frame.sort_values(order, ignore_index=True)
        )


def test_shuffled_rows_and_columns_give_the_same_bytes(examples: Path, tmp_path: Path) -> None:
    tables = read_tables(examples)
    shuffled = {
        name: frame.sample(frac=1.0, random_state=1)[list(reversed(frame.columns))]
        for name, frame in tables.as_dict().items()
    }
    one = write_tables(tables, tmp_path / "one")
    two = write_tables(validate_tables(shuffled), tmp_path / "two")
    assert content(one) == content(two)


def test_times_money_and_text_have_fixed_types_in_the_files(examples: Path, tmp_path: Path) -> None:
    out = write_tables(read_tables(examples), tmp_path / "out")
    types = {str(f.name): str(f.type) for f in pyarrow.parquet.read_schema(out / "exposure.parquet")}
    assert types["decided_at"] == "timestamp[ns, tz=UTC]"
    assert (types["price_version"], types["policy_version"], types["exploration"]) == ("int64", "string", "bool")


def test_parquet_wins_over_csv(folder: Path, tmp_path: Path) -> None:
    out = write_tables(read_tables(folder), tmp_path / "out")
    shutil.copy(out / "offer.parquet", folder)
    edit(folder / "offer.csv", "coupon-50,customer,coupon,50", "coupon-50,customer,coupon,55")
    assert 55 not in set(read_tables(folder).offer["face_value"])
    (folder / "offer.parquet").unlink()
    assert 55 in set(read_tables(folder).offer["face_value"])


def test_a_parquet_file_with_an_index_is_read_as_its_columns(folder: Path) -> None:
    offer = pd.read_csv(folder / "offer.csv").convert_dtypes()
    offer.set_index("offer_id").to_parquet(folder / "offer.parquet")
    assert read_tables(folder).offer["offer_id"].iloc[0] == "coupon-50"
    offer.iloc[::-1].to_parquet(folder / "offer.parquet")
    assert read_tables(folder).offer["offer_id"].iloc[-1] == "coupon-50"


def test_every_missing_table_is_named(folder: Path) -> None:
    (folder / "edge.csv").unlink()
    (folder / "offer.csv").unlink()
    with pytest.raises(InvalidTable, match=r"edge: .*add edge\.parquet or edge\.csv") as caught:
        read_tables(folder)
    assert [problem.table for problem in caught.value.problems] == ["edge", "offer"]


def test_a_missing_folder_is_not_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such folder"):
        read_tables(tmp_path / "nowhere")


def test_a_bad_csv_cell_is_named_by_its_data_row(folder: Path) -> None:
    lines = (folder / "edge.csv").read_text().splitlines()
    lines[4] = lines[4].replace(",1,", ",heavy,")
    (folder / "edge.csv").write_text("\n".join(lines))
    with pytest.raises(InvalidTable) as caught:
        read_tables(folder)
    (problem,) = caught.value.problems
    assert (problem.field, problem.rows) == ("edge.weight", (3,))
    assert "'heavy'" in problem.reason


def test_identifiers_in_csv_stay_text(folder: Path) -> None:
    for name in ("account", "edge", "exposure"):
        text = (folder / f"{name}.csv").read_text()
        (folder / f"{name}.csv").write_text(text.replace("p01", "007").replace("p02", "NA"))
    ids = set(read_tables(folder).account["account_id"])
    assert {"007", "NA"} <= ids


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "offer.csv cannot be read"),
        ("offer_id,side\na,customer,7\n", r"offer: has 3 cells where the header has 2 \(row 0\)"),
        ("offer_id,side\na,customer\nb\n", r"offer: has 1 cell where the header has 2 \(row 1\)"),
    ],
    ids=["empty", "a long row", "a short row"],
)
def test_a_malformed_csv_file_is_refused(folder: Path, text: str, reason: str) -> None:
    (folder / "offer.csv").write_text(text)
    with pytest.raises(InvalidTable, match=reason):
        read_tables(folder)


def test_a_file_that_is_not_utf8_or_not_parquet_is_refused(folder: Path) -> None:
    (folder / "offer.csv").write_bytes("offer_id\nprämie\n".encode("latin-1"))
    (folder / "edge.parquet").write_bytes(b"not parquet")
    with pytest.raises(InvalidTable) as caught:
        read_tables(folder)
    assert [problem.reason.split(" cannot")[0] for problem in caught.value.problems] == ["edge.parquet", "offer.csv"]


def test_a_byte_order_mark_is_no_part_of_the_first_column(folder: Path) -> None:
    file = folder / "offer.csv"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert len(read_tables(folder).offer) == 5


def test_a_failed_write_leaves_what_was_there(examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = read_tables(examples)
    out = write_tables(tables, tmp_path / "out")
    before = content(out)
    smaller = tables.replaced(edge=tables.edge.iloc[:3])

    def disk_full(path: Path, rows: Any) -> None:
        write_batches(path, rows)
        if "outcome" in str(path):
            raise OSError("no space left")

    monkeypatch.setattr(shadowprice.datasets.folder, "write_batches", disk_full)
    with pytest.raises(OSError, match="no space left"):
        write_tables(smaller, out)
    with pytest.raises(OSError, match="no space left"):
        write_tables(smaller, tmp_path / "fresh")
    assert content(out) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    monkeypatch.undo()
    assert len(read_tables(write_tables(smaller, out)).edge) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_folder_of_something_else_is_never_replaced(examples: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(Conflict, match="not a folder of tables"):
        write_tables(read_tables(examples), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_nothing_is_read_from_a_folder_with_a_fault(folder: Path, tmp_path: Path) -> None:
    edit(folder / "outcome.csv", ",true,", ",perhaps,")
    with pytest.raises(InvalidTable, match="must be true or false"):
        write_tables(read_tables(folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_may_be_split_by_time(examples: Path) -> None:
    dataset = load(
        "tables", data=str(examples), validation_from="2026-03-08T00:00:00Z", test_from="2026-03-10T00:00:00+00:00"
    )
    part = dataset.split.assign(dataset.tables.exposure)
    decided = dataset.tables.exposure["decided_at"]
    assert decided[part == "train"].max() < pd.Timestamp("2026-03-08", tz="UTC") <= decided[part == "validation"].min()
    assert decided[part == "test"].min() >= pd.Timestamp("2026-03-10", tz="UTC")
    with pytest.raises(InvalidInput, match="test_from"):
        load("tables", data=str(examples), validation_from="2026-03-08T00:00:00Z")
    with pytest.raises(InvalidInput, match="is not a time: 'soon'"):
        load("tables", data=str(examples), validation_from="soon", test_from="later")


def test_all_tables_are_written(examples: Path, tmp_path: Path) -> None:
    out = write_tables(read_tables(examples), tmp_path / "out")
    assert sorted(file.name for file in out.iterdir()) == sorted(f"{name}.parquet" for name in TABLES)
