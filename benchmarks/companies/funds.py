"""Files of an invented fund platform in Berlin that hold a generated delivery, and a week of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.companies.files import write_files
from benchmarks.companies.week import HOURS, OVERRIDE, Week, arrivals, command, named, play
from serving.local.launch import Services
from shadowprice.datasets import load
from shadowprice.tables import Tables

MAPPING = Path(__file__).with_suffix(".yaml")
"""Mapping of the platform's files."""


def play_funds(
    folder: Path, *, epochs: int, every: float, look: Callable[[Services], None] | None = None, **options: Any
) -> tuple[Week, NDArray[np.bool_]]:
    """Write the files of a platform, run them by their mapping, and play a week with the generator's truth.

    Return the first request of each account, and bool (J, n), the funds that each may be given. The run is
    ``runs/latest`` in the folder.
    """
    dataset, workspace = load("funds", seed=0, **options), folder / "runs/latest"
    assert isinstance(dataset.truth, pd.DataFrame)
    mapping = write_company(folder / "company", dataset.tables)
    given = ("--runs", str(workspace.parent), "--epochs", str(epochs), "--override", OVERRIDE)
    command("shadowprice", "run", str(mapping), *given)
    levels = range(len(dataset.tables.offer))
    accounts = dataset.truth["account_id"].to_numpy(dtype=str)[: len(dataset.truth) // len(levels)]
    response, value = (dataset.truth[name].to_numpy().reshape(len(levels), -1) for name in ("response", "value"))
    day, moments = arrivals(accounts, HOURS, seed=0), [every * number for number in range(int(HOURS / every))]
    week = play(workspace, day, named(accounts, levels, response), value, moments=moments, look=look).once()
    account = dataset.tables.account.set_index("account_id")
    tolerance = account["risk_tolerance"].reindex(week.day.account_id.tolist())
    risk = dataset.tables.offer.sort_values("order_index")["risk_level"].to_numpy(dtype=float)
    return week, risk[:, None] <= tolerance.to_numpy(dtype=float)


def write_company(folder: Path, tables: Tables) -> Path:
    """Write the tables as CSV files with names, amounts and times of their own, and return the mapping."""
    account, log = tables.account, tables.exposure.merge(tables.outcome, on="request_id")
    assert tables.action is not None
    people, shops = (account[account["side"] == side] for side in ("customer", "merchant"))
    files = {
        "kunden": people[["account_id", "risk_tolerance", "x_age", "x_balance", "x_volatility", "c_city"]],
        "laeden": shops[["account_id", "x_ticket", "x_size"]],
        "fonds": tables.offer[["offer_id", "risk_level", "order_index", "demand", "x_return", "x_lot"]],
        "gezeigt": log,
    }
    return write_files(folder, MAPPING, files | {"zahlungen": tables.edge, "klicks": tables.action})
