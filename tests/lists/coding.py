"""Work of a process that gives a list its codes, to be killed."""

from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow.parquet as pq

from shadowprice.lists.codes import CodePool
from shadowprice.lists.table import list_file


def give(file: Path, rows: Path, out: Path, begun: Connection) -> None:
    """Give the codes and write the list."""
    begun.send(True)
    with CodePool(file, "spring") as pool:
        coded = pool.assign(pq.read_table(rows))
    with list_file(out, coded.schema) as write:
        write(coded)
