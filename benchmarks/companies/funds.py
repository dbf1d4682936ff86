"""Files of an invented fund platform in Berlin that hold a generated delivery, and a week of it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.companies.week import HOURS, OVERRIDE, Week, arrivals, command, named, play
from serving.local.launch import Services
from shadowprice.datasets import load
from shadowprice.tables import Tables

ZONE = "Europe/Berlin"
FORM = "%d.%m.%Y %H:%M:%S"
MAPPING = Path(__file__).with_suffix(".yaml")
"""How the platform describes its files."""


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

    def local(times: Any) -> Any:
        return times.dt.tz_convert(ZONE).dt.strftime(FORM)

    account, offer = tables.account, tables.offer
    people, shops = (account[account["side"] == side] for side in ("customer", "merchant"))
    log = tables.exposure.merge(tables.outcome, on="request_id")
    assert tables.action is not None
    files = {
        "kunden": people[["account_id", "risk_tolerance", "x_age", "x_balance", "x_volatility", "c_city"]].rename(
            columns={
                "account_id": "Kundennr",
                "risk_tolerance": "Risikoklasse",
                "x_age": "Alter",
                "x_balance": "Guthaben",
                "x_volatility": "Schwankung",
                "c_city": "Ort",
            }
        ),
        "laeden": shops[["account_id", "x_ticket", "x_size"]].rename(
            columns={"account_id": "Laden", "x_ticket": "Bon", "x_size": "Umsatz"}
        ),
        "fonds": offer[["offer_id", "risk_level", "order_index", "demand", "x_return", "x_lot"]].rename(
            columns={
                "offer_id": "Fonds",
                "risk_level": "Klasse",
                "order_index": "Nr",
                "demand": "Kontingent",
                "x_return": "Rendite",
                "x_lot": "Lose",
            }
        ),
        "gezeigt": pd.DataFrame(
            {
                "Anzeige": log["request_id"],
                "Kunde": log["account_id"],
                "Fonds": log["offer_id"],
                "wann": local(log["decided_at"]),
                "Chance": log["propensity"],
                "gekauft": log["redeemed"].map({1: "ja", 0: "nein"}),
                "geklickt": log["clicked"].map({1: "ja", 0: "nein"}),
                "Betrag": log["amount"].map(lambda cents: f"{cents / 100:.2f}".replace(".", ",")),
                "bekannt": local(log["observed_at"]),
            }
        ),
        "zahlungen": tables.edge[["src", "dst"]]
        .rename(columns={"src": "Kunde", "dst": "Laden"})
        .assign(wann=local(tables.edge["ts"])),
        "klicks": tables.action[["account_id", "offer_id", "action"]]
        .rename(columns={"account_id": "Kunde", "offer_id": "Fonds", "action": "Art"})
        .assign(wann=local(tables.action["ts"])),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in files.items():
        frame.to_csv(folder / f"{name}.csv", sep=";", index=False)
    return Path(shutil.copy(MAPPING, folder / "mapping.yaml"))
