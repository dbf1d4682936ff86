"""Random parts of :mod:`shadowprice.datasets.vouchers`: vouchers, behaviors, items and profiles."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

STARTS = datetime(2026, 1, 5, tzinfo=UTC)
CATEGORIES = 4
HALF_LIFE = 3.0
"""Number of carts over which recency halves."""
BRANDS_PER_CATEGORY = 3


@dataclass(frozen=True, eq=False)
class Vouchers:
    """V vouchers: identifiers, hidden category, discount and least spend in cents, and what the depth adds."""

    ids: NDArray[np.str_]
    category: NDArray[np.int64]
    discount: NDArray[np.int64]
    min_spend: NDArray[np.int64]
    depth: NDArray[np.float64]


def draw_vouchers(count: int, random: np.random.Generator) -> Vouchers:
    """Several vouchers may have one discount; how deep it is counts, whatever the category."""
    discount = 100 * random.integers(2, 8, count)
    times = random.choice([3, 5, 8], count)
    return Vouchers(
        ids=np.array([f"v{k:03d}" for k in random.permutation(count)]),
        category=random.permutation(np.arange(count) % CATEGORIES),
        discount=discount,
        min_spend=discount * times,
        depth=2.0 * (1 / times - 0.2) + 0.0015 * (discount - discount.mean()),
    )


@dataclass(frozen=True, eq=False)
class Events:
    """n events: the session each belongs to, its category, and whether it is an order."""

    session: NDArray[np.int64]
    category: NDArray[np.int64]
    order: NDArray[np.bool_]


def draw_events(
    mean: float, taste: NDArray[np.float64], interest: NDArray[np.int64], random: np.random.Generator
) -> Events:
    """Draw the events around each session: ``mean`` of them, by what its person wants now and by taste (S, K)."""
    count = random.geometric(1 / (1 + mean), interest.size) - 1
    session = np.repeat(np.arange(interest.size), count)
    drawn = random.random(session.size)
    category = np.where(
        drawn < 0.6,
        interest[session],
        np.where(drawn < 0.8, draw(taste[session], random), random.integers(0, CATEGORIES, session.size)),
    )
    return Events(session, category, random.random(session.size) < 0.2)


def shares(events: Events, sessions: int) -> NDArray[np.float64]:
    """(S, categories): shares of the session's events; none where there are none."""
    count = np.bincount(events.session * CATEGORIES + events.category, minlength=sessions * CATEGORIES)
    table = count.reshape(sessions, CATEGORIES).astype(np.float64)
    return np.asarray(table / np.maximum(table.sum(axis=1, keepdims=True), 1))


