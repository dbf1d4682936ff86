"""Graph of the generated data set ``world``: accounts with hidden traits, features and payments between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.errors import InvalidInput

HISTORY_DAYS = 60
TRAITS = 2
FEATURES = 8
AT_HOME = 0.95
"""Share of ties within a community."""
FAR = 0.7
"""Influence over two hops relative to that over one."""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Options that the graph is drawn by.

    customers, merchants   accounts on each side
    both                   of these, accounts that are on both sides
    ties                   mean number of merchants a customer trades with; a merchant drawn twice counts once
    noise                  standard deviation of the noise in the features
    communities            groups of accounts that trade with each other, except for one tie in twenty; 1: no groups

    Raises:
        InvalidInput: an option outside its range.
    """

    customers: int = 6000
    merchants: int = 1500
    both: int = 150
    ties: float = 7.0
    noise: float = 0.8
    communities: int = 1

    def __post_init__(self) -> None:
        self.check_whole(customers=1, merchants=1, both=0, communities=1)
        self.check_real("ties", "noise")
        if self.both > min(self.customers, self.merchants):
            raise InvalidInput("must not exceed customers or merchants", field="options.both")
        require(self.communities <= self.merchants, "options.communities", "must not exceed the number of merchants")
        if not 1 <= self.ties <= self.merchants:
            raise InvalidInput(
                f"must lie between 1 and the number of merchants, got {self.ties!r}", field="options.ties"
            )

    def check_whole(self, **least: int) -> None:
        """Make the named options integers, or raise for those that are not whole or too small."""
        for name, smallest in least.items():
            value = getattr(self, name)
            # A pipeline's parameters are JSON, where a whole number may come as 5.0.
            if not _is_number(value) or value % 1 != 0 or value < smallest:
                raise InvalidInput(f"must be a whole number ≥ {smallest}, got {value!r}", field=f"options.{name}")
            object.__setattr__(self, name, int(value))

    def check_real(self, *names: str) -> None:
        """Raise for named options that are negative or not finite."""
        for name in names:
            value = getattr(self, name)
            if not (_is_number(value) and np.isfinite(value) and value >= 0):
                raise InvalidInput(f"must be a finite number ≥ 0, got {value!r}", field=f"options.{name}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class WorldGraph:
    """Accounts, traits, features and ties. Node order: customers, then merchants that are not customers.

    ids         str (N,)
    customers   nodes of the customers
    merchants   nodes of the merchants; some are customers too
    traits      float64 (N, 2), standard normal, hidden
    loading     side → (2, 8): features are traits @ loading plus noise
    features    side → (accounts of the side, 8)
    tie         (2, E): customer node, merchant node
    payments    (E,), number of payments along each tie
    log_amount  (E,), mean log amount of a payment
    """

    ids: NDArray[np.str_]
    customers: NDArray[np.intp]
    merchants: NDArray[np.intp]
    traits: NDArray[np.float64]
    loading: dict[str, NDArray[np.float64]]
    features: dict[str, NDArray[np.float64]]
    tie: NDArray[np.intp]
    payments: NDArray[np.intp]
    log_amount: NDArray[np.float64]

    def influence(self, rho: float, threshold: bool = False) -> NDArray[np.float64]:
        """(N, 2): own traits plus ρ × the influence of the ties, two hops deep, each hop at unit variance.

        With a threshold, the part of what arrives at a hop that lies below 0 counts for nothing and is not passed on.
        """
        share = self.shares()

        def spread(source: NDArray[np.float64]) -> NDArray[np.float64]:
            received = np.stack([self._received(share, column) for column in source.T], axis=1)
            if threshold:
                received = np.maximum(received, 0.0)
                received -= received.mean(axis=0)
            deviation = received.std(axis=0)
            return np.asarray(received / np.where(deviation > 0, deviation, 1.0))

        near = spread(self.traits)
        far = spread(near)
        return np.asarray((self.traits + rho * near + FAR * rho * far) / np.sqrt(1 + (1 + FAR**2) * rho**2))

    def shares(self) -> NDArray[np.float64]:
        """(E,): strength of each tie, diluted by the ties of both ends."""
        weight = np.sqrt(self.payments) * np.exp(0.5 * self.log_amount)
        mass = self._received(weight, np.ones(len(self.traits)))
        return np.asarray(weight / np.sqrt(mass[self.tie[0]] * mass[self.tie[1]]))

    def _received(self, share: NDArray[np.float64], source: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,): what each account gets of the other ends of its ties."""
        customer, merchant = self.tie
        sent = np.concatenate([share * source[merchant], share * source[customer]])
        return np.asarray(
            np.bincount(np.concatenate([customer, merchant]), sent, minlength=len(source)), dtype=np.float64
        )

    def account_parts(self, at: datetime, rows: int) -> Iterator[pd.DataFrame]:
        """The account table of a snapshot at an instant, in parts: customers, then merchants."""
        split, names = self.customers.size, [f"x_{side}{k}" for side in "cm" for k in range(FEATURES)]
        for part in slices(split + self.merchants.size, rows):
            frames = []
            for side, block in of_sides(part, split):
                nodes = self.customers if side == "customer" else self.merchants
                frame = pd.DataFrame(self.features[side][block], columns=[f"x_{side[0]}{k}" for k in range(FEATURES)])
                frame.insert(0, "account_id", self.ids[nodes[block]])
                frame.insert(1, "side", side)
                frame.insert(2, "snapshot_ts", pd.Timestamp(at))
                frames.append(frame.reindex(columns=["account_id", "side", "snapshot_ts", *names]))
            yield pd.concat(frames, ignore_index=True)

    def edge_parts(self, at: datetime, rows: int, random: np.random.Generator) -> Iterator[pd.DataFrame]:
        """The edge table in parts: one row per payment before an instant.

        All payments are drawn when the first part is asked for, and let go of after the last.
        """
        index = np.repeat(np.arange(self.payments.size, dtype=np.int32), self.payments)
        # In place: a copy of so many numbers is a good part of the memory of a large world.
        ago = random.random(index.size)
        ago *= HISTORY_DAYS
        ago *= 86_400
        ago += 3600
        amount = random.normal(size=index.size)
        amount *= 0.2
        for part in slices(index.size, rows):
            amount[part] += self.log_amount[index[part]]

        for part in slices(index.size, rows):
            customer, merchant = self.tie[:, index[part]]
            yield pd.DataFrame(
                {
                    "src": self.ids[customer],
                    "dst": self.ids[merchant],
                    "relation": "paid_at",
                    "weight": 1.0,
                    "ts": pd.Timestamp(at) - pd.to_timedelta(ago[part].round(), unit="s"),
                    "x_log_amount": amount[part],
                }
            )


def slices(size: int, rows: int) -> Iterator[slice]:
    """Cut ``size`` rows into parts of at most ``rows``; no rows are one part."""
    for start in range(0, max(size, 1), rows):
        yield slice(start, min(start + rows, size))


def of_sides(part: slice, customers: int) -> list[tuple[str, slice]]:
    """Return where a part of the rows lies among those of each side, where the customers come first."""
    own = {
        "customer": slice(min(part.start, customers), min(part.stop, customers)),
        "merchant": slice(max(part.start, customers) - customers, max(part.stop, customers) - customers),
    }
    return [(side, block) for side, block in own.items() if block.start < block.stop]


def _at_home(
    options: GraphOptions,
    customer: NDArray[np.intp],
    chosen: NDArray[np.intp],
    popularity: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.intp]:
    """Merchants (E,) in place of those chosen: most are of the customer's own community."""
    group, stays = customer % options.communities, random.random(customer.size) < AT_HOME
    merchant = chosen.copy()
    for number in range(options.communities):
        mine = np.flatnonzero(stays & (group == number))
        near = np.arange(number, options.merchants, options.communities)
        merchant[mine] = random.choice(near, size=mine.size, p=popularity[near] / popularity[near].sum())
    return merchant


def draw_graph(options: GraphOptions, random: np.random.Generator) -> WorldGraph:
    """Draw accounts, traits, features and ties; ties do not depend on traits."""
    customers = np.arange(options.customers)
    alone = options.merchants - options.both
    merchants = np.concatenate(
        [random.choice(options.customers, options.both, replace=False), options.customers + np.arange(alone)]
    )
    nodes = options.customers + alone
    ids = np.array([f"a{node:07d}" for node in range(nodes)])
    traits = random.normal(size=(nodes, TRAITS))
    loadings, features = {}, {}
    for side, members in (("customer", customers), ("merchant", merchants)):
        loading = random.normal(size=(TRAITS, FEATURES)) / np.sqrt(TRAITS)
        shown = traits[members] @ loading
        loadings[side] = loading
        features[side] = shown + options.noise * random.normal(size=shown.shape)
    degree = 1 + random.poisson(options.ties - 1, size=options.customers)
    popularity = random.lognormal(0.0, 0.7, size=options.merchants)
    chosen = random.choice(options.merchants, size=int(degree.sum()), p=popularity / popularity.sum())
    if options.communities > 1:
        chosen = _at_home(options, np.repeat(customers, degree), chosen, popularity, random)
    tie = np.stack(np.divmod(np.unique(np.repeat(customers, degree) * nodes + merchants[chosen]), nodes))
    tie = tie[:, tie[0] != tie[1]]
    return WorldGraph(
        ids=ids,
        customers=customers,
        merchants=merchants,
        traits=traits,
        loading=loadings,
        features=features,
        tie=tie,
        payments=np.asarray(random.geometric(0.5, size=tie.shape[1]), dtype=np.intp),
        log_amount=np.asarray(random.normal(size=tie.shape[1])),
    )
