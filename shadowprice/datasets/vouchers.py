"""``vouchers``: vouchers with the behavior around them and their redemption (after S3), with the known truth.

S3's premise is that redemption depends on whether the voucher fits what lies in the cart. ``match`` sets how strongly
it does here, ``habit`` how strongly it depends on whether the voucher fits lasting taste; with both at 0, graphs and
histories have no information.

A person has lasting tastes over categories of items, θ_u ~ Dirichlet(0.3). Around a voucher most items come from one
category, drawn from θ_u. Every voucher is good for one category, which no column shows: it has to be learned from
who redeems. Redemption is logistic in

    activity_u + depth_v + match · (share of the items before collection in the voucher's category − mean)
               + habit · (θ_u[category of v] − mean)

so that the match is seen in the graph of the session alone. The habit is seen in what was redeemed before and, more
weakly, in the graph, because what a person is after now is drawn from the same tastes; the profile shows neither. After
the collection, those who redeem put items of the voucher's category into the cart: behavior that reveals the label.

With ``order`` the order of the carts before the collection counts too, which no count of items shows. The logit then
has another term, ``order`` times the sum, for the category k of the voucher, of

    recency     Σ_r 2^(−r/3)·[cart r is of k] / Σ_r 2^(−r/3) − share of k,   r = 0 for the last cart
    succession  share of the pairs of successive carts from category k − 1 to k, less that of k to k − 1

Carts are in random order, so that both have mean 0 whatever the items are.

``history="destroyed"`` gives every session a user drawn at random, its own profile and items kept: the history of a
user is then that of other people. Everything here is simulated; the regions are S3's in proportion (sessions a
user, vouchers, share of sessions with a redeemed one before), scaled down to ``sessions``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.checks import require
from shadowprice.currency import USD
from shadowprice.datasets.folder import read_sessions
from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.session_requests import instant_of, request_tables
from shadowprice.datasets.split import MOST_DELAY_DAYS, Split
from shadowprice.datasets.voucher_draws import (
    CATEGORIES,
    STARTS,
    Catalog,
    draw,
    draw_events,
    draw_vouchers,
    intercept,
    order_of_carts,
    profile,
    shares,
    time_of,
    uneven,
)
from shadowprice.errors import InvalidInput
from shadowprice.mapping import map_sessions, read_mapping
from shadowprice.tables import SessionTables, validate_sessions

Region = Literal["A", "B", "C"]
History = Literal["kept", "destroyed"]

DAYS = 60
LABEL_DAYS = 7
"""A generated voucher expires so many days after it was collected: its label is known then."""
TEST_DAYS = 12
TEST_SHARE = 0.2
"""Share of the newest sessions that test, where no time is named."""


@dataclass(frozen=True)
class _Region:
    """sessions_per_user and vouchers as in S3, the latter scaled; rate of redemption chosen for its share of
    sessions with history; items per session, and how many sessions share an item."""

    sessions_per_user: float
    vouchers: int
    rate: float
    before: float
    after: float
    sessions_per_item: float


REGIONS: dict[str, _Region] = {
    "A": _Region(4.7, 8, 0.20, 8.0, 9.0, 2.0),
    "B": _Region(2.2, 4, 0.07, 8.0, 9.0, 2.0),
    "C": _Region(3.4, 8, 0.15, 8.0, 9.0, 2.0),
}


@dataclass(frozen=True, kw_only=True)
class VoucherOptions:
    """Options of the generator.

    region    whose proportions: A, B or C
    sessions  how many
    match     strength of the match of voucher and items of the session, 0 for none
    habit     strength of the match of voucher and lasting taste, 0 for none
    order     strength of the order of the carts, 0 for none
    history   ``kept``, or ``destroyed``: users of the sessions drawn at random
    test_days  days at the end of the 60 that the test takes
    """

    region: Region = "A"
    sessions: int = 12_000
    match: float = 4.0
    habit: float = 4.0
    order: float = 0.0
    history: History = "kept"
    test_days: float = TEST_DAYS

    def __post_init__(self) -> None:
        if self.region not in get_args(Region):
            raise InvalidInput(f"must be one of {get_args(Region)}, got {self.region!r}", field="region")
        if self.history not in get_args(History):
            raise InvalidInput(f"must be one of {get_args(History)}, got {self.history!r}", field="history")
        # A pipeline's parameters come as JSON, where every number is one with a point.
        if not float(self.sessions).is_integer() or self.sessions < 1:
            raise InvalidInput(f"must be a whole number of at least 1, got {self.sessions}", field="sessions")
        object.__setattr__(self, "sessions", int(self.sessions))
        require(0 < self.test_days < DAYS, "test_days", f"must be above 0 and below {DAYS}, got {self.test_days}")
        for name in ("match", "habit", "order"):
            require(getattr(self, name) >= 0, name, "must not be negative")


@dataclass(frozen=True, eq=False)
class VoucherData:
    """Sessions with their behaviour.

    tables      ``session`` and ``behaviour``
    test_from   first instant of the test
    truth       float64 (S, V): probability that the session's voucher is redeemed, had it been the v-th in order of
                (discount, voucher_id); None where it is unknown
    notes       what a reader must know
    campaign    columns of the campaign that the log's mapping names
    currency    of the amounts
    """

    tables: SessionTables
    test_from: datetime
    truth: NDArray[np.float64] | None
    notes: dict[str, str]
    campaign: Mapping[str, Any] = field(default_factory=dict)
    currency: str = USD

    def part(self) -> NDArray[np.str_]:
        """``train``, ``test`` or ``purged`` for each session: by time, and no model learns from a label that was not
        known when the test began, which is when the voucher expired."""
        session = self.tables.session
        collected, labeled = session["collected_at"], session["label"].notna()
        test_from = pd.Timestamp(self.test_from)
        known = session["expires_at"] <= test_from
        part = np.where(collected >= test_from, "test", np.where(known, "train", "purged"))
        return np.where(labeled, part, "purged")


def load(
    data: str | None,
    *,
    seed: int = 0,
    test_from: str = "",
    campaign: str = "",
    budget: float = 0,
    requests: int = 0,
    starts_at: str = "",
    **options: Any,
) -> Dataset:
    """Sessions of ``data``, a folder or a mapping, tested from ``test_from`` on; without ``data`` some are generated.

    The campaign is that of :func:`~shadowprice.datasets.session_requests.request_tables`; an option overrules the
    mapping.
    """
    simulation = read(data, test_from=test_from, **options) if data else generate(seed=seed, **options)
    session = simulation.tables.session
    known_after = (session["expires_at"] - session["collected_at"]).max() / pd.Timedelta(days=1)
    split = Split.between(
        simulation.test_from, simulation.test_from, label_delay_days=min(known_after, MOST_DELAY_DAYS), purge=True
    )
    named = {"campaign_id": campaign, "budget_limit": budget, "expected_requests": requests, "starts_at": starts_at}
    own = {**simulation.campaign, **{name: value for name, value in named.items() if value}}
    tables = request_tables(simulation.tables, own)
    notes = simulation.notes | {"propensity": "fitted, not logged: the share of the voucher in all sessions"}
    truth = None if simulation.truth is None else _truth_now(session, simulation.truth)
    return Dataset(
        name="vouchers",
        tables=tables,
        split=split,
        truth=truth,
        currency=simulation.currency,
        notes=notes,
        sessions=simulation.tables,
    )


def latest_sessions(session: pd.DataFrame) -> NDArray[np.int64]:
    """Positions of the latest session of each user, ascending."""
    collected = pd.Series(session["collected_at"].to_numpy(dtype="datetime64[ns]").astype(np.int64))
    return np.sort(collected.groupby(session["user_id"].to_numpy()).idxmax().to_numpy())


def _truth_now(session: pd.DataFrame, truth: NDArray[np.float64]) -> pd.DataFrame:
    """The truth (S, V) of each user's latest session, the request that is served."""
    latest = latest_sessions(session)
    levels = truth.shape[1]
    return pd.DataFrame(
        {
            "account_id": session["user_id"].to_numpy()[latest].repeat(levels),
            "side": "customer",
            "level": np.tile(np.arange(levels), latest.size),
            "response": truth[latest].ravel(),
        }
    )


