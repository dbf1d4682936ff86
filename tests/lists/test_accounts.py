"""Files of accounts: forms, and faults by name."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.lists.accounts import read_listed
from shadowprice.lists.table import list_file

BOTH = ("customer", "merchant")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_accounts_are_read_once_in_their_order_and_keep_leading_zeros(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"note": [1, 2, 3, 4], "account": ["007", "b", "a", "b"], "side": [*BOTH, BOTH[0], BOTH[1]]})
    path = tmp_path / f"accounts{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    listed = read_listed(path, BOTH)
    assert {side: names.to_pylist() for side, names in listed.account_id.items()} == {
        "customer": ["007", "a"],
        "merchant": ["b"],
    }
    assert (len(listed), listed.repeated) == (3, 1)


def test_whole_numbers_of_a_parquet_file_are_identifiers(tmp_path: Path) -> None:
    pd.DataFrame({"account_id": [7, 12]}).to_parquet(tmp_path / "a.parquet")
    listed = read_listed(tmp_path / "a.parquet", ["customer"])
    assert listed.account_id["customer"].to_pylist() == ["7", "12"]


FAULTS = {
    "no account column": ({"name": ["a"]}, ["customer"], "has no column 'account_id'"),
    "no side": ({"account_id": ["a"]}, BOTH, "has no column 'side'"),
    "another side": ({"account_id": ["a", "b"], "side": ["customer", "shop"]}, BOTH, r"not 'shop' \(first rows: 1\)"),
    "an empty account": ({"account_id": ["a", None, ""]}, ["customer"], r"printable characters \(first rows: 1, 2\)"),
    "a long account": ({"account_id": ["a" * 300]}, ["customer"], "1 to 256"),
    "a line break": ({"account_id": ["a\nb"]}, ["customer"], "printable"),
    "no row": ({"account_id": pd.Series([], dtype=str)}, ["customer"], "has no account"),
    "fractions": ({"account_id": [1.5]}, ["customer"], "texts or whole numbers"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_file_names_column_and_rows(tmp_path: Path, fault: str) -> None:
    columns, sides, message = FAULTS[fault]
    pd.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=message):
        read_listed(tmp_path / "a.parquet", sides)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("account_id\na\n")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_listed(tmp_path / "a.parquet", ["customer"])


def test_a_list_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    rows = pa.table({"account_id": ["a"]})
    other = pa.table({"side": ["customer"]})
    with pytest.raises(ValueError, match="schema"), list_file(tmp_path / "list.parquet", rows.schema) as write:
        [write(part) for part in (rows, other)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput, match=r"\.parquet or \.csv"), list_file(tmp_path / "list.xlsx", rows.schema):
        pass
