"""Rows of a list: the names and types of their columns, and the files that hold them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from shadowprice.errors import InvalidInput
from shadowprice.files import whole_file

SCHEMA = pa.schema(
    [
        ("account_id", pa.string()),
        ("side", pa.string()),
        ("level", pa.int32()),
        ("offer_id", pa.string()),
        ("incentive", pa.int64()),
        ("code", pa.string()),
        ("response", pa.float64()),
        ("value", pa.float64()),
        ("expected_cost", pa.float64()),
        ("propensity", pa.float64()),
        ("arm", pa.string()),
        ("reason", pa.string()),
        ("price_version", pa.int64()),
        ("model_version", pa.string()),
        ("request_id", pa.string()),
        ("authorized", pa.bool_()),
    ]
)
"""Columns of a list, one row for each account; no cell is null.

level       index into the side's levels; -1 for nothing
offer_id    the level's offer; empty for nothing
incentive   minor units
code        of the coupon; empty before codes are assigned
response    expected response; value, its worth in the campaign's objective; expected_cost, minor units
propensity  probability of this answer
arm, reason as the service answers them
request_id  of the decision in the ledger, by which its outcome is reported
authorized  whether the ledger holds the decision; False for an account that is given nothing, and in a mere plan
"""

FORMATS = (".parquet", ".csv", "")
"""Extensions of lists; a file without one, as a step of a pipeline writes it, is parquet."""


def check_format(path: Path, field: str) -> None:
    """Raise :class:`InvalidInput` for a file that is neither parquet nor CSV by its extension."""
    if path.suffix not in FORMATS:
        raise InvalidInput(f"must end in .parquet or .csv, got {str(path)!r}", field=field)


@contextmanager
def list_file(path: Path, schema: pa.Schema = SCHEMA) -> Iterator[Callable[[pa.Table], None]]:
    """Write a table in parts to a parquet or CSV file, by its extension: the whole file, or none.

    Example:
        >>> import tempfile
        >>> rows = pa.table({"account_id": ["ada"]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with list_file(Path(folder) / "list.csv", rows.schema) as write:
        ...         write(rows)
        ...     print((Path(folder) / "list.csv").read_text())
        "account_id"
        "ada"
        <BLANKLINE>

    Raises:
        InvalidInput: another extension.
    """
    check_format(path, "out")
    with whole_file(path, durable=True) as draft:
        opened = pa.csv.CSVWriter(draft, schema) if path.suffix == ".csv" else pq.ParquetWriter(draft, schema)
        with opened as writer:
            yield writer.write_table
