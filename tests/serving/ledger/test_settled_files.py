"""Order exports, settled in a real ledger: every fault is counted, and pool and ledger agree to the cent."""

import csv
import json
import random
from datetime import timedelta
from zoneinfo import ZoneInfo

import httpx
import pandas as pd
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from cli import settle as command
from serving.client.client import LedgerClient
from serving.ledger.api.app import Ledgers, serve
from serving.ledger.api.ledger import Ledger
from serving.ledger.log import LogWriter
from serving.settle import settle
from shadowprice.errors import InvalidInput, InvalidTable, Unavailable
from shadowprice.lists.bookings import Bookings
from shadowprice.lists.codes import CodePool
from shadowprice.mapping.redemptions import read_redemptions
from shadowprice.pacing.decision_log.served import read_log

MAPPING = """
currency: EUR
timezone: Europe/Berlin
source: {decimal: ",", delimiter: ";"}
lines: sum
where: Status <> 'cancelled'
columns:
  order_id: Name
  code: Discount Code
  redeemed_at: {column: Created at, format: "%d.%m.%Y %H:%M"}
  discount: Discount Amount
  total: Total
  refunded: Refunded Amount
  currency: Currency
"""
HEAD = ("Name", "Created at", "Currency", "Total", "Discount Code", "Discount Amount", "Refunded Amount", "Status")


@pytest.fixture
def shop(kit, tmp_path, monkeypatch):
    """A ledger with holds of 0.50 and 1.30, codes C0, C1, … for them, and an order export."""
    return Shop(kit, tmp_path, monkeypatch)


class Shop:
    def __init__(self, kit, folder, monkeypatch) -> None:
        self.kit, self.folder = kit, folder
        self.campaign = kit.campaign(currency="EUR", limit=1_000_000)
        self.ledger = kit.open(self.campaign, folder / "ledger.db")
        self.client = LedgerClient("http://ledger", self.campaign.name)
        self.client._http = TestClient(serve(Ledgers([Ledger(self.ledger.store, self.campaign)])), "http://localhost")
        self.file, self.mapping, self.codes = (folder / name for name in ("orders.csv", "map.yaml", "codes.csv"))
        self.mapping.write_text(MAPPING)
        monkeypatch.setattr("shadowprice.lists.codes.time.time", kit.now.timestamp)

    def give(self, number: int) -> None:
        """Authorize decisions, and give each a code; every third holds 1.30, the others 0.50."""
        self.codes.write_text("code\n" + "".join(f"C{row}\n" for row in range(number + 5)))
        levels = [2 if row % 3 == 0 else 1 for row in range(number)]
        for start in range(0, number, 100):
            rows = range(start, min(start + 100, number))
            self.ledger.authorize(*(self.kit.item(f"r{row}", level=levels[row], account_id=f"a{row}") for row in rows))
        rows = {
            "request_id": [f"r{row}" for row in range(number)],
            "side": ["customer"] * number,
            "level": levels,
            "offer_id": [f"o{level}" for level in levels],
            "incentive": [self.kit.levels["customer"][level] for level in levels],
            "code": [""] * number,
            "authorized": [True] * number,
        }
        with self.pool() as pool:
            pool.assign(pa.table(rows))

    def pool(self) -> CodePool:
        return CodePool(self.codes, self.campaign.name)

    def write(self, *orders) -> None:
        """Write the export: orders of name, hours after the decision, code, and amounts in cents."""
        with self.file.open("w", newline="") as opened:
            writer = csv.writer(opened, delimiter=";")
            writer.writerow(HEAD)
            writer.writerows(row for order in orders for row in self.lines(**order))

    def lines(self, name, code, discount, hours=1.0, total=2000, refunded=0, currency="EUR", parts=(), status="paid"):
        at = (self.kit.now + timedelta(hours=hours)).astimezone(ZoneInfo("Europe/Berlin")).strftime("%d.%m.%Y %H:%M")
        money = [f"{amount // 100},{amount % 100:02}" for amount in (total, discount, refunded)]
        if not parts:
            yield name, at, currency, money[0], code, money[1], money[2], status
            yield name, "", "", "", "", "", "", status  # a second article of the order, as shops export it
            return
        for number, part in enumerate(parts):
            own = [money[0], money[2]] if not number else ["0", "0"]
            yield name, at, currency, own[0], code, f"{part // 100},{part % 100:02}", own[1], status

    def read(self):
        return read_redemptions(self.file, self.mapping)

    def settle(self, read=None):
        with self.pool() as pool:
            return settle(read or self.read(), pool, self.client, "EUR")

    def sums(self) -> tuple[int, int]:
        """Net spent by the ledger, and by the journal of the pool."""
        with self.pool() as pool:
            standing = Bookings(pool).standing().values()
        return self.ledger.store.totals().net_spent, sum(booking.cost for booking in standing)


