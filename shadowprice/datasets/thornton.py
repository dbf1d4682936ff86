"""``thornton``: a randomized cash incentive to fetch an HIV test result, Malawi 2004, as canonical tables.

R. Thornton, "The Demand for, and Impact of, Learning HIV Status", AER 2008; the data come with the package
``causaldata``. A person drew an amount, zero included, and ``got`` tells whether the result was fetched. What a
reader must know:

* **Used** are the people whose amount and answer are both known. Unknown age or village stays unknown.
* **Amounts are binned** (:data:`BINS`): 27 distinct ones, some given to two people, become 11 levels of at
  least 90 people. A level's face value is the mean amount in its bin, in US cents; the money paid is the
  amount itself.
* **The draw was not the same everywhere.** Where villages are numbered from 100 on, the amounts were 0, 50, 100,
  200 and 300 kwacha (one person had 20), and zero was more than twice as likely. Propensities are the shares
  within each of the two draws, and the draw is a feature of the person: the regions also differ in what people
  do at zero.
* **The test's result is left out**: it was not known when the amount was drawn.
* **Villages are the merchant side** of the graph. They are offered nothing.
* **Dates are conventional**: the data have none. Everybody decides on 1 July 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.datasets.campaign_table import campaign_table
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.split import Split
from shadowprice.errors import MissingExtra
from shadowprice.tables import validate_tables

BINS = (0, 10, 30, 50, 60, 100, 120, 140, 200, 220, 300)
"""First amount of each bin, in kwacha; a bin ends where the next begins. The draws were in steps of 10."""

DOLLARS_PER_KWACHA = 0.009456
"""The rate at which the source converts; ``tinc`` is a multiple of ten times this."""

SECOND_DRAW_FROM = 100
"""Villages numbered from here on used the second draw."""

DECIDED_AT = pd.Timestamp("2004-07-01", tz="UTC")
OBSERVED_AT = pd.Timestamp("2004-11-01", tz="UTC")
CAMPAIGN_STARTS = pd.Timestamp("2005-01-01", tz="UTC")

BUDGET_SHARE = 0.5


def load(_data: str | None = None, *, seed: int = 0) -> Dataset:  # noqa: ARG001 - nothing is drawn
    """Convert the data of the package ``causaldata``.

    Raises:
        MissingExtra: the package is not installed.
    """
    everyone = _source()
    people = everyone.dropna(subset=["got", "tinc"])
    kwacha = (people["tinc"] / DOLLARS_PER_KWACHA).round().astype(np.int64).to_numpy()
    cents = (people["tinc"] * 100).round().astype(np.int64).to_numpy()
    level = np.digitize(kwacha, BINS) - 1
    face_value = np.bincount(level, weights=people["tinc"] * 100) / np.bincount(level)
    levels = face_value.round().astype(np.int64)
    got = people["got"].astype(np.int64).to_numpy()

    exposure = pd.DataFrame(
        {
            "request_id": "draw-" + people["person"],
            "account_id": people["person"],
            "side": "customer",
            "offer_id": [f"bonus-{levels[index]}" for index in level],
            "decided_at": DECIDED_AT,
            "propensity": _share_of_level(people["draw"], level),
            "partner_id": people["village"],
            "policy_version": "draw-" + people["draw"],
            "exploration": True,
        }
    )
    outcome = pd.DataFrame(
        {
            "request_id": exposure["request_id"],
            "observed_at": OBSERVED_AT,
            "mature": True,
            "cost_paid": cents * got,
            "redeemed": got,
        }
    )
    split = Split(by="account")
    learnt = split.assign(exposure) == "train"
    budget = int(BUDGET_SHARE * (cents * got)[learnt].mean() * len(people))
    placed = people.dropna(subset=["village"])
    tables = validate_tables(
        {
            "account": pd.concat([_persons(people), _villages(everyone, placed)], ignore_index=True),
            "edge": _edges(placed),
            "offer": pd.DataFrame(
                {
                    "offer_id": [f"bonus-{value}" for value in levels],
                    "side": "customer",
                    "kind": "bonus",
                    "face_value": levels,
                }
            ),
            "exposure": exposure,
            "outcome": outcome,
            "campaign": campaign_table("thornton", CAMPAIGN_STARTS, budget),
        }
    )
    return Dataset(
        name="thornton",
        tables=tables,
        split=split,
        notes={
            "source": "real, randomized: Thornton (AER 2008), from the package causaldata",
            "people": f"{len(everyone)} in the file, {len(people)} with amount and answer known",
            "unknown": f"age of {int(people['age'].isna().sum())}, village of {len(people) - len(placed)}",
            "levels": "27 amounts in 11 bins; a level is its bin's mean in US cents: "
            + ", ".join(map(str, levels.tolist())),
            "propensity": "share of the level within each of the two draws",
            "left out": "the test's result, unknown when the amount was drawn",
            "split": "by account",
            "dates": "conventional: everybody decides on 1 July 2004",
            "budget": f"{BUDGET_SHARE:.0%} of what the drawn amounts cost per person, for {len(people)} people",
            "requests per day": str(len(people)),
        },
    )


def _source() -> pd.DataFrame:
    """The package's table with names: person p0000…, village v000 or none, draw first or second."""
    try:
        from causaldata import thornton_hiv
    except ImportError:
        raise MissingExtra(
            "the data set 'thornton' needs the package causaldata: pip install 'shadowprice[datasets]'"
        ) from None
    data: pd.DataFrame = thornton_hiv.load_pandas().data.astype(np.float64)
    number = data["villnum"]
    village: list[Any] = [None if np.isnan(value) else f"v{int(value):03d}" for value in number]
    return data.assign(
        person=[f"p{row:04d}" for row in range(len(data))],
        village=village,
        # The four people of unknown village drew amounts that only the first draw had.
        draw=np.where(number >= SECOND_DRAW_FROM, "second", "first"),
    )


def _share_of_level(draw: pd.Series[str], level: NDArray[np.int64]) -> NDArray[np.float64]:
    table = pd.DataFrame({"draw": draw.to_numpy(), "level": level, "row": 1})
    share = table.groupby(["draw", "level"])["row"].transform("size") / table.groupby("draw")["row"].transform("size")
    return share.to_numpy(dtype=np.float64)


def _persons(people: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "account_id": people["person"],
            "side": "customer",
            "snapshot_ts": DECIDED_AT,
            "x_age": people["age"],
            "x_distance_km": people["distvct"],
            "c_draw": people["draw"],
        }
    )


def _villages(everyone: pd.DataFrame, placed: pd.DataFrame) -> pd.DataFrame:
    """Villages of the people used; their features are taken over everybody in the file, asked or not."""
    by_village = everyone[everyone["village"].isin(placed["village"])].groupby("village")
    return (
        pd.DataFrame(
            {
                "side": "merchant",
                "snapshot_ts": DECIDED_AT,
                "x_village_people": by_village.size().astype(np.float64),
                "x_village_mean_age": by_village["age"].mean(),
                "x_village_mean_distance_km": by_village["distvct"].mean(),
                "c_draw": by_village["draw"].first(),
            }
        )
        .rename_axis("account_id")
        .reset_index()
    )


def _edges(placed: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "src": placed["person"],
            "dst": placed["village"],
            "relation": "related_to",
            "weight": 1.0,
            "ts": DECIDED_AT - pd.Timedelta(seconds=1),
            "x_distance_km": placed["distvct"],
        }
    )