def order_of_carts(session: NDArray[np.int64], category: NDArray[np.int64], sessions: int) -> NDArray[np.float64]:
    """Return recency plus succession of every category, (S, categories); the data set's module has the formulas.

    Args:
        session: of each cart, ascending; of one session the latest cart comes first.
        category: of each cart.
        sessions: S.
    """
    count = np.bincount(session, minlength=sessions)
    rank = np.arange(session.size) - np.repeat(np.cumsum(count) - count, count)

    def table(of: NDArray[np.int64], kind: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.bincount(of * CATEGORIES + kind, weight, sessions * CATEGORIES).astype(np.float64)
        return total.reshape(sessions, CATEGORIES)

    near, alike = (table(session, category, each) for each in (0.5 ** (rank / HALF_LIFE), np.ones(rank.size)))
    recency = near / np.maximum(near.sum(axis=1, keepdims=True), 1e-9) - alike / np.maximum(count, 1)[:, None]
    same = session[1:] == session[:-1]
    pair, later, earlier = session[1:][same], category[:-1][same], category[1:][same]
    forward, back = ((one + 1) % CATEGORIES == other for one, other in ((earlier, later), (later, earlier)))
    moves = table(pair, later, forward.astype(np.float64)) - table(pair, earlier, back.astype(np.float64))
    return np.asarray(recency + moves / np.maximum(count - 1, 1)[:, None])


@dataclass(frozen=True, eq=False)
class Catalog:
    """Items sorted by category; popular ones first within it."""

    first: NDArray[np.int64]
    count: NDArray[np.int64]
    brand: NDArray[np.int64]
    price: NDArray[np.int64]

    @classmethod
    def draw(cls, items: int, random: np.random.Generator) -> Catalog:
        """Draw items with brands and prices."""
        category = np.arange(items) * CATEGORIES // items
        count = np.bincount(category, minlength=CATEGORIES)
        return cls(
            first=np.cumsum(count) - count,
            count=count,
            brand=category * BRANDS_PER_CATEGORY + random.integers(0, BRANDS_PER_CATEGORY, items),
            price=random.integers(1, 8, items),
        )

    def table(
        self,
        events: Events,
        phase: str,
        ids: NDArray[np.str_],
        collected: NDArray[np.float64],
        random: np.random.Generator,
        *,
        in_order: bool = False,
    ) -> pd.DataFrame:
        """Return the rows of the events at random times, or ``in_order``, the latest of a session first."""
        size = events.session.size
        # The square makes some items much more popular than others.
        item = self.first[events.category] + (random.random(size) ** 2 * self.count[events.category]).astype(np.int64)
        away = random.exponential(86_400.0, size).clip(1, 5 * 86_400)
        if in_order:
            away = away[np.lexsort((away, events.session))]
        category = np.array([f"category-{k}" for k in range(CATEGORIES)])
        brand = np.array([f"brand-{k}" for k in range(CATEGORIES * BRANDS_PER_CATEGORY)])
        return pd.DataFrame(
            {
                "session_id": ids[events.session],
                "item_id": np.array([f"i{k:06d}" for k in range(self.price.size)])[item],
                "action": np.where(events.order, "order", "cart"),
                "phase": phase,
                "ts": time_of(collected[events.session] + (-away if phase == "before" else away)),
                "category": category[events.category],
                "brand": brand[self.brand[item]],
                "price_level": self.price[item],
            }
        )


def profile(activity: NDArray[np.float64], user: NDArray[np.int64], random: np.random.Generator) -> dict[str, object]:
    """The columns of S3's user profile: they show how active a person is, and nothing of their tastes."""
    users = activity.size

    def shown(noise: float) -> NDArray[np.float64]:
        return activity + noise * random.normal(size=users)

    orders = random.poisson(np.exp(1.5 + 0.6 * shown(0.5)))
    mean = np.exp(3.0 + 0.3 * shown(1.0))
    columns = {
        "x_age_level": random.integers(0, 9, users).astype(np.float64),
        "x_purchase_level": np.clip(np.rint(5 + 2 * shown(0.7)), 0, 10),
        "x_orders": orders.astype(np.float64),
        "x_orders_with_voucher": random.binomial(orders, 0.4).astype(np.float64),
        "x_gmv_sum": orders * mean,
        "x_gmv_max": mean * 1.8,
        "x_gmv_mean": mean,
        "x_gmv_min": mean * 0.4,
    }
    gender = random.choice(["f", "m", "unknown"], users, p=[0.5, 0.4, 0.1])
    return {**{name: values[user] for name, values in columns.items()}, "c_gender": gender[user]}


def draw(chance: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """One column for each row of probabilities (n, K)."""
    point = random.random(len(chance))
    above = np.less(np.cumsum(chance, axis=1), point[:, None]).astype(np.int64)
    return np.asarray(np.minimum(above.sum(axis=1), chance.shape[1] - 1))


def uneven(users: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Some people collect more vouchers than others."""
    weight = random.gamma(1.0, size=users)
    return np.asarray(weight / weight.sum())


def intercept(score: NDArray[np.float64], rate: float) -> float:
    """Return the shift of the scores at which the mean probability is ``rate``, by bisection."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float((1 / (1 + np.exp(-(score + middle)))).mean()) < rate:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def time_of(seconds: NDArray[np.float64]) -> pd.Series:
    """Return times from seconds after the start."""
    return pd.Series(pd.Timestamp(STARTS) + pd.to_timedelta(np.rint(seconds), unit="s")).astype("datetime64[ns, UTC]")
