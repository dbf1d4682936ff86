"""An order export becomes one outcome for each offer, and every line that does not count is counted."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from cli.main import main
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.tables import Tables

START = datetime(2026, 3, 2)
VALUES = (0, 250, 1000)
DAYS = timedelta(days=7)
REASONS = {
    "duplicates": "duplicates",
    "back": "refunds and canceled orders",
    "before": "before the offer",
    "after": "after the window",
    "unknown": "of accounts without an offer",
}


@dataclass
class Order:
    """An order as it happened; ``returned`` is what was given back of the amount before the discount."""

    number: str
    account: str
    at: datetime
    amount: int
    discount: int = 0
    returned: int = 0
    storno: bool = False
    lines: int = 1


@dataclass
class Trial:
    """Offers of a trial, (account, time, value), and orders."""

    offers: list[tuple[str, datetime, int]] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)


@pytest.fixture(scope="module")
def trial() -> Trial:
    """300 accounts with one or two offers, and 2,500 orders of 400 accounts, 100 of them strangers."""
    rng = np.random.default_rng(5)

    def moment(first: int, days: int) -> datetime:
        return START + timedelta(days=first, minutes=int(rng.integers(days * 24 * 60)))

    found = Trial()
    for account in range(300):
        for _ in range(1 + (account % 3 == 0)):
            found.offers.append((f"K{account:04}", moment(0, 10), int(rng.choice(VALUES))))
    for number in range(2_500):
        order = Order(f"B{number:05}", f"K{rng.integers(400):04}", moment(-8, 32), int(rng.integers(500, 250_000)))
        kind = rng.random()
        order.discount = int(rng.choice([0, 250]))
        order.storno = kind < 0.05
        order.returned = order.amount if 0.05 <= kind < 0.1 else int(order.amount // 3) if 0.1 <= kind < 0.15 else 0
        order.lines = 2 if 0.15 <= kind < 0.2 else 1
        found.orders.append(order)
    # The export goes on for longer than the windows.
    found.orders.append(Order("B99999", "K0399", START + timedelta(days=30), 100))
    return found


def in_german(amount: int) -> str:
    """Return an amount as a spreadsheet in German writes it."""
    return f"{amount / 100:,.2f}".translate(str.maketrans(",.", ".,"))


def in_english(amount: int) -> str:
    """Return an amount with a point."""
    return f"{amount / 100:.2f}"


def write(folder: Path, trial: Trial, *, german: bool) -> list[str]:
    """Write both files, lines of orders in the order of time, and return the words of ``init``."""
    money, form = (in_german, "%d.%m.%Y %H:%M") if german else (in_english, "%Y-%m-%dT%H:%M:%S+01:00")
    heads = (
        (("Kunde", "gesendet", "Wert"), ("Bestellnr", "Kundennr", "Bestellt am", "Betrag", "Rabatt", "Status"))
        if german
        else (("customer", "sent", "value"), ("order", "member", "created at", "total", "discount", "state"))
    )
    done, back = ("bezahlt", "Storno") if german else ("paid", "cancelled")
    lines: list[tuple[datetime, list[str]]] = []
    for order in trial.orders:
        paid = order.amount - order.discount
        cells = [order.number, order.account, order.at.strftime(form)]
        row = [*cells, money(paid), money(order.discount), back if order.storno else done]
        lines += [(order.at, row)] * order.lines
        if order.returned:
            later = order.at + timedelta(days=20)
            off = order.discount if order.returned == order.amount else 0
            again = [order.number, order.account, later.strftime(form)]
            lines.append((later, [*again, money(off - order.returned), money(-off), back]))
    made = [[account, at.strftime(form), money(value)] for account, at, value in trial.offers]
    for name, head, rows in (
        ("trial.csv", heads[0], made),
        ("orders.csv", heads[1], [row for _, row in sorted(lines)]),
    ):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=";" if german else ",").writerows([head, *rows])
    words = ["init", str(folder), "--trials", str(folder / "trial.csv"), "--outcomes", str(folder / "orders.csv")]
    return [*words, "--currency", "EUR", "--timezone", "Europe/Berlin"]


def by_hand(trial: Trial) -> tuple[pd.DataFrame, Counter[str]]:
    """Return the outcome of each offer in the order of the file, and the lines that are left out, one by one."""
    results = [[0, 0, 0] for _ in trial.offers]
    left: Counter[str] = Counter()
    for order in trial.orders:
        offers = [(at, place) for place, (who, at, _) in enumerate(trial.offers) if who == order.account]
        lines = order.lines + (order.returned > 0)
        if not offers:
            left["unknown"] += lines
            continue
        left["duplicates"] += order.lines - 1
        left["back"] += order.returned > 0
        earlier = [offer for offer in offers if offer[0] <= order.at]
        if order.storno or order.returned == order.amount:
            left["back"] += 1
        elif not earlier:
            left["before"] += 1
        elif order.at - max(earlier)[0] >= DAYS:
            left["after"] += 1
        else:
            left["counted"] += 1
            result = results[max(earlier)[1]]
            result[:] = [1, result[1] + order.amount - order.returned, result[2] + order.discount]
    frame = pd.DataFrame(results, columns=["redeemed", "amount", "cost_paid"])
    frame["observed_at"] = [at.replace(tzinfo=ZoneInfo("Europe/Berlin")) + DAYS for _, at, _ in trial.offers]
    return frame, left


def assert_alike(tables: Tables, wanted: pd.DataFrame) -> None:
    """Assert that there is one outcome of each offer, as computed by hand."""
    found = tables.outcome
    assert found["request_id"].tolist() == tables.exposure["request_id"].tolist()
    for name in ("redeemed", "amount", "cost_paid"):
        assert found[name].fillna(0).astype(int).tolist() == wanted[name].tolist(), name
    assert (found["amount"].isna() == (wanted["redeemed"] == 0)).all()
    assert (found["observed_at"] == pd.to_datetime(wanted["observed_at"], utc=True)).all()
    assert found["mature"].all()


def counts(note: str) -> Counter[str]:
    """Return the lines that a note counts, by reason."""
    found = {short: re.search(rf"{reason} ([\d,]+)", note) for short, reason in REASONS.items()}
    return Counter({short: int(match[1].replace(",", "")) for short, match in found.items() if match})


@pytest.mark.parametrize("german", [True, False])
def test_an_export_goes_from_init_to_the_outcomes_that_a_loop_finds(
    german: bool, trial: Trial, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(write(tmp_path, trial, german=german)) == 0
    assert "no column was found" not in capsys.readouterr().out
    wanted, left = by_hand(trial)
    assert min(left[reason] for reason in (*REASONS, "counted")) > 20
    tables = map_tables(read_mapping(tmp_path / "mapping.yaml"))
    assert_alike(tables, wanted)
    note = tables.notes["orders"]
    assert counts(note) == {reason: left[reason] for reason in REASONS}
    lines = len((tmp_path / "orders.csv").read_text().splitlines()) - 1
    assert note.startswith(
        f"{lines:,} lines, of which {left['counted']:,} count as {left['counted']:,} orders; left out:"
    )
    assert sum(left.values()) == lines
    assert main(["check", str(tmp_path / "mapping.yaml")]) == 0
    assert f"orders: {note}\n" in capsys.readouterr().out


def change(folder: Path, edit: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the lines of the German export."""
    texts: dict[str, Any] = {"sep": ";", "dtype": str, "keep_default_na": False}
    edit(pd.read_csv(folder / "orders.csv", **texts)).to_csv(folder / "orders.csv", sep=";", index=False)