def test_ledger_and_pool_agree_to_the_cent_over_generated_exports(shop):
    draw, number = random.Random(103), 240
    shop.give(number)
    faults = dict.fromkeys(
        (
            *("unknown code", "code was not given", "code used twice", "above the hold", "before the decision"),
            *("in the future", "other currency", "refund above the total"),
        ),
        0,
    )
    orders, expected, amounts, kinds = [], {}, {}, [None, None, None, *faults]
    for row in range(number):
        hold, kind = 130 if row % 3 == 0 else 50, draw.choice(kinds)
        total, paid = draw.randint(100, 9000), draw.randint(1, hold)
        refunded = draw.choice((0, 0, draw.randint(1, total), total))
        order = {"name": f"#{row}", "code": f" c{row}", "discount": paid, "total": total, "refunded": refunded}
        order["hours"] = draw.uniform(1, 60)
        if kind == "unknown code":
            order["code"] = f"X{row}"
        elif kind == "code was not given":
            order["code"] = f"C{number + row % 5}"
        elif kind == "above the hold":
            order |= {"discount": hold + draw.randint(1, 99), "refunded": 0}
        elif kind == "before the decision":
            order["hours"] = -0.5
        elif kind == "in the future":
            order["hours"] = 24 * 365 * 50
        elif kind == "other currency":
            order["currency"] = "KWD"
        elif kind == "refund above the total":
            order["refunded"] = total + 1
        else:
            expected[row] = paid - paid * refunded // total
            amounts[f"r{row}"] = total - refunded + expected[row] if refunded < total else None
            if draw.random() < 0.3 and paid > 1:
                order["parts"] = (paid - 1, 1)
        if kind == "code used twice":
            orders.append({**order, "name": f"again {row}", "hours": 61, "parts": ()})
        faults[kind] = faults.get(kind, 0) + 1
        orders.append(order)
    orders.append({"name": "#no", "code": "C1", "discount": 50, "status": "cancelled"})
    draw.shuffle(orders)
    shop.write(*orders)
    faults.pop(None)

    settled = shop.settle()
    assert settled.reasons == dict(sorted(faults.items()))
    assert (settled.captured, settled.captured_money) == (len(expected), sum(expected.values()))
    assert shop.sums() == (sum(expected.values()),) * 2

    again = shop.settle()
    assert (again.captured, again.refunded, again.unchanged) == (0, 0, len(expected))
    assert (again.reasons, shop.sums()[0]) == (settled.reasons, sum(expected.values()))

    # The next export has refunds: each takes back its share, rounded in favor of what was spent.
    taken = 0
    for order in orders:
        row = order["name"].removeprefix("#")
        if row.isdigit() and int(row) in expected and order["refunded"] == 0 and draw.random() < 0.5:
            order["refunded"] = draw.randint(1, order["total"])
            taken += order["discount"] * order["refunded"] // order["total"]
            expected[int(row)] = order["discount"] - order["discount"] * order["refunded"] // order["total"]
            kept = order["total"] - order["refunded"]
            amounts[f"r{row}"] = kept + expected[int(row)] if kept else None
    shop.write(*orders)
    refunded = shop.settle()
    assert refunded.captured == 0 < refunded.refunded
    assert refunded.refunded_money == taken
    assert refunded.reasons == settled.reasons
    assert shop.sums() == (sum(expected.values()),) * 2
    LogWriter(shop.ledger.store, shop.folder / "log").write()
    logged = read_log(shop.folder / "log").corrected.set_index("request_id")["amount"]
    assert {name: None if pd.isna(amount) else amount for name, amount in logged.items()} == amounts


