"""Canonical tables of a simulated delivery of funds."""

from datetime import timedelta

import numpy as np
import pandas as pd

from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.funds import ENDS, STARTS, FundOptions, draw
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.tables import validate_tables


def load(_data: str | None = None, *, seed: int = 0, **options: object) -> Dataset:
    """Draw a delivery as tables. ``options`` are the fields of :class:`FundOptions`."""
    chosen = FundOptions(**options)  # type: ignore[arg-type]
    drawn = draw(chosen, seed)
    rows = drawn.deliveries
    request_id = [f"trial-{number:08d}" for number in range(len(rows))]
    funds = [f"fund-{number}" for number in range(chosen.funds)]
    at = pd.Timestamp(STARTS)
    tables = validate_tables(
        {
            "account": pd.concat(
                [drawn.users.assign(side="customer"), drawn.merchants.assign(side="merchant")], ignore_index=True
            ).assign(snapshot_ts=at),
            "edge": drawn.edges,
            "offer": pd.DataFrame(
                {
                    "offer_id": funds,
                    "side": "customer",
                    "kind": "fund",
                    "face_value": 0,
                    "risk_level": drawn.risk_level,
                    "order_index": drawn.offers["level"],
                    "demand": drawn.demand,
                    "x_return": drawn.offers["x_return"],
                    "x_lot": drawn.offers["x_lot"],
                }
            ),
            "exposure": pd.DataFrame(
                {
                    "request_id": request_id,
                    "account_id": rows["account_id"],
                    "side": "customer",
                    "offer_id": np.array(funds)[rows["level"]],
                    "decided_at": rows["decided_at"],
                    "propensity": rows["propensity"],
                    "policy_version": "trial",
                    "exploration": True,
                }
            ),
            "outcome": pd.DataFrame(
                {
                    "request_id": request_id,
                    "observed_at": rows["decided_at"] + pd.Timedelta(days=1),
                    "mature": True,
                    "cost_paid": 0,
                    "redeemed": rows["response"].astype("Int64"),
                    "clicked": rows["clicked"].astype("Int64"),
                    "amount": rows["amount"].astype("Int64"),
                }
            ),
            "campaign": campaign_table(
                "funds", pd.Timestamp(ENDS) + timedelta(days=1), 0.0, basis="on_grant", budget_name="none"
            ),
            "action": drawn.actions,
        }
    )
    users = len(drawn.users)
    return Dataset(
        name="funds",
        tables=tables,
        split=Split(by="account"),
        truth=pd.DataFrame(
            {
                "account_id": np.tile(drawn.users["account_id"].to_numpy(), chosen.funds),
                "side": "customer",
                "level": np.repeat(np.arange(chosen.funds), users),
                "response": drawn.convert.astype(np.float64).ravel(),
                "value": drawn.value.ravel(),
            }
        ),
        notes={
            "source": "simulated: a delivery of funds after S2 with known probabilities and amounts",
            "purchases": "latent amounts that reach the least purchase"
            if chosen.censored
            else "apart from their amounts",
            "wealth": f"{chosen.strength:.0%} of its standard deviation flows along the consumption graph",
        },
    )
