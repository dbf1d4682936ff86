"""Codes are given once, whole or not at all, also by processes that are killed."""

import json
import multiprocessing
import random
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from coding import give

from cli.codes import main
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.datasets import vouchers
from shadowprice.errors import Conflict, InvalidInput, NotFound
from shadowprice.lists.codes import CodePool
from shadowprice.lists.table import SCHEMA
from shadowprice.lists.templates import TEMPLATES, as_import, terms_of
from shadowprice.tables import campaign_from_tables


def a_list(offers, name="r", **columns) -> pa.Table:
    """Rows of a list; "" is an account that is given nothing."""
    size = len(offers)
    values = {
        "account_id": [f"account{row}@shop.example" for row in range(size)],
        "side": ["customer"] * size,
        "level": [{"": -1, "none": 0}.get(offer, 1) for offer in offers],
        "offer_id": offers,
        "incentive": [{"five": 500, "ten": 1000}.get(offer, 0) for offer in offers],
        "code": [""] * size,
        "price_version": [1] * size,
        "request_id": [f"{name}{row}" for row in range(size)],
        "authorized": [bool(offer) for offer in offers],
    }
    values |= {
        each.name: ["x" if each.type == pa.string() else 0.5] * size for each in SCHEMA if each.name not in values
    }
    return pa.table(values | columns).select(SCHEMA.names).cast(SCHEMA)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "codes.csv"
    path.write_text("code,offer\n" + "".join(f"F{row},five\nT{row},ten\n" for row in range(3)))
    return path


def given(pool: CodePool, rows: pa.Table) -> list[str]:
    return pool.assign(rows)["code"].to_pylist()


def test_each_row_gets_one_code_of_its_offer_and_keeps_it(file):
    rows = a_list(["five", "", "ten", "none", "five"])
    with CodePool(file, "spring") as pool:
        codes = given(pool, rows)
        assert codes == ["F0", "", "T0", "", "F1"]
        assert given(pool, a_list(["five"], "other")) == ["F2"]
    with CodePool(file, "spring") as pool:
        assert given(pool, rows) == codes
        assert given(pool, pool.assign(rows)) == codes


def test_too_few_codes_are_named_by_offer_and_nothing_is_assigned(file):
    with CodePool(file, "spring") as pool:
        for ask in (pool.check, pool.assign):
            with pytest.raises(
                InvalidInput, match="too few codes, 3 missing: 1 of offer 'five', 2 of offer 'ten'; add"
            ):
                ask(a_list(["five"] * 4 + ["ten"] * 5))
        assert given(pool, a_list(["five"] * 3 + ["ten"] * 3)) == ["F0", "F1", "F2", "T0", "T1", "T2"]


def test_added_codes_come_in_and_removed_ones_leave_unless_they_were_given(file):
    rows = a_list(["five"])
    with CodePool(file, "spring") as pool:
        assert given(pool, rows) == ["F0"]
    file.write_text("code,offer\nF9,five\n")
    with CodePool(file, "spring") as pool:
        assert given(pool, rows) == ["F0"]
        assert given(pool, a_list(["five"], "b")) == ["F9"]
        with pytest.raises(InvalidInput, match="too few codes, 1 missing"):
            pool.assign(a_list(["five"], "c"))


def test_codes_that_are_handed_back_are_never_given_again(file):
    with CodePool(file, "spring") as pool:
        pool.assign(a_list(["five", "ten"]))
        back = pool.hand_back()
        assert back == [("F1", "five"), ("T1", "ten"), ("F2", "five"), ("T2", "ten")] == pool.hand_back()
    file.write_text(file.read_text() + "F9,five\n")
    with CodePool(file, "spring") as pool:
        assert given(pool, a_list(["five"], "b")) == ["F9"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("coupon\nA\n", "has no column code"),
        ("code\nA\nb\nB\n", "'B' stands twice, in lines 3 and 4|'b' stands twice, in lines 3 and 4"),
        ("code,offer\nA,five\nB,\n", "line 3: offer"),
        ("code,offer,level\nA,five,1\n", "both offer and level"),
        ('code\nA\n"B,1\n', "quote|cannot be used"),
    ],
)
def test_a_file_of_codes_with_a_fault_is_refused(tmp_path, content, reason):
    path = tmp_path / "codes.csv"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=reason):
        CodePool(path, "spring")


def test_what_would_give_a_code_twice_or_to_a_wrong_row_is_refused(file, tmp_path):
    rows = a_list(["five"])
    with CodePool(file, "spring") as pool:
        coded = pool.assign(rows)
        with pytest.raises(Conflict, match="for another offer"):
            pool.assign(a_list(["ten"]))
        with pytest.raises(InvalidInput, match="plan"):
            pool.assign(a_list(["five"], "b", authorized=[False]))
        with pytest.raises(InvalidInput, match="twice"):
            pool.assign(a_list(["five"] * 2, request_id=["b", "b"]))
    with pytest.raises(Conflict, match="'spring', not 'fall'"):
        CodePool(file, "fall")
    # A pool whose database was lost would give its codes again.
    file.with_name("codes.csv.sqlite").unlink()
    with CodePool(file, "spring") as pool, pytest.raises(Conflict, match="this pool did not give"):
        pool.assign(
            coded.append_column("other", coded["code"])
            .select(SCHEMA.names)
            .set_column(SCHEMA.get_field_index("request_id"), "request_id", pa.array(["z"]))
        )
    with pytest.raises(NotFound, match="no such file of codes"):
        CodePool(tmp_path / "none.csv", "spring")


