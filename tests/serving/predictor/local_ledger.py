"""A predictor asked from outside of an event loop, and ledgers without a network between."""

import asyncio
import sqlite3
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import numpy as np

from serving.ledger.api.answers import content, recorded_rows
from serving.ledger.api.authorize import calls, ceiling, entries
from serving.ledger.api.messages import Authorizations
from serving.ledger.clock import microseconds
from serving.ledger.sqlite.authorizations import Authorize
from serving.ledger.sqlite.database import TABLES
from serving.predictor.active import Active
from serving.predictor.ledger.client import Authorization
from serving.predictor.ledger.columns import Authorized
from serving.predictor.predictor import Predictor
from serving.protocol import OUTPUTS, Requests
from shadowprice.errors import Unavailable


class TableReader:
    """Embeddings from the table that a model writes."""

    def __init__(self, frame):
        self._rows = {
            (row.side, row.account_id): (row.embedding, row.computed_at.timestamp()) for row in frame.itertuples()
        }
        self.reads = []

    def embeddings(self, side, account_ids):
        self.reads.append(list(account_ids))
        found = [self._rows.get((side, name), (np.full(6, np.nan), np.nan)) for name in account_ids]
        return np.array([row[0] for row in found], dtype=np.float32), np.array([row[1] for row in found])


class NoReader:
    def embeddings(self, side, account_ids):
        raise OSError("no route to the store")


class LocalLedger:
    """The ledger's own authorizing on a database in memory, without the network between."""

    def __init__(self, campaign):
        self.campaign = campaign
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.database.executescript(TABLES)
        self.messages = []

    async def authorize(self, proposals, known, *, sizes, **versions):
        parts = {"items": asdict(proposals)} if proposals.request_id else {}
        parts |= {"known": asdict(known)} if known.request_id else {}
        batch = Authorizations(campaign=self.campaign.name, sizes=sizes, **versions, **parts)
        self.messages.append(batch)
        now = datetime.now(UTC)
        wanted = calls(batch, entries(self.campaign, batch, now))
        answers = Authorize(wanted, ceiling(self.campaign, True, now), microseconds(now), 0)(self.database)
        told = content(*recorded_rows(batch, answers), answers)
        columns = {name: list(values) for name, values in told["decisions"].items()}
        return Authorization(Authorized(**columns), told["known"], told["errors"])

    def recorded(self):
        return [name for (name,) in self.database.execute("SELECT request_id FROM decision ORDER BY sequence")]


class NoLedger:
    async def authorize(self, proposals, known, *, sizes, **versions):
        raise Unavailable("cut off")


@dataclass
class Asked:
    """The predictor, asked from outside of an event loop."""

    predictor: Predictor

    def answer(self, requests):
        return asyncio.run(self.predictor.answer(requests))

    def answer_all(self, calls):
        return asyncio.run(self.predictor.answer_all(calls))


@dataclass
class Fixed:
    current: Active | None


def customers(*accounts, prefix="r"):
    return Requests([f"{prefix}{i}" for i in range(len(accounts))], list(accounts), ["customer"] * len(accounts))


def decided(answers, row=0):
    """The answer of a row, but for whether it is a repeat."""
    return {name: getattr(answers, name)[row] for name in OUTPUTS if name != "repeat"}
