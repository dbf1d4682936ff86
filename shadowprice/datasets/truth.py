"""Known truth of a generated data set, read for some accounts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.graphs.accounts import AccountIds
from shadowprice.tables.database import Source, empty_database


def true_curves(truth: Source, side: Side, accounts: AccountIds, levels: int) -> NDArray[np.float64]:
    """Read the true curves (J, n) of the given accounts, NaN where an account has none.

    Args:
        truth: account_id, side, level, response, as in :class:`~shadowprice.datasets.registry.Dataset`.
        side: whose curves.
        accounts: (n,), in any order, perhaps repeated.
        levels: number J of levels of the side.

    Complexity: O(rows of ``truth``); memory for the rows of the accounts.
    """
    names, place = np.unique(np.asarray(accounts, dtype=str), return_inverse=True)
    with empty_database() as db:
        db.register("wanted", pa.table({"account_id": pa.array(names, pa.string()), "place": np.arange(names.size)}))
        if isinstance(truth, Path):
            db.read_parquet(str(truth)).create_view("truth")
        else:
            db.register("truth", truth)
        query = "SELECT place, level, response FROM truth JOIN wanted USING (account_id) WHERE side = ?"
        rows = db.execute(query, [side]).fetchnumpy()
    curves = np.full((levels, names.size), np.nan)
    curves[rows["level"], rows["place"]] = rows["response"]
    return curves[:, place]