def test_a_pool_may_be_matched_by_level_or_by_nothing(tmp_path):
    for name, content, codes in (("level", "code,level\nA,1\nB,0\n", ["A", "B"]), ("any", "code\nA\nB\n", ["A", ""])):
        path = tmp_path / name
        path.write_text(content)
        with CodePool(path, "spring") as pool:
            assert given(pool, a_list(["five", "none"])) == codes
            if name == "level":
                with pytest.raises(InvalidInput, match="two sides"):
                    pool.assign(a_list(["five", "five"], "b", side=["customer", "merchant"]))


def test_codes_are_unique_under_kills(tmp_path):
    """Two lists are coded by processes that are killed at random points, until both are done."""
    file, seed = tmp_path / "codes.csv", random.Random(45)
    file.write_text("code\n" + "".join(f"C{row:05}\n" for row in range(9000)))
    lists = {}
    for name in ("a", "b"):
        lists[name] = tmp_path / f"{name}.parquet"
        pq.write_table(a_list(["five", "ten", ""] * 2000, name), lists[name])
    seen: dict[str, set[str]] = {}
    kills = 0
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["pyarrow.parquet", "shadowprice.lists.codes", "shadowprice.lists.table"])
    for attempt in range(8):
        for name, rows in lists.items():
            out = tmp_path / f"{name}-coded.parquet"
            told, begun = processes.Pipe(duplex=False)
            worker = processes.Process(target=give, args=(file, rows, out, begun))
            worker.start()
            assert told.recv()
            if attempt < 7:
                time.sleep(seed.uniform(0.0, 0.2))
                worker.kill()
            worker.join()
            kills += worker.exitcode == -signal.SIGKILL
            if out.exists():
                table = pq.read_table(out)
                for request, code in zip(table["request_id"].to_pylist(), table["code"].to_pylist(), strict=True):
                    if code:
                        seen.setdefault(request, set()).add(code)
    assert kills >= 7
    assert len(seen) == 8000
    assert all(len(codes) == 1 for codes in seen.values())
    assert max(Counter(code for codes in seen.values() for code in codes).values()) == 1


def test_templates_have_the_columns_of_the_tools_and_list_their_names():
    rows = a_list(["five", "", "ten"], code=["A", "", "B"])
    for name, template in TEMPLATES.items():
        table = as_import(rows, name)
        assert table.column_names == list(template.columns)
        assert table.column(0).to_pylist() == ["account0@shop.example", "account2@shop.example"]
        assert template.source.startswith("https://")
    with pytest.raises(NotFound, match="there are braze, customerio, iterable, klaviyo, mailchimp, onesignal"):
        as_import(rows, "brase")
    with pytest.raises(InvalidInput, match="finds people by e-mail"):
        as_import(a_list(["five"], code=["A"], account_id=["ada"]), "klaviyo")


def test_a_file_of_a_tool_has_the_terms_of_offers_that_have_any():
    dataset = vouchers.load(None, seed=0, sessions=200)
    campaign = campaign_from_tables(dataset.tables)
    offers = dataset.tables.offer.set_index("offer_id")
    rows = a_list([campaign.offer_ids["customer"][2], ""], code=["A", ""])
    (name,) = as_import(rows, "braze", terms_of(campaign))["coupon_terms"].to_pylist()
    offer = offers.loc[campaign.offer_ids["customer"][2]]
    assert name == f"{offer.name} (${offer.face_value / 100:.2f} from ${offer.min_spend / 100:.2f}, 7 days)"
    plain = replace(campaign.terms("customer"), least_spends=(), valid_hours=())
    assert terms_of(replace(campaign, sides={"customer": plain})) == {}


def test_the_command_writes_a_list_a_file_of_a_tool_and_the_rest(file, tmp_path, capsys):
    campaign = tmp_path / "campaign.json"
    terms = Terms(levels=(0, 500, 1000))
    campaign.write_text(
        json.dumps(
            Campaign(
                name="spring",
                sides={"customer": terms},
                starts_at=datetime(2026, 4, 1, tzinfo=UTC),
                budget=Budget(form="total", limit=9999),
            ).to_dict()
        )
    )
    rows, out, tool, rest = (tmp_path / name for name in ("list.parquet", "out.parquet", "braze.csv", "rest.csv"))
    pq.write_table(a_list(["five", "", "ten"]), rows)
    same = [str(rows), "--campaign", str(campaign), "--pool", str(file)]
    assert main([*same, "--out", str(out)]) == 0
    assert pq.read_table(out)["code"].to_pylist() == ["F0", "", "T0"]
    assert main([*same, "--out", str(tool), "--template", "braze", "--rest", str(rest)]) == 0
    printed = capsys.readouterr().out
    assert "2 codes for 3 accounts (five 1, ten 1)" in printed
    assert "4 codes that no account has" in printed
    assert pa.csv.read_csv(tool).to_pylist() == [
        {"external_id": "account0@shop.example", "coupon_code": "F0", "coupon_offer": "five"},
        {"external_id": "account2@shop.example", "coupon_code": "T0", "coupon_offer": "ten"},
    ]
    assert pa.csv.read_csv(rest)["code"].to_pylist() == ["F1", "T1", "F2", "T2"]
    assert main([*same, "--out", str(tool), "--template", "none"]) == 1
    assert "there are braze" in capsys.readouterr().err
