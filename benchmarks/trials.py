"""Generated files in the shape of three real randomized trials, with the true response of each account and level.

A bonus of four levels for people of whom half respond; a matching gift of three ratios for donors of whom 2 % respond;
an e-mail of three arms that have no amount. Files have the columns of somebody else, so that a test reads them as a
user's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Shape = Literal["bonus", "gift", "email"]


@dataclass(frozen=True)
class TrialFiles:
    """One drawn trial.

    people    one row per account, the features before the trial
    offers    one row per account: the arm that was drawn and the result, in the columns of a user's file
    truth     float64 (J, N), expected response of each account at each level
    level     (N,), index of the level given
    response  (N,), 0 or 1
    levels    amounts of the levels in major units; empty where arms have none
    shares    (J,), probability of each level
    """

    people: pd.DataFrame
    offers: pd.DataFrame
    truth: NDArray[np.float64]
    level: NDArray[np.int64]
    response: NDArray[np.int64]
    levels: tuple[float, ...]
    shares: NDArray[np.float64]

    def write(self, folder: Path) -> Mapping[str, Path]:
        """Write ``people.csv`` and ``offers.csv`` into ``folder``; return name → path."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {"people": folder / "people.csv", "offers": folder / "offers.csv"}
        self.people.to_csv(files["people"], index=False)
        self.offers.to_csv(files["offers"], index=False)
        return files


def draw(shape: Shape, *, seed: int, accounts: int = 0, effect: float = 1.0) -> TrialFiles:
    """Draw a trial; ``effect`` multiplies the effect of every level, and 0 leaves none.

    Args:
        shape: of the files.
        seed: of features, arms and results.
        accounts: number of people; 0: that of the trial the shape is taken from (14,000; 50,000; 64,000).
        effect: 1 is about the size that the real trial reported.

    Example:
        >>> trial = draw("bonus", seed=0, accounts=1000)
        >>> trial.truth.shape, bool(0.4 < trial.response.mean() < 0.6)
        ((4, 1000), True)
    """
    rng = np.random.default_rng([seed, ("bonus", "gift", "email").index(shape)])
    return {"bonus": _bonus, "gift": _gift, "email": _email}[shape](rng, accounts, effect)


def _bonus(rng: np.random.Generator, accounts: int, effect: float) -> TrialFiles:
    """Re-employment bonus: no bonus or one of three amounts; paid when the person has found work in time."""
    n = accounts or 14_000
    age, weeks = rng.integers(18, 66, n), rng.integers(1, 27, n)
    region, gender = rng.choice(["North", "South", "East"], n), rng.choice(["f", "m"], n)
    levels, shares = (0.0, 332.0, 665.0, 997.0), np.array([0.25, 0.25, 0.25, 0.25])
    base = 0.5 - 0.006 * (age - 41) - 0.03 * (weeks - 13) / 13
    lift = np.array([0.0, 0.010, 0.025, 0.040])[:, None] * (1.0 + 0.8 * np.tanh((age - 41) / 12))[None, :]
    truth = np.clip(base[None, :] + effect * lift, 0.01, 0.99)
    level, response = _drawn(rng, truth, shares)
    person = np.array([f"{100_000 + k}" for k in range(n)])
    people = pd.DataFrame({"person_id": person, "age": age, "weeks_of_benefit": weeks, "region": region, "sex": gender})
    hour = rng.integers(0, 60 * 24, n)
    offers = pd.DataFrame(
        {
            "person_id": person,
            "interview": _written("2025-03-03", "h", "%Y-%m-%d %H:%M")[hour],
            "bonus": np.array([f"${each:,.2f}" for each in levels], dtype=object)[level],
            "found_work": np.where(response == 1, "yes", "no"),
        }
    )
    return TrialFiles(people, offers, truth, level, response, levels, shares)


def _gift(rng: np.random.Generator, accounts: int, effect: float) -> TrialFiles:
    """Matching gift: none, or each dollar given is matched by one, two or three; the ratio itself hardly matters."""
    n = accounts or 50_000
    last, years = np.round(rng.lognormal(3.3, 0.8, n), 2), rng.integers(0, 25, n)
    state = rng.choice(["red", "blue"], n)
    levels, shares = (0.0, 1.0, 2.0, 3.0), np.array([1 / 3, 2 / 9, 2 / 9, 2 / 9])
    base = 0.018 * np.exp(0.25 * (np.log(last) - 3.3)) * np.where(years > 12, 0.8, 1.15)
    lift = np.array([0.0, 0.0035, 0.0042, 0.0044])[:, None] * np.where(state == "red", 1.8, 0.4)[None, :]
    truth = np.clip(base[None, :] + effect * lift, 1e-4, 0.9)
    level, response = _drawn(rng, truth, shares)
    donor = np.array([f"D{k:06d}" for k in range(n)])
    people = pd.DataFrame({"donor": donor, "last_gift": last, "years_since_first": years, "state": state})
    mailed = _written("2025-08-01", "D", "%m/%d/%Y")[rng.integers(0, 28, n)]
    offers = pd.DataFrame({"donor": donor, "mailed": mailed, "match_ratio": level, "gave": response.astype(int)})
    return TrialFiles(people, offers, truth, level, response, levels, shares)


def _email(rng: np.random.Generator, accounts: int, effect: float) -> TrialFiles:
    """E-mail of three arms: none, one for men's and one for women's goods; both cost the same."""
    n = accounts or 64_000
    recency, history = rng.integers(1, 13, n), np.round(rng.lognormal(5.0, 0.9, n), 2)
    mens, womens = rng.random(n) < 0.55, rng.random(n) < 0.55
    channel = rng.choice(["Web", "Phone", "Multichannel"], n, p=[0.44, 0.44, 0.12])
    shares = np.array([1 / 3, 1 / 3, 1 / 3])
    base = 0.106 * np.exp(-0.04 * (recency - 6)) * np.where(channel == "Multichannel", 1.4, 0.95)
    lift = np.stack([np.zeros(n), np.where(mens, 0.095, 0.055), np.where(womens, 0.085, -0.005)])
    truth = np.clip(base[None, :] + effect * lift, 1e-3, 0.95)
    level, response = _drawn(rng, truth, shares)
    customer = np.arange(1, n + 1)
    people = pd.DataFrame(
        {
            "customer": customer,
            "recency": recency,
            "history": history,
            "mens": mens.astype(int),
            "womens": womens.astype(int),
            "channel": channel,
        }
    )
    arms = np.array(["No E-Mail", "Mens E-Mail", "Womens E-Mail"])
    sent = _written("2025-05-05", "D", "%Y-%m-%d")[rng.integers(0, 7, n)]
    offers = pd.DataFrame({"customer": customer, "sent": sent, "segment": arms[level], "visit": response.astype(int)})
    return TrialFiles(people, offers, truth, level, response, (), shares)


@cache
def _written(first: str, unit: Literal["h", "D"], form: str) -> NDArray[np.object_]:
    """Return the texts of two months of instants from the first one on; to write each row's own takes far longer."""
    instants = pd.Timestamp(first) + pd.to_timedelta(np.arange(60 * (24 if unit == "h" else 1)), unit=unit)
    return np.array(instants.strftime(form), dtype=object)


def _drawn(
    rng: np.random.Generator, truth: NDArray[np.float64], shares: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n = truth.shape[1]
    level = np.asarray(rng.choice(len(shares), n, p=shares), dtype=np.int64)
    return level, (rng.random(n) < truth[level, np.arange(n)]).astype(np.int64)