def test_a_run_that_is_cut_off_at_any_call_is_finished_by_the_next(shop, monkeypatch):
    monkeypatch.setattr("serving.settle.EVENTS", 12)
    shop.give(40)
    orders = [{"name": f"#{row}", "code": f"C{row}", "discount": 50} for row in range(40)]
    draw, cuts = random.Random(1), 0
    request = shop.client._http.request

    def cut(*words, **options):
        # The network fails before the ledger records, or after it.
        nonlocal cuts
        when = draw.random()
        if when < 0.25:
            cuts += 1
            raise httpx.ConnectError("cut")
        answer = request(*words, **options)
        if when < 0.5:
            cuts += 1
            raise httpx.ReadError("cut")
        return answer

    monkeypatch.setattr(shop.client._http, "request", cut)
    for refunded, spent in ((0, 2000), (500, 40 * 38)):
        shop.write(*(order | {"refunded": refunded} for order in orders))
        before, read = cuts, shop.read()
        for _ in range(100):
            try:
                result = shop.settle(read)
                break
            except Unavailable:
                continue
        assert cuts > before
        assert result.reasons == {}
        assert shop.sums() == (spent, spent)
    assert shop.ledger.store.totals().corrected["customer"] == 40


@pytest.mark.parametrize("booked", [True, False])
def test_a_newer_export_after_a_lost_answer_books_its_refund(shop, monkeypatch, booked):
    shop.give(3)
    order = {"name": "#1", "code": "C1", "discount": 50}
    request = shop.client._http.request

    def lost(*words, **options):
        if booked:
            request(*words, **options)
        raise httpx.ReadError("cut")

    shop.write(order)
    with monkeypatch.context() as patched:
        patched.setattr(shop.client._http, "request", lost)
        with pytest.raises(Unavailable):
            shop.settle()
    shop.write(order | {"refunded": 1000})
    result = shop.settle()
    assert (result.refunded, result.refunded_money, result.reasons, shop.sums()) == (1, 25, {}, (25, 25))


def test_a_late_capture_is_booked_where_the_budget_has_room_and_reported_where_not(shop):
    shop.campaign = shop.kit.campaign(currency="EUR", limit=100)
    shop.ledger = shop.kit.open(shop.campaign, shop.folder / "small.db")
    shop.client = LedgerClient("http://ledger", shop.campaign.name)
    shop.client._http = TestClient(serve(Ledgers([Ledger(shop.ledger.store, shop.campaign)])), "http://localhost")
    shop.give(3)  # the first would hold 1.30, which does not fit, so its code has no hold in the ledger
    shop.ledger.at += timedelta(hours=80)
    shop.ledger.authorize(shop.kit.item("later", account_id="later"))
    shop.write(*({"name": f"#{row}", "code": f"C{row}", "discount": 50, "hours": row} for row in (1, 2)))
    result = shop.settle()
    assert (result.captured_money, result.reasons) == (50, {"refused by the ledger": 1})
    assert "the budget has no room for 50 minor units" in result.unmatched[0].detail
    assert shop.sums() == (50, 50)
    shop.ledger.release("later")
    assert shop.settle().captured_money == 50
    assert shop.sums() == (100, 100)


def test_an_older_export_and_a_changed_amount_are_reported_and_change_nothing(shop):
    shop.give(3)
    order = {"name": "#1", "code": "C1", "discount": 50}
    for changed, reasons, spent in (
        ({"refunded": 1000}, {}, 25),
        ({}, {"differs from what was booked": 1}, 25),
        ({"discount": 40, "refunded": 1000}, {"differs from what was booked": 1}, 25),
        ({"refunded": 2000}, {}, 0),
        ({"refunded": 1000}, {"differs from what was booked": 1}, 0),
        ({"name": "#2"}, {"code used twice": 1}, 0),
    ):
        shop.write(order | changed)
        assert shop.settle().reasons == reasons
        assert shop.sums() == (spent, spent)
    assert shop.ledger.store.totals().responses["customer"] - shop.ledger.store.totals().withdrawn["customer"] == 0


