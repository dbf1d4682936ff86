"""The ledger in each kind of store, for tests that hold for all of them."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from benchmarks.faults.redis_server import RedisServer
from serving.ledger.api.authorize import ceiling, entries
from serving.ledger.api.corrections import CorrectionEvent, corrections
from serving.ledger.api.events import Event
from serving.ledger.api.items import Items
from serving.ledger.api.messages import Authorizations
from serving.ledger.api.settle import outcomes
from serving.ledger.clock import microseconds, time_of
from serving.ledger.durability import Durability
from serving.ledger.opening import open_store
from serving.ledger.records import Known, lone
from serving.ledger.redis.layout import keys
from serving.ledger.redis.scripts import KEYS
from serving.ledger.redis.store import RedisStore
from serving.ledger.sqlite.peers import Peers
from serving.ledger.store import Store
from shadowprice.campaign import Budget, Campaign, Terms

LEVELS = {"customer": (0, 50, 130), "merchant": (20, 60)}
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
_names = (f"campaign-{number}" for number in itertools.count())


def make_campaign(limit=1000, form="total", **changes) -> Campaign:
    return Campaign(
        **{
            "name": next(_names),
            "sides": {
                "customer": Terms(levels=LEVELS["customer"]),
                "merchant": Terms(levels=LEVELS["merchant"], cost_basis="on_grant"),
            },
            "budget": Budget(form=form, limit=limit),
            "starts_at": NOW,
        }
        | changes
    )


def item(request_id, side="customer", level=1, account_id="a", **changes) -> SimpleNamespace:
    """One decision; a call has columns of them."""
    values = {
        "request_id": request_id,
        "account_id": account_id,
        "side": side,
        "level": level,
        "incentive": LEVELS[side][level],
        "response": 0.25,
        "expected_cost": 12.5,
        "propensity": 0.5,
        "reason": "tie",
        "response_unpaid": 0.125,
    }
    shares = [0.0] * len(LEVELS[side])
    shares[level] = shares[(level + 1) % len(shares)] = 0.5
    texts = {"partner_id": "", "context": "", "groups": ""}
    values |= {"propensities": shares, "features_at": None, "arm": "unassigned"} | texts
    return SimpleNamespace(**(values | changes))


def event(
    request_id, cost=0, *, event_id=None, source="shop", redeemed=None, response=None, at=NOW, **changes
) -> Event:
    redeemed = bool(cost) if redeemed is None and response is None else redeemed
    values = {
        "where": "",
        "source": source,
        "event_id": event_id or f"of-{request_id}",
        "request_id": request_id,
        "redeemed": redeemed,
        "response": float(redeemed) if response is None else response,
        "cost": cost,
        "observed_at": at,
        "content": f"{request_id} {redeemed} {response} {cost}",
    }
    return Event(**(values | changes))


def correction(request_id, cost=0, kind="reversal", *, event_id="c", override=False, **changes) -> CorrectionEvent:
    corrected = event(request_id, cost, event_id=event_id, **changes)
    content = f"{corrected.content} {kind} {override}"
    return CorrectionEvent(replace(corrected, content=content), kind, override)


class Watch:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Ledger:
    """One campaign's store, asked as the endpoints ask it.

    Time passes where ``at``, the wall clock, is moved on; ``wrong`` is added to what that shows.
    """

    store: Store

    def __init__(self, campaign: Campaign, watch: Watch, wrong: timedelta) -> None:
        self.campaign = campaign
        self.watch = watch
        self.wrong = wrong
        self._right = NOW
        self._open = True

    @property
    def at(self) -> datetime:
        return self._right + self.wrong

    @at.setter
    def at(self, shown: datetime) -> None:
        right = shown - self.wrong
        passed = max((right - self._right) // timedelta(microseconds=1), 0)
        self._right = right
        self.watch.now += passed
        self.jump(passed)

    def jump(self, microseconds: int) -> None:
        """Move the clock of a Redis on, which is the same as that it was looked at earlier."""
        if isinstance(self.store, RedisStore):
            with redis.Redis(**self.store._client.get_connection_kwargs()) as client:
                client.hincrby(keys(self.campaign.name)[KEYS.index("sums")], "server_time", -microseconds)

    @property
    def date(self) -> datetime:
        """The date of what is recorded now."""
        return time_of(self.store.date())

    def close(self):
        if self._open:
            self.store.close()
        self._open = False

    def authorize(self, *items, **options):
        """Record the items of one call."""
        return lone(self.authorize_calls(items, **options))

    def authorize_calls(self, *calls, hard_stop=True, campaign=None, **changes):
        """Record calls of items and of :class:`Known` requests; the answer of each."""
        own = campaign or self.campaign
        rows = [[row if isinstance(row, Known) else self._entry(row, own, changes) for row in call] for call in calls]
        return self.store.authorize(rows, ceiling(own, hard_stop, self.date), self.store.date()).result(20)

    def _entry(self, item, campaign, changes):
        columns = {name: [getattr(item, name)] for name in Items.model_fields if hasattr(item, name)}
        batch = Authorizations(
            **{"campaign": self.campaign.name, "model_version": "m", "price_version": 1, "items": Items(**columns)}
            | changes
        )
        (entry,) = entries(campaign, batch, self.date)
        return entry

    def settle(self, *events, hard_stop=True):
        placed = [replace(each, where=f"[{index}]") for index, each in enumerate(events)]
        decided = self.store.find([each.request_id for each in placed])
        made = outcomes(self.campaign, placed, decided, self.date, "shop-a")
        done = self.store.settle(made, ceiling(self.campaign, hard_stop, self.date), self.store.date()).result(20)
        return done.accepted, done.repeated

    def correct(self, *events, hard_stop=True):
        placed = [replace(each, event=replace(each.event, where=f"[{index}]")) for index, each in enumerate(events)]
        decided = self.store.find([each.event.request_id for each in placed])
        made = corrections(self.campaign, placed, decided, self.date, "refunds-desk")
        done = self.store.correct(made, ceiling(self.campaign, hard_stop, self.date), self.store.date()).result(20)
        return done.accepted, done.repeated

    def release(self, *request_ids):
        done = self.store.release(request_ids, self.store.date()).result(20)
        return done.accepted, done.repeated

    def sweep(self):
        return self.store.expire(self.store.date()).result(20)

    def money(self):
        totals = self.store.totals()
        return sum(totals.outstanding.values()), totals.net_spent


def open_with_watch(
    campaign: Campaign,
    db: Path,
    url: str = "",
    durability: Durability | None = None,
    peers: Peers | None = None,
    wrong: timedelta = timedelta(0),
) -> Ledger:
    ledger = Ledger(campaign, watch := Watch(), wrong)
    options = {"clock": watch, "wall": lambda: microseconds(ledger.at), "durability": durability, "peers": peers}
    ledger.store = open_store(campaign, db, url, **options)
    return ledger


@pytest.fixture(scope="session")
def durable_redis(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[RedisServer]:
    """A Redis whose file is synced before every answer."""
    tool("redis-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Ledger]]:
    """Opens a campaign's ledger, new ones for a new campaign, in either store."""
    url = request.getfixturevalue("durable_redis").url if request.param == "redis" else ""
    opened: list[Ledger] = []

    def opening(campaign: Campaign | None = None, wrong: timedelta = timedelta(0), **changes) -> Ledger:
        own = campaign or make_campaign(**changes)
        opened.append(open_with_watch(own, tmp_path / f"{own.name}.db", url, wrong=wrong))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Callable[..., Ledger]) -> Ledger:
    return open_ledger()


@pytest.fixture
def kit() -> SimpleNamespace:
    """The builders above; this folder is not a package that tests could import."""
    return SimpleNamespace(
        campaign=make_campaign,
        item=item,
        event=event,
        correction=correction,
        open=open_with_watch,
        peers=Peers,
        levels=LEVELS,
        now=NOW,
    )