def add(path: Path, line: str) -> None:
    """Add a line to the table of orders, the last of the mapping."""
    path.write_text(f"{path.read_text()}    {line}\n")


def test_lines_of_articles_are_refused_until_the_mapping_says_that_they_add_up(trial: Trial, tmp_path: Path) -> None:
    only = Trial(trial.offers, [replace(each, lines=1, returned=0) for each in trial.orders])
    assert main(write(tmp_path, only, german=True)) == 0

    def split(lines: pd.DataFrame) -> pd.DataFrame:
        part = lines.iloc[::2].assign(Betrag="1,50", Rabatt="0,00")
        return pd.concat([lines, part]).sort_index(kind="stable")

    change(tmp_path, split)
    path = tmp_path / "mapping.yaml"
    with pytest.raises(InvalidTable, match=r"orders.csv, column 'Betrag': differs .* add `lines: sum` to tables.order"):
        map_tables(read_mapping(path))
    add(path, "lines: sum")
    added = {line.split(";")[0] for line in (tmp_path / "orders.csv").read_text().splitlines() if ";1,50;" in line}
    assert len(added) > 1_000
    more = [replace(each, amount=each.amount + 150 * (each.number in added)) for each in only.orders]
    tables = map_tables(read_mapping(path))
    assert_alike(tables, by_hand(Trial(trial.offers, more))[0])


