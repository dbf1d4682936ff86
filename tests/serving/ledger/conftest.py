"""The books in each kind of store, for tests that hold for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.faults.redis_server import RedisServer
from serving.ledger.authorise import ceiling, entries
from serving.ledger.events import Event
from serving.ledger.messages import Authorizations, Items
from serving.ledger.opening import open_store
from serving.ledger.settle import outcomes
from serving.ledger.store import Store, microseconds
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
    return SimpleNamespace(**(values | {"propensities": shares, "features_at": None} | changes))


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


class Books:
    """One campaign's store, asked as the endpoints ask it; ``at`` is its clock."""

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self.store = store
        self.campaign = campaign
        self.at = NOW
        self._open = True

    def close(self):
        if self._open:
            self.store.close()
        self._open = False

    def authorise(self, *items, hard_stop=True, campaign=None, **changes):
        columns = {name: [getattr(item, name) for item in items] for name in Items.model_fields}
        batch = Authorizations(
            **{"campaign": self.campaign.name, "model_version": "m", "price_version": 1, "items": Items(**columns)}
            | changes
        )
        own = campaign or self.campaign
        wanted = entries(own, batch, self.at)
        return self.store.authorise(wanted, ceiling(own, hard_stop), microseconds(self.at)).result(20)

    def settle(self, *events):
        placed = [replace(each, where=f"[{index}]") for index, each in enumerate(events)]
        decided = self.store.find([each.request_id for each in placed])
        made = outcomes(self.campaign, placed, decided, self.at)
        done = self.store.settle(made, microseconds(self.at)).result(20)
        return done.accepted, done.repeated

    def release(self, *request_ids):
        done = self.store.release(request_ids, microseconds(self.at)).result(20)
        return done.accepted, done.repeated

    def sweep(self):
        return self.store.expire(microseconds(self.at)).result(20)

    def money(self):
        totals = self.store.totals()
        return sum(totals.outstanding.values()), sum(totals.spent.values())


@pytest.fixture(scope="session")
def durable_redis(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[RedisServer]:
    """A Redis whose file is synced before every answer."""
    tool("redis-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def open_books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Books]]:
    """Opens a campaign's books, new ones for a new campaign, in either store."""
    url = request.getfixturevalue("durable_redis").url if request.param == "redis" else ""
    opened: list[Books] = []

    def opening(campaign: Campaign | None = None, **changes) -> Books:
        own = campaign or make_campaign(**changes)
        store = open_store(own, tmp_path / f"{own.name}.db", url)
        opened.append(Books(store, own))
        return opened[-1]

    yield opening
    for books in opened:
        books.close()


@pytest.fixture
def books(open_books: Callable[..., Books]) -> Books:
    return open_books()


@pytest.fixture
def kit() -> SimpleNamespace:
    """The builders above; this folder is not a package that tests could import."""
    return SimpleNamespace(campaign=make_campaign, item=item, event=event, books=Books, levels=LEVELS, now=NOW)