@pytest.mark.parametrize("first", ["file", "program", "program with an amount"])
def test_a_capture_without_an_amount_gets_that_of_its_order(shop, first):
    """An older file had no totals, or a shop's own program reported the use; a retrain reads the amount."""
    shop.give(3)
    order = {"name": "#1", "code": "C1", "discount": 50, "total": 1800}
    shop.write(order)
    if first == "file":
        shop.mapping.write_text("\n".join(MAPPING.splitlines()[:-3]))
        assert shop.settle().captured == 1
        shop.mapping.write_text(MAPPING)
    else:
        more = {"amount": 700} if "with" in first else {}
        shop.ledger.settle(shop.kit.event("r1", 50, source="shop", **more))
    shop.write(order, {"name": "#2", "code": "C2", "discount": 30})
    found = shop.settle()
    # An amount that another program stated is not overwritten: a person decides.
    known = first == "program with an amount"
    assert (found.captured, found.stated, found.refunded) == (1, 0 if known else 1, 0)
    assert found.reasons == ({"refused by the ledger": 1} if known else {})
    again = shop.settle()
    assert (again.captured, again.stated, again.unchanged, again.reasons) == (0, 0, 1 if known else 2, found.reasons)
    LogWriter(shop.ledger.store, shop.folder / "log").write()
    log = read_log(shop.folder / "log")
    assert log.corrected.set_index("request_id")["amount"].to_dict() == {"r1": 700 if known else 1850, "r2": 2030}
    assert log.corrections["kind"].tolist() == ([] if known else ["reversal"])
    assert shop.ledger.store.totals().net_spent == 80
    # A refund of the order follows as any other.
    shop.write(order | {"refunded": 900}, {"name": "#2", "code": "C2", "discount": 30})
    assert shop.settle().refunded == (0 if known else 1)


def test_an_export_without_currency_total_and_refunds_is_settled(shop):
    shop.give(3)
    shop.write({"name": "#1", "code": "C1", "discount": 50})
    shop.mapping.write_text("\n".join(MAPPING.splitlines()[:-3]))
    shop.file = shop.file.rename(shop.folder / "orders[1].csv")  # as browsers name a second download
    assert (shop.settle().captured_money, shop.sums()) == (50, (50, 50))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("lines: sum", "", "lines: orders have several lines with a code, first in lines 2, 3"),
        ("lines: sum", "lines: same", "lines of one order have other amounts"),
        ("currency: EUR", "currency: USD", "currency: is USD, and the campaign is in EUR"),
        ("  total: Total\n", "", "columns.total: is missing"),
        ("  code: Discount Code\n", "", "columns.code: is missing"),
        ("Discount Amount", "Discount", "columns.discount: orders.csv has no column 'Discount'"),
        ("  currency: Currency", "  curency: Currency", "did you mean currency"),
        ("source: {", "source: {file: other.csv, ", "source.file: is named by the command"),
        ("timezone: Europe/Berlin", "", "Times without a zone need `timezone`"),
        ('decimal: ",", ', "", "column 'Discount Amount': is not a whole number"),
    ],
)
def test_a_mapping_that_does_not_fit_books_nothing(shop, old, new, reason):
    shop.give(3)
    shop.write(
        {"name": "#1", "code": "C1", "discount": 50, "parts": (30, 20), "currency": "" if "USD" in new else "EUR"}
    )
    shop.mapping.write_text(MAPPING.replace(old, new))
    with pytest.raises(InvalidInput, match=reason):
        shop.settle()
    assert shop.sums() == (0, 0)


def test_the_cells_that_cannot_be_read_are_named_by_line(shop):
    shop.give(3)
    shop.write({"name": "#1", "code": "C1", "discount": 50}, {"name": "", "code": "C2", "discount": 50})
    shop.file.write_text(shop.file.read_text().replace("0,50", "-0,50", 1).replace("20,00", "zwanzig", 1))
    with pytest.raises(InvalidTable) as caught:
        shop.settle()
    told = str(caught.value)
    assert "orders.csv, column 'Discount Amount': must not be negative; got '-50' [discount] (row 0, line 2)" in told
    assert "orders.csv, column 'Total': is not a whole number; got 'zwanzig' [total] (row 0, line 2)" in told
    assert "orders.csv, column 'Name': must not be empty where there is a code [order_id] (row 2, line 4)" in told


def test_the_command_prints_the_counts_and_writes_the_orders_that_do_not_match(shop, monkeypatch, capsys):
    shop.give(3)
    shop.write({"name": "#1", "code": "C1", "discount": 50}, {"name": "#2", "code": "WRONG", "discount": 50})
    file = shop.folder / "campaign.json"
    file.write_text(json.dumps(shop.campaign.to_dict()))
    monkeypatch.setattr(command, "LedgerClient", lambda *_: shop.client)
    words = [str(shop.file), "--mapping", str(shop.mapping), "--campaign", str(file), "--pool", str(shop.codes)]
    assert command.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["captured"], told["captured_money"], told["reasons"]) == (1, 50, {"unknown code": 1})
    (row,) = csv.DictReader((shop.folder / "orders.unmatched.csv").read_text().splitlines())
    assert (row["line"], row["order_id"], row["code"], row["reason"]) == ("4", "#2", "WRONG", "unknown code")
