"""The console over a ledger with a million rows, half of them decisions and half outcomes, and their log."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from asking import answer, ask
from looking import yen_faults

from serving.console.app import Console, create_app
from serving.http.handler import Application
from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.ledger import Ledger as KeptLedger
from serving.ledger.opening import open_store
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.pacing.decision_log.segments import SCHEMAS, Segment
from shadowprice.pacing.price_store import PriceStore
from shadowprice.reports import money_figures

ROWS = 500_000
LEVELS = (0, 50, 130)
START = datetime(2026, 3, 1, tzinfo=UTC)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=LEVELS), "merchant": Terms(levels=LEVELS)},
    budget=Budget(limit=10**9),
    starts_at=START,
    currency="JPY",
)
MICROSECONDS = int(START.timestamp() * 1e6)
FILL = f"""
WITH RECURSIVE number(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM number WHERE k + 1 < {ROWS})
INSERT INTO decision (request_id, account_id, side, level, incentive, response, expected_cost, propensity, propensities,
    reason, model_version, price_version, features_at, decided_at)
SELECT 'r' || k, 'a' || k % 100000, iif(k % 4, 'customer', 'merchant'), k % 3, iif(k % 3, iif(k % 3 = 1, 50, 130), 0),
    0.2, 10.0, 1.0, '[]', 'optimal', 'm', 1, NULL, {MICROSECONDS} + k * 86400 FROM number;
INSERT INTO outcome (source, event_id, request_id, side, response, cost, late, content, observed_at, recorded_at)
SELECT 's', request_id, request_id, side, sequence % 2, iif(sequence % 2, incentive, 0), 0, '', decided_at, decided_at
FROM decision;
INSERT INTO tally SELECT side, level, reason, count(*), sum(incentive), sum(incentive) FROM decision GROUP BY 1, 2, 3;
INSERT INTO settlement (side, outcomes, closed, spent, responses)
SELECT side, count(*), (SELECT sum(reserved) FROM tally WHERE tally.side = outcome.side), sum(cost), sum(response)
FROM outcome GROUP BY side;
"""


@dataclass
class Ledger:
    """Totals of a ledger that is asked over its HTTP interface."""

    app: Application

    def totals(self):
        return ask(self.app, "/v1/totals").json()


def write_log(folder: Path) -> None:
    """The same rows as those of ``FILL``, as the log has them."""
    folder.mkdir()
    k = np.arange(ROWS)
    odd = k % 2 == 0  # a sequence begins at 1
    names = pa.array("r" + k.astype(str).astype(object))
    at = pa.array(MICROSECONDS + k * 86400).cast(pa.timestamp("us", tz="UTC"))
    side, paid = np.where(k % 4, "customer", "merchant"), np.array(LEVELS)[k % 3]
    common = {
        "request_id": names,
        "side": side,
        "response": 1.0 * odd,
        "cost": paid * odd,
        "reason": ["optimal"] * ROWS,
    }
    common |= {"level": k % 3, "incentive": paid, "account_id": side, "arm": ["unassigned"] * ROWS}
    for kind in ("decisions", "outcomes"):
        columns = []
        for field in SCHEMAS[kind]:
            if field.name in common:
                columns.append(pa.array(common[field.name]).cast(field.type))
            else:
                columns.append(
                    at
                    if pa.types.is_timestamp(field.type)
                    else pa.nulls(ROWS, field.type).fill_null(_blank(field.type))
                )
        pq.write_table(pa.table(columns, schema=SCHEMAS[kind]), Segment.named(folder, kind, 1, ROWS).path)


def _blank(kind: pa.DataType) -> object:
    return (
        "" if pa.types.is_string(kind) else [] if pa.types.is_list(kind) else False if pa.types.is_boolean(kind) else 0
    )


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("million")
    open_store(CAMPAIGN, folder / "ledger.db").close()
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(f"BEGIN;{FILL}COMMIT;")
    write_log(folder / "log")
    store = open_store(CAMPAIGN, folder / "ledger.db")
    ledger = Ledger(serve(Ledgers([KeptLedger(store, CAMPAIGN)])))

    def make() -> Application:
        prices = PriceStore(folder / "prices")
        return create_app(Console(CAMPAIGN, ledger, prices, log=folder / "log"))

    yield make
    store.close()


def test_the_first_page_and_one_request_take_less_than_a_second(million: Callable[[], Application]) -> None:
    app = million()
    for path, shown in (
        ("/", "¥14,999,940"),
        ("/campaigns/spring/requests?request_id=r377777", "Paid"),
        ("/", "spring"),
    ):
        since = time.process_time()
        page = ask(app, path)
        assert time.process_time() - since < 1.0, path
        assert shown in page.text, path


def test_no_page_of_a_campaign_in_yen_has_decimals_or_dollars(million: Callable[[], Application]) -> None:
    app = million()
    for path in ("", "/mix", "/changes", "/requests?request_id=r377777"):
        page = ask(app, f"/campaigns/spring{path}")
        assert "¥" in page.text, path
        assert yen_faults(page.text) == [], path


def test_who_got_what_is_drawn_before_somebody_asks(
    million: Callable[[], Application], monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    drawn: list[str] = []
    draw = money_figures.mix
    monkeypatch.setattr(
        money_figures, "mix", lambda found, side, *words: drawn.append(side) or draw(found, side, *words)
    )
    app = million()

    async def once() -> tuple[httpx.Response, float]:
        messages: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        messages.put_nowait({"type": "lifespan.startup"})
        sent: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        living = asyncio.create_task(app({"type": "lifespan", "state": {}}, messages.get, sent.put))
        await sent.get()
        await asyncio.to_thread(eventually, lambda: len(drawn) == 2)
        since = time.process_time()
        page = await answer(app, "/campaigns/spring/mix")
        took = time.process_time() - since
        messages.put_nowait({"type": "lifespan.shutdown"})
        await living
        return page, took

    page, took = asyncio.run(once())
    assert "These sums are those of the ledger: 500,000 requests, 500,000 outcomes and ¥" in page.text
    assert sorted(drawn) == ["customer", "merchant"]
    assert took < 1.0
