from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from benchmarks.trials import Shape, TrialFiles, draw
from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.tables import Tables, validate_tables

DAY = pd.Timestamp("2026-03-02", tz="UTC")
CENTS = {"bonus": (0, 300, 600, 900), "gift": (0, 100, 200, 300), "email": (0, 10, 20)}

Made = tuple[TrialFiles, Tables]


@pytest.fixture(scope="session")
def make() -> Callable[..., Made]:
    """Draw a trial as canonical tables; its truth comes with it."""

    def made(shape: Shape = "bonus", *, seed: int = 0, accounts: int = 3000, effect: float = 3.0) -> Made:
        trial = draw(shape, seed=seed, accounts=accounts, effect=effect)
        person = [f"a{k:05d}" for k in range(accounts)]
        own = trial.people.drop(columns=trial.people.columns[0])
        numbers = own.select_dtypes("number").astype(float).add_prefix("x_")
        texts = own.select_dtypes(exclude="number").add_prefix("c_")
        cents = np.array(CENTS[shape])
        request = [f"r{k:05d}" for k in range(accounts)]
        at = DAY + pd.to_timedelta(np.arange(accounts) % 40, unit="D")
        offers = [f"o{each}" for each in cents]
        tables = validate_tables(
            {
                "account": pd.DataFrame({"account_id": person, "side": "customer", "snapshot_ts": DAY}).join(
                    [numbers, texts]
                ),
                "edge": pd.DataFrame(
                    {"src": [], "dst": [], "relation": [], "weight": [], "ts": pd.to_datetime([], utc=True)}
                ),
                "offer": pd.DataFrame({"offer_id": offers, "side": "customer", "kind": "bonus", "face_value": cents}),
                "exposure": pd.DataFrame(
                    {
                        "request_id": request,
                        "account_id": person,
                        "side": "customer",
                        "offer_id": [offers[k] for k in trial.level],
                        "decided_at": at,
                        "propensity": trial.shares[trial.level],
                    }
                ),
                "outcome": pd.DataFrame(
                    {
                        "request_id": request,
                        "observed_at": at + pd.Timedelta(days=3),
                        "mature": True,
                        "cost_paid": cents[trial.level] * trial.response,
                        "redeemed": trial.response,
                    }
                ),
                "campaign": campaign_table("trial", DAY + pd.Timedelta(days=90), 10_000),
            }
        )
        return trial, tables

    return made