def test_a_code_makes_an_order_cost_its_discount_or_the_value_of_the_offer(trial: Trial, tmp_path: Path) -> None:
    # Without amounts, no part of an order is taken back.
    whole = [replace(each, returned=each.amount * (each.returned > 0)) for each in trial.orders]
    trial = Trial(trial.offers, whole)
    assert main(write(tmp_path, trial, german=True)) == 0
    change(tmp_path, lambda lines: lines.assign(Code=np.where(lines["Bestellnr"].str[-1] < "5", "MAI", "")))
    path = tmp_path / "mapping.yaml"
    text = path.read_text().replace("      discount: ", "      code: Code\n      discount: ")
    path.write_text(text)
    coded = [replace(each, discount=each.discount * (each.number[-1] < "5")) for each in trial.orders]
    wanted, _ = by_hand(Trial(trial.offers, coded))
    # The amount before the discount has also that of other orders.
    wanted["amount"] = by_hand(trial)[0]["amount"]
    assert_alike(map_tables(read_mapping(path)), wanted)
    path.write_text(re.sub(r"      (discount|total): .*\n", "", text))
    tables = map_tables(read_mapping(path))
    found = tables.exposure.merge(tables.outcome, on="request_id").merge(tables.offer, on="offer_id")
    used, _ = by_hand(Trial(trial.offers, [each for each in trial.orders if each.number[-1] < "5"]))
    values = found.set_index("request_id").loc[tables.exposure["request_id"]]
    assert values["cost_paid"].tolist() == (values["face_value"].to_numpy() * used["redeemed"]).tolist()
    path.write_text(path.read_text().replace("cost_basis_customer: on_response", "cost_basis_customer: on_grant"))
    tables = map_tables(read_mapping(path))
    found = tables.exposure.merge(tables.outcome, on="request_id").merge(tables.offer, on="offer_id")
    assert (found["cost_paid"] == found["face_value"]).all()


def files(folder: Path, orders: Sequence[str], *, sent: str = "2026-03-02T09:00Z") -> Path:
    """Write two offers and some lines of orders, and return the mapping that init proposes."""
    rows = [f"a{n},{sent},{n % 2 * 5}" for n in range(10)]
    (folder / "trial.csv").write_text("\n".join(["customer,sent,value", *rows]))
    (folder / "orders.csv").write_text("\n".join(orders))
    words = ["init", str(folder), "--trials", str(folder / "trial.csv"), "--outcomes", str(folder / "orders.csv")]
    assert main(words) == 0
    return folder / "mapping.yaml"


def outcome_of(tables: Tables, account: str) -> pd.Series:  # type: ignore[type-arg]
    """Return the outcome of an account's only offer."""
    return tables.exposure.merge(tables.outcome, on="request_id").set_index("account_id").loc[account]


def test_a_refunded_amount_and_lines_with_empty_cells_are_of_their_order(tmp_path: Path) -> None:
    lines = [
        "Name,Customer,Created at,Discount Code,Discount Amount,Total,Refunded Amount",
        "#1,a1,2026-03-03 10:00:00 +0100,MAI,5.00,40.00,0.00",
        "#1,a1,,,,,",
        "#2,a2,2026-03-03 10:00:00 +0100,,0.00,30.00,30.00",
        "#3,a3,2026-03-03 10:00:00 +0100,MAI,5.00,20.00,7.50",
        "#4,a3,2026-03-09 09:59:59 +0100,,0.00,1.00,0.00",
        "#5,a4,2026-03-02 09:59:59 +0100,,0.00,1.00,0.00",
        "#6,a5,2026-03-09 10:00:00 +0100,,0.00,1.00,0.00",
    ]
    tables = map_tables(read_mapping(files(tmp_path, lines)))
    wanted = {"a1": (1, 4500, 500), "a2": (0, 0, 0), "a3": (1, 1850, 500), "a4": (0, 0, 0), "a5": (0, 0, 0)}
    for account, figures in wanted.items():
        found = outcome_of(tables, account).fillna(0)
        assert tuple(map(int, (found["redeemed"], found["amount"], found["cost_paid"]))) == figures, account
    assert counts(tables.notes["orders"]) == {"duplicates": 1, "back": 1, "before": 1, "after": 1, "unknown": 0}