def sessions_of(dataset: Dataset) -> VoucherData:
    """The sessions of a data set that :func:`load` made.

    Raises:
        InvalidInput: it has none.
    """
    tables, test_from = dataset.sessions, dataset.split.test_from
    if tables is None or test_from is None:
        raise InvalidInput("has no voucher sessions", field=dataset.name)
    return VoucherData(tables, test_from, None, dataset.notes)


def generate(*, seed: int = 0, **options: object) -> VoucherData:
    """Draw sessions. ``options`` are the fields of :class:`VoucherOptions`. O(behaviours log behaviours)."""
    unknown = sorted(set(options) - set(VoucherOptions.__dataclass_fields__))
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} is none of {sorted(VoucherOptions.__dataclass_fields__)}", field="options")
    chosen = VoucherOptions(**options)  # type: ignore[arg-type]
    region = REGIONS[chosen.region]
    random = np.random.default_rng([seed, 0xD8])
    users = max(2, round(chosen.sessions / region.sessions_per_user))
    taste = random.dirichlet(np.full(CATEGORIES, 0.3), users)
    activity = 0.7 * random.normal(size=users)
    voucher = draw_vouchers(region.vouchers, random)

    collected = np.sort(random.random(chosen.sessions)) * DAYS * 86_400
    user = random.choice(users, chosen.sessions, p=uneven(users, random))
    which = random.integers(0, region.vouchers, chosen.sessions)
    interest = draw(taste[user], random)

    before = draw_events(region.before, taste[user], interest, random)
    share = shares(before, chosen.sessions)
    score = (
        activity[user][:, None]
        + voucher.depth[None]
        + chosen.match * (share[:, voucher.category] - 1 / CATEGORIES)
        + chosen.habit * (taste[user][:, voucher.category] - 1 / CATEGORIES)
    )
    if chosen.order:
        cart = ~before.order
        term = order_of_carts(before.session[cart], before.category[cart], chosen.sessions)
        score += chosen.order * term[:, voucher.category]
    truth = 1 / (1 + np.exp(-(score + intercept(score, region.rate))))
    label = (random.random(chosen.sessions) < truth[np.arange(chosen.sessions), which]).astype(np.int64)
    # Those who redeem go on to what the voucher is good for.
    goal = np.where(label == 1, voucher.category[which], interest)
    after = draw_events(region.after, taste[user], goal, random)

    shown = random.integers(0, users, chosen.sessions) if chosen.history == "destroyed" else user
    ids = np.array([f"s{k:07d}" for k in range(chosen.sessions)])
    taken = random.exponential(1.5, chosen.sessions).clip(0.01, LABEL_DAYS) * 86_400
    session = pd.DataFrame(
        {
            "session_id": ids,
            "user_id": np.array([f"u{k:06d}" for k in range(users)])[shown],
            "voucher_id": voucher.ids[which],
            "campaign": np.array([f"week-{k}" for k in range(DAYS // 7 + 1)])[(collected // (7 * 86_400)).astype(int)],
            "min_spend": voucher.min_spend[which],
            "discount": voucher.discount[which],
            "collected_at": time_of(collected),
            "expires_at": time_of(collected + LABEL_DAYS * 86_400),
            "redeemed_at": time_of(collected + taken).where(label == 1),
            "label": label,
            **profile(activity, user, random),
        }
    )
    catalog = Catalog.draw(max(CATEGORIES * 2, round(chosen.sessions / region.sessions_per_item)), random)
    parts = [
        catalog.table(before, "before", ids, collected, random, in_order=chosen.order > 0),
        catalog.table(after, "after", ids, collected, random),
    ]
    tables = validate_sessions({"session": session, "behaviour": pd.concat(parts, ignore_index=True)})
    notes = {
        "source": f"simulated: generated after S3, region {chosen.region}, with known truth",
        "history": chosen.history,
        "strength": f"match {chosen.match:g}, habit {chosen.habit:g}, order {chosen.order:g}",
    }
    order = np.lexsort((voucher.ids, voucher.discount))
    test_from = STARTS + timedelta(days=DAYS - chosen.test_days)
    return VoucherData(tables, test_from, truth[:, order], notes)


def read(
    data: str, *, test_from: datetime | str = "", label_days: float | None = None, outside: bool = False
) -> VoucherData:
    """Sessions from a folder with ``session`` and ``behaviour``, parquet or CSV, or from the files of a mapping.

    No pickle is loaded; ``docs/how-to/run-a-voucher-campaign.md`` describes how to convert the public sample of S3.

    A session without ``expires_at`` expires ``label_days`` after its collection. Where no session has a label, those
    that expired before the last collection or redemption have one: 1 where they were redeemed, else 0. Without
    ``test_from`` the test has the newest fifth of the sessions. Both are options of the mapping's ``split`` too.

    Raises:
        NotFound: there is no such folder or mapping.
        InvalidTable: a table is missing or breaks its schema.
        InvalidInput: ``test_from`` is no time with a zone, ``label_days`` is negative, or nothing shows redemptions.
    """
    split: Mapping[str, Any] = {}
    zone = ""
    about: dict[str, Any] = {"notes": {"source": "a folder of session tables"}}
    if Path(data).is_file():
        mapping = read_mapping(data)
        tables, campaign = map_sessions(mapping, outside=outside)
        zone = mapping.timezone
        notes = {"source": f"the files of {Path(data).name}"}
        split, about = mapping.split, {"notes": notes, "campaign": campaign, "currency": mapping.currency}
    else:
        tables = read_sessions(data)
    days = split.get("label_delay_days", LABEL_DAYS) if label_days is None else label_days
    require(days >= 0, "label_days", "must not be negative")
    session = tables.session
    require(not session.empty, "session", "has no row; add the vouchers that were collected")
    if zone:
        day = session["collected_at"].max().tz_convert(zone).normalize()
        about["campaign"] = {"starts_at": (day + pd.DateOffset(days=1)).to_pydatetime(), **about["campaign"]}
    tables = replace(tables, session=_with_results(session, days))
    newest = session["collected_at"].sort_values().iloc[round((1 - TEST_SHARE) * (len(session) - 1))]
    given = test_from or split.get("test_from")
    return VoucherData(tables, instant_of(given, "test_from") if given else newest.to_pydatetime(), None, **about)


def _with_results(session: pd.DataFrame, days: float) -> pd.DataFrame:
    """Return the sessions, each with its expiry, and with labels where the log has none."""
    expires = session["expires_at"].fillna(session["collected_at"] + pd.Timedelta(days=days))
    session = session.assign(expires_at=expires)
    if session["label"].notna().any():
        return session
    redeemed = session["redeemed_at"].notna()
    require(redeemed.any(), "session.label", "is needed, or redeemed_at: no session shows whether it was redeemed")
    # A redeemed voucher that is still valid has no label either: beside it, those not redeemed yet would be missing.
    known = expires <= max(session["collected_at"].max(), session["redeemed_at"].max())
    return session.assign(label=redeemed.astype("Int64").where(known))