def test_an_order_of_a_day_without_a_time_counts_on_the_day_of_the_offer(tmp_path: Path) -> None:
    path = files(
        tmp_path, ["order,customer,date,total", "x1,a1,2026-03-02,5", "x2,a2,2026-03-01,5", "x3,zz,2026-04-01,5"]
    )
    tables = map_tables(read_mapping(path))
    assert [int(outcome_of(tables, account)["redeemed"]) for account in ("a1", "a2")] == [1, 0]


def test_an_outcome_is_final_where_the_export_covers_its_window(tmp_path: Path) -> None:
    path = files(
        tmp_path,
        [
            "order,customer,at,total",
            "x1,a1,2026-03-03T08:00Z,5",
            *(f"x{n},a{n},2026-03-09T08:59Z,5" for n in range(2, 5)),
        ],
    )
    assert not map_tables(read_mapping(path)).outcome["mature"].any()
    path.write_text(path.read_text().replace("days: 7", "days: 6.9"))
    assert map_tables(read_mapping(path)).outcome["mature"].all()


GOOD = ["order,customer,at,total,state", "x1,a1,2026-03-03T08:00Z,5,ok", "x2,a2,2026-03-20T08:00Z,5,cancelled"]
GOOD += [f"x{n},a{n},2026-03-20T09:00Z,7,done" for n in range(3, 6)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "20T08:00Z,5,c",
            "20 noon,5,c",
            r"orders.csv, column 'at': is not a time.*20 noon' \[ordered_at\] \(row 1, line 3\)",
        ),
        (
            "08:00Z,5,ok",
            "08:00Z,five,ok",
            r"column 'total': is not a whole number; got 'five' \[total\] \(row 0, line 2\)",
        ),
        ("5,ok", "5,pending", r"column 'state': must be true or false; got 'pending' \[canceled\] \(row 0, line 2\)"),
        ("x1,a1", ",a1", r"column 'order': must not be empty \[order_id\] \(row 0, line 2\)"),
        (
            "2026-03-03T08:00Z",
            "",
            r"column 'at': is empty in every line of an order \[order.ordered_at\] \(1 row|row 0",
        ),
        ("a1", "b1", "no line of orders.csv is of an account with an offer"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    path = files(tmp_path, GOOD)
    text = (tmp_path / "orders.csv").read_text()
    assert old in text
    text = text.replace(old, new)
    (tmp_path / "orders.csv").write_text(re.sub(r",a(\d)", r",b\1", text) if old == "a1" else text)
    with pytest.raises((InvalidTable, InvalidInput), match=message):
        map_tables(read_mapping(path))


def test_a_table_of_outcomes_is_final_and_costs_what_its_offers_cost(trial: Trial, tmp_path: Path) -> None:
    offers = [f"m{n},{who},{at.isoformat()}Z,{value / 100}" for n, (who, at, value) in enumerate(trial.offers)]
    (tmp_path / "trial.csv").write_text("\n".join(["mail,customer,sent,value", *offers]))
    known = [f"m{n},{n % 3 == 0:d},2026-05-01T00:00Z" for n in reversed(range(len(offers)))]
    (tmp_path / "results.csv").write_text("\n".join(["mail,redeemed,at", *known]))
    words = ["--trials", str(tmp_path / "trial.csv"), "--outcomes", str(tmp_path / "results.csv")]
    assert main(["init", str(tmp_path), *words]) == 0
    path = tmp_path / "mapping.yaml"
    tables = map_tables(read_mapping(path))
    wanted = {f"m{n}": value * (n % 3 == 0) for n, (_, _, value) in enumerate(trial.offers)}
    assert dict(zip(tables.outcome["request_id"], tables.outcome["cost_paid"].astype(int), strict=True)) == wanted
    assert tables.outcome["mature"].all()
    (tmp_path / "results.csv").write_text("\n".join(["mail,redeemed,at", *known, *known[:5]]))
    with pytest.raises(InvalidTable, match=r"must be unique.*\n.*mapped as the table `order`"):
        map_tables(read_mapping(path))
