"""Files of other columns, delimiters, units and zones as canonical tables."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.main import main
from shadowprice.datasets import load
from shadowprice.errors import InvalidInput, InvalidTable, NotFound
from shadowprice.evidence.dropped import dropped
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.tables import campaign_from_tables

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "mapping"


def log(rows: int = 60) -> pd.DataFrame:
    """Offers of three values to twelve customers, with results."""
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "no": [f"r{k}" for k in range(rows)],
            "who": [f"K{k}" for k in random.integers(0, 12, rows)],
            "sent": pd.Timestamp("2026-03-01 12:00") + pd.to_timedelta(np.arange(rows) * 37, unit="min"),
            "worth": random.choice([0.0, 2.5, 1250.0], rows),
            "used": random.choice(["ja", "nein"], rows),
        }
    )


def description(**exposure: Any) -> dict[str, Any]:
    """A mapping of one file."""
    columns = {
        "request_id": "no",
        "account_id": "who",
        "face_value": "worth",
        "decided_at": "sent",
        "propensity": {"constant": "0.25"},
        "redeemed": {"column": "used", "values": {"ja": "1", "nein": "0"}},
        "observed_at": {"column": "sent", "plus_days": "2"},
        **exposure,
    }
    return {
        "currency": "EUR",
        "timezone": "Europe/Berlin",
        "sources": {"log": {"file": "log.csv"}},
        "campaign": {
            "campaign_id": "spring",
            "starts_at": "2026-04-01",
            "hours": "24",
            "budget_name": "coupons",
            "budget_form": "total",
            "budget_limit": "100.50",
            "cost_basis_customer": "on_response",
        },
        "tables": {"exposure": {"columns": columns}},
    }


def write(folder: Path, given: dict[str, Any], frame: pd.DataFrame | None = None, **csv: Any) -> Path:
    """Write a mapping and its file."""
    (log() if frame is None else frame).to_csv(folder / "log.csv", index=False, **csv)
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(given, allow_unicode=True))
    return path


def test_the_example_gives_the_tables_that_pandas_gives() -> None:
    dataset = load("mapping", data=str(EXAMPLE / "mapping.yaml"))
    people = pd.read_csv(EXAMPLE / "kunden.csv", sep=";", decimal=",")
    sent = pd.read_csv(EXAMPLE / "gutscheine.csv", sep=";", decimal=",")
    account = dataset.tables.account
    assert account["account_id"].tolist() == people["Kundennr"].tolist()
    np.testing.assert_array_equal(account["x_besuche_je_monat"], people["Besuche je Monat"])
    assert account["c_stadtteil"].tolist() == people["Stadtteil"].tolist()
    exposure, outcome, offer = dataset.tables.exposure, dataset.tables.outcome, dataset.tables.offer
    decided = pd.to_datetime(sent["gesendet"], format="%d.%m.%Y %H:%M").dt.tz_localize("Europe/Berlin")
    assert (exposure["decided_at"] == decided).all()
    worth = exposure["offer_id"].map(offer.set_index("offer_id")["face_value"]).astype(float)
    np.testing.assert_array_equal(worth, 100 * sent["Wert"])
    redeemed = (sent["eingelöst"] == "ja").astype(int)
    assert outcome["redeemed"].tolist() == redeemed.tolist()
    assert outcome["cost_paid"].tolist() == (worth * redeemed).astype(int).tolist()
    assert (outcome["observed_at"] - exposure["decided_at"] == pd.Timedelta(days=3)).all()
    campaign = campaign_from_tables(dataset.tables)
    assert campaign.budget.limit == 25_000
    assert list(campaign.terms("customer").levels) == [0, 250, 500, 1000]
    assert (dataset.currency, dataset.split.by) == ("EUR", "account")


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    currency=st.sampled_from([("EUR", 2), ("JPY", 0), ("KWD", 3)]),
    minor=st.booleans(),
    delimiter=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
    names=st.lists(
        st.text("abc äß'\"%_.", min_size=1, max_size=6), min_size=5, max_size=5, unique_by=lambda n: n.strip().lower()
    ),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
    amounts=st.lists(st.integers(0, 10**9), min_size=2, max_size=5, unique=True),
)
def test_any_names_units_delimiters_and_zones_give_the_amounts_and_times_of_pandas(
    currency: tuple[str, int],
    minor: bool,
    delimiter: str,
    decimal: str,
    names: list[str],
    zone: str,
    amounts: list[int],
    tmp_path: Path,
) -> None:
    if any(name != name.strip() for name in names) or (decimal == delimiter):
        return
    code, digits = currency
    frame = log()
    value = np.random.default_rng(1).permutation(np.resize(amounts, len(frame)))
    shown = [str(v) if minor or not digits else f"{v // 10**digits}.{v % 10**digits:0{digits}d}" for v in value]
    frame["worth"] = [text.replace(".", decimal) for text in shown]
    own = dict(zip(["request_id", "account_id", "decided_at", "face_value", "redeemed"], names, strict=True))
    mapped = description(**{key: name for key, name in own.items() if key != "redeemed"})
    columns = mapped["tables"]["exposure"]["columns"]
    columns["redeemed"]["column"] = own["redeemed"]
    columns["observed_at"]["column"] = own["decided_at"]
    mapped |= {"currency": code, "money": "minor" if minor else "major", "timezone": zone}
    mapped["campaign"]["budget_limit"] = "100"
    mapped["sources"]["log"] |= {"delimiter": delimiter, "decimal": decimal}
    tables = map_tables(read_mapping(write(tmp_path, mapped, frame.set_axis(names, axis=1), sep=delimiter)))
    offer = tables.offer.set_index("offer_id")["face_value"]
    assert tables.exposure["offer_id"].map(offer).tolist() == value.tolist()
    assert (tables.exposure["decided_at"] == frame["sent"].dt.tz_localize(zone).dt.tz_convert("UTC")).all()
    assert tables.exposure["account_id"].tolist() == frame["who"].tolist()
    assert sorted(tables.account["account_id"]) == sorted(frame["who"].unique())


def test_results_of_offers_that_are_left_out_are_left_out_too(tmp_path: Path) -> None:
    given = description()
    columns = given["tables"]["exposure"]["columns"]
    results = {name: columns.pop(name) for name in ("redeemed", "observed_at")}
    given["tables"]["exposure"]["where"] = "worth <> '2.5'"
    given["tables"]["outcome"] = {
        "columns": {
            "request_id": "no",
            **results,
            "mature": {"constant": "true"},
            "cost_paid": {"expression": "CASE WHEN used = 'ja' THEN worth ELSE '0' END"},
        }
    }
    frame = log()
    found = map_tables(read_mapping(write(tmp_path, given, frame)))
    kept = frame.loc[frame["worth"] != 2.5, "no"].tolist()
    assert 0 < len(kept) < len(frame)
    assert found.exposure["request_id"].tolist() == found.outcome["request_id"].tolist() == kept
    # A result of an offer that no file has stays a fault, with its own line.
    columns["request_id"] = {"expression": "CASE WHEN no = 'r7' THEN 'other' ELSE no END"}
    with pytest.raises(
        InvalidTable, match=r"'no': is not in the exposure table; got 'r7' \[outcome.request_id\] \(row 7,"
    ):
        map_tables(read_mapping(write(tmp_path, given, frame.assign(worth=2.0 * (frame.index == 8)))))


@pytest.mark.parametrize(
    ("text", "rounds"),
    [
        *(("worth <> 1", True), ("worth NOT IN (2.5, 1250)", True), ("nullif(trim(worth), 1) IS NULL", True)),
        *(("CASE worth WHEN 2.5 THEN true END", True), ("worth IS DISTINCT FROM 1 + 1", True)),
        *(("CAST(worth AS DOUBLE) <> 1", False), ("worth <> '2.5'", False), ("length(worth) = 3", False)),
        ("list_filter([1], lambda x: x = 1) = [1]", False),
    ],
)
def test_a_text_is_not_compared_with_a_number(text: str, rounds: bool, tmp_path: Path) -> None:
    """DuckDB rounds '0.5' to 1 where it is compared with the number 1."""
    given = description()
    given["tables"]["exposure"]["where"] = text
    mapping = read_mapping(write(tmp_path, given))
    if rounds:
        with pytest.raises(InvalidInput, match=r"exposure.where: compares a text with a number: write CAST"):
            map_tables(mapping)
        return
    assert len(map_tables(mapping).exposure)
    given["tables"]["exposure"]["where"] = "coalesce(worth, 1) IS NOT NULL"
    with pytest.raises(InvalidInput, match=r"Cells of a CSV file are texts: write CAST\(column AS DOUBLE\)"):
        map_tables(read_mapping(write(tmp_path, given)))


def test_repeated_lines_are_refused_with_the_command_that_removes_them(tmp_path: Path) -> None:
    frame = log()
    with pytest.raises(InvalidTable, match=r"stands earlier already; got 'r3'(?s:.*)awk '!seen\[\$0\]\+\+' FILE > NEW"):
        map_tables(read_mapping(write(tmp_path, description(), pd.concat([frame, frame.iloc[[3]]]))))


def test_a_fault_names_the_users_own_file_column_and_rows(tmp_path: Path) -> None:
    frame = log().astype({"worth": object})
    frame.loc[[4, 9], "worth"] = "viel"
    frame.loc[7, "used"] = "vielleicht"
    given = description()
    # Rows of the file are named, also where some are left out.
    given["tables"]["exposure"]["where"] = "no <> 'r2'"
    with pytest.raises(InvalidTable) as caught:
        map_tables(read_mapping(write(tmp_path, given, frame)))
    used, *_ = [fault for fault in caught.value.problems if fault.column == "used"]
    assert (used.table, used.rows, used.count) == ("log.csv", (7,), 1)
    assert "'vielleicht'" in used.reason
    assert any((fault.table, fault.column) == ("log.csv", "worth") for fault in caught.value.problems)
    assert "log.csv, column 'used': " in str(caught.value)
    assert "[outcome.redeemed]" in str(caught.value)


def test_a_time_without_a_zone_is_refused_and_the_message_says_what_to_add(tmp_path: Path) -> None:
    given = description()
    del given["timezone"]
    with pytest.raises(InvalidTable, match="need `timezone` in the mapping"):
        map_tables(read_mapping(write(tmp_path, given)))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-05-01 10:00:00", "2026-05-01T08:00:00Z"),
        ("2026-05-01", "2026-04-30T22:00:00Z"),
        ("2026/5/1 9:30", "2026-05-01T07:30:00Z"),
        ("2026-05-01T10:00:00.250Z", "2026-05-01T10:00:00.250Z"),
        ("2026-05-01 10:00:00z", "2026-05-01T10:00:00Z"),
        ("2026-05-01 10:00:00 UTC", "2026-05-01T10:00:00Z"),
        ("2026-05-01 10:00 GMT", "2026-05-01T10:00:00Z"),
        ("2026-05-01 10:00:00 +0530", "2026-05-01T04:30:00Z"),
        ("2026-05-01 10:00:00-05", "2026-05-01T15:00:00Z"),
        ("2026-05-01 10:00:00 EST", None),
        ("2026-05-01 10:00:00 CET", None),
        ("2026-05-01 10:00:00 America/New_York", None),
        ("2026-05-01 10:00 PM", None),
        ("infinity", None),
    ],
)
def test_a_time_is_local_only_where_nothing_follows_it(text: str, instant: str | None, tmp_path: Path) -> None:
    path = write(tmp_path, description(), log(2).astype({"sent": object}).assign(sent=text))
    if instant is not None:
        assert (map_tables(read_mapping(path)).exposure["decided_at"] == pd.Timestamp(instant)).all()
        return
    with pytest.raises(InvalidTable, match=rf"log.csv, column 'sent': is not a time; .*{text[:20]}.*first: 0, 1"):
        map_tables(read_mapping(path))


def test_a_format_that_ends_in_utc_is_not_local(tmp_path: Path) -> None:
    sent = {"column": "sent", "format": "%d.%m.%Y %H:%M UTC"}
    path = write(tmp_path, description(decided_at=sent, observed_at=sent), log(2).assign(sent="01.05.2026 10:00 UTC"))
    assert (map_tables(read_mapping(path)).exposure["decided_at"] == pd.Timestamp("2026-05-01T10:00:00Z")).all()


@pytest.mark.parametrize(
    ("signs", "text", "amount"),
    [
        ({"decimal": ","}, "1.500", None),
        ({"decimal": ",", "thousands": "'"}, "1.000", None),
        ({"decimal": ",", "thousands": "."}, "1.500", 150_000),
        ({"decimal": ",", "thousands": "."}, "1.500,50", 150_050),
        ({"decimal": ","}, "1,5", 150),
        ({}, "1,500", None),
        ({"thousands": ","}, "1,500", 150_000),
    ],
)
def test_a_sign_of_thousands_is_never_read_as_that_of_decimals(
    signs: dict[str, str], text: str, amount: int | None, tmp_path: Path
) -> None:
    given = description()
    given["sources"]["log"] |= {"delimiter": ";", **signs}
    given["tables"]["exposure"]["columns"]["x_worth"] = "worth"
    path = write(tmp_path, given, log(2).astype({"worth": object}).assign(worth=text), sep=";")
    if amount is not None:
        tables = map_tables(read_mapping(path))
        assert tables.offer["face_value"].tolist() == [amount]
        assert tables.exposure["x_worth"].tolist() == [amount / 100] * 2
        return
    with pytest.raises(InvalidTable, match=r"column 'worth': is not a whole number; got '1[.,].00") as caught:
        map_tables(read_mapping(path))
    assert "column 'worth': is not a number; leave" in str(caught.value)


def test_decimal_is_of_the_files_own_texts_alone(tmp_path: Path) -> None:
    """Values of the mapping, and numbers that an expression gives, have a point."""
    given = description(
        propensity={"column": "worth", "values": {"2,5": "0.25"}},
        x_half={"expression": "CAST(replace(worth, ',', '.') AS DOUBLE) / 4"},
    )
    given["sources"]["log"] |= {"delimiter": ";", "decimal": ",", "thousands": "."}
    path = write(tmp_path, given, log(2).assign(worth=2.5), sep=";", decimal=",")
    exposure = map_tables(read_mapping(path)).exposure
    assert exposure["propensity"].tolist() == [0.25, 0.25]
    assert exposure["x_half"].tolist() == [0.625, 0.625]


def test_a_late_outcome_is_an_amount_and_other_numbers_are_one_where_they_have_a_unit(tmp_path: Path) -> None:
    example = EXAMPLE.with_name("long-term")
    own = pd.read_csv(example / "coupons.csv")
    given = yaml.load((example / "mapping.yaml").read_text(), yaml.BaseLoader)
    given["tables"]["outcome"]["columns"] |= {"x_paid": {"column": "order", "unit": "major"}, "x_order": "order"}
    given["sources"]["trials"]["file"] = "log.csv"
    found = map_tables(read_mapping(write(tmp_path, given, own))).outcome
    for name, of, minor in (("x_value_90", "value 90 days", 100), ("x_paid", "order", 100), ("x_order", "order", 1)):
        np.testing.assert_allclose(found[name], minor * own[of], rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(found["x_visits"], own["visits"])


def test_windows_among_the_columns_of_the_offers_are_features_of_the_request(tmp_path: Path) -> None:
    given = description(x_value_90="worth", amount="worth")
    long_term = '{"late": "x_value_90", "early": ["amount"]}'
    given["campaign"] |= {"objective": "value", "worth_customer": "amount", "long_term": long_term}
    with pytest.raises(InvalidTable, match=r"it is a feature of the request, so move it to the table outcome"):
        map_tables(read_mapping(write(tmp_path, given)))


def test_a_fraction_of_a_minor_unit_is_refused(tmp_path: Path) -> None:
    frame = log()
    frame.loc[3, "worth"] = 2.505
    with pytest.raises(InvalidTable, match=r"column 'worth': must be a whole number; .* got '250\.5"):
        map_tables(read_mapping(write(tmp_path, description(), frame)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda given: given.update(curency="EUR"),
            "mapping.yaml: curency: there is no such key; did you mean currency",
        ),
        (lambda given: given.update(currency="euro"), "currency: must be a code of ISO 4217"),
        (lambda given: given.update(timezone="Berlin"), "timezone: must be a time zone such as"),
        (lambda given: given.update(money="cents"), "money: must be one of major, minor"),
        (lambda given: given["sources"]["log"].update(delimeter=";"), "sources.log: delimeter: .* delimiter"),
        (
            lambda given: given["sources"]["log"].update(decimal=",", thousands=","),
            "sources.log.thousands: must differ from decimal",
        ),
        (lambda given: given["sources"]["log"].update(attach="x.db"), "sources.log: needs either file or attach"),
        (lambda given: given["tables"].update(people={}), "tables: .'people'. are no tables"),
        (lambda given: given["tables"].pop("exposure"), "tables.exposure: the table is missing"),
        (lambda given: given["tables"]["exposure"].update({"from": "lag"}), "tables.exposure.from: must be one of"),
        (lambda given: given["tables"]["exposure"].update({"from": ["a"]}), "tables.exposure.from: must be a single"),
        (lambda given: given.update(timezone="Europe"), "timezone: must be a time zone such as"),
        (
            lambda given: given["tables"]["exposure"]["columns"]["observed_at"].update(plus_days="nan"),
            "observed_at.plus_days: must be a number, got 'nan'",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].update(x_no={"expression": "CAST(no AS DOUBLE)"}),
            "log.csv: cannot be read: Conversion Error",
        ),
        (lambda given: given["campaign"].update(budget="5"), "campaign.budget: is not a column of campaign"),
        (
            lambda given: given["tables"]["exposure"]["columns"].update(price={"constant": "1"}),
            "tables.exposure.columns.price: is not a column of exposure",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].update(account_id="customer"),
            "tables.exposure.columns.account_id: log.csv has no column 'customer'; it has no, who",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].update(propensity={"column": "a", "constant": "1"}),
            "propensity: needs exactly one of column, constant",
        ),
        (
            lambda given: given["tables"]["exposure"].update(where="sent >"),
            "tables.exposure.where: is not SQL that reads",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].pop("face_value"),
            "tables.exposure.columns: needs offer_id, or face_value",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].pop("observed_at"),
            "observed_at: is missing: when the result was known",
        ),
        (
            lambda given: given["tables"]["exposure"]["columns"].pop("redeemed"),
            "cost_paid: is missing in log.csv: what was paid; it follows from redeemed and a face_value or cost",
        ),
        (
            lambda given: given["tables"].update(outcome={"columns": {"request_id": "no", "redeemed": "used"}}),
            r"results beside the table outcome: move observed_at .sent., redeemed .used. there",
        ),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_place(change: Any, message: str, tmp_path: Path) -> None:
    given = description()
    change(given)
    with pytest.raises(InvalidInput, match=message):
        map_tables(read_mapping(write(tmp_path, given)))


@pytest.mark.parametrize(
    ("column", "values", "level"),
    [
        ("face_value", {"none": "0", "letter": "2.50", "mail": "2.5"}, "2.50"),
        ("offer_id", {"none": "control", "letter": "note", "mail": "note"}, "note"),
    ],
)
def test_two_arms_that_become_one_level_are_refused(
    column: str, values: dict[str, str], level: str, tmp_path: Path
) -> None:
    """Rows of both arms were averaged as one level without a word."""
    frame = log().assign(arm=np.resize(["none", "letter", "mail"], 60))
    path = write(tmp_path, description(**{column: {"column": "arm", "values": values}}), frame)
    with pytest.raises(InvalidTable) as error:
        map_tables(read_mapping(path))
    assert f"'letter', 'mail' all become {level}, so they would be one level" in str(error.value)
    assert error.value.problems[0].column == f"tables.exposure.columns.{column}.values"
    merged = description(face_value={"expression": "CASE WHEN arm = 'none' THEN 0 ELSE 2.5 END"})
    assert len(map_tables(read_mapping(write(tmp_path, merged, frame))).offer) == 2


def test_a_file_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidTable, match=r"log.csv: has no rows \[exposure\]"):
        map_tables(read_mapping(write(tmp_path, description(), log(0))))


def test_a_part_without_rows_is_left_out(tmp_path: Path) -> None:
    given = description()
    columns = given["tables"]["exposure"]["columns"]
    given["tables"]["exposure"] = [{"columns": columns, "where": "no = 'none'"}, {"columns": columns}]
    assert map_tables(read_mapping(write(tmp_path, given))).rows()["exposure"] == len(log())


def test_a_file_may_be_named_by_a_pattern(tmp_path: Path) -> None:
    given = description()
    for pattern in ("**.csv", "**/l*.csv", str(tmp_path / "*.csv")):
        given["sources"]["log"]["file"] = pattern
        assert map_tables(read_mapping(write(tmp_path, given))).rows()["exposure"] == len(log())
    given["sources"]["log"]["file"] = "**.tsv"
    with pytest.raises(NotFound, match="there is no file"):
        map_tables(read_mapping(write(tmp_path, given)))


def test_a_file_that_is_no_mapping_is_not_shown_in_the_message(tmp_path: Path) -> None:
    log(2_000).to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(InvalidInput, match="must be keys with values, got 'no,who,sent") as caught:
        read_mapping(tmp_path / "log.csv")
    assert len(caught.value.reason) < 120


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, description())
    (tmp_path / "log.csv").unlink()
    with pytest.raises(NotFound, match=r"sources\.log\.file: there is no file .*log\.csv"):
        map_tables(read_mapping(path))
    with pytest.raises(NotFound, match="there is no such mapping"):
        read_mapping(tmp_path / "other.yaml")


def test_parquet_and_databases_give_what_the_csv_file_gives(tmp_path: Path) -> None:
    expected = map_tables(read_mapping(write(tmp_path, description()))).as_dict()
    log().to_parquet(tmp_path / "log.parquet", index=False)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as db:
        db.execute(f"CREATE TABLE log AS FROM '{tmp_path / 'log.csv'}'")
    for source in (
        {"file": "log.parquet"},
        {"attach": "shop.duckdb", "table": "log"},
        {"attach": "shop.duckdb", "query": "SELECT * FROM log ORDER BY sent"},
    ):
        found = map_tables(read_mapping(write(tmp_path, description() | {"sources": {"log": source}}))).as_dict()
        assert set(found) == set(expected)
        for name, frame in expected.items():
            pd.testing.assert_frame_equal(found[name], frame)


def test_several_files_make_one_table_and_a_fault_is_found_in_its_own(tmp_path: Path) -> None:
    given = description()
    given["sources"]["late"] = {"file": "late.csv"}
    columns = given["tables"]["exposure"]["columns"]
    given["tables"]["exposure"] = [{"from": "log", "columns": columns}, {"from": "late", "columns": columns}]
    late = log().assign(no=lambda frame: "l" + frame["no"])
    late.to_csv(tmp_path / "late.csv", index=False)
    path = write(tmp_path, given)
    assert map_tables(read_mapping(path)).rows()["exposure"] == 2 * len(late)
    late.loc[5, "used"] = "?"
    late.to_csv(tmp_path / "late.csv", index=False)
    with pytest.raises(InvalidTable) as caught:
        map_tables(read_mapping(path))
    assert {(fault.table, fault.column, fault.rows) for fault in caught.value.problems} == {("late.csv", "used", (5,))}


def test_no_offer_is_lost_where_no_file_lists_the_accounts(tmp_path: Path) -> None:
    """Accounts of which nothing but their names is known come one after the other, with ties and without."""
    frame = log(40).assign(who=[f"K{k // 2}" for k in range(40)])
    first = frame.groupby("who")["sent"].min().dt.tz_localize("Europe/Berlin").dt.tz_convert("UTC")
    found = map_tables(read_mapping(write(tmp_path, description(), frame)))
    assert set(found.account["snapshot_ts"]) == {first.min()}
    assert found.rows()["account"] == 20
    ties = pd.DataFrame({"who": frame["who"], "shop": "S1", "day": frame["sent"]})
    ties.to_csv(tmp_path / "ties.csv", index=False)
    given = description()
    given["sources"]["ties"] = {"file": "ties.csv"}
    given["tables"]["edge"] = {
        "from": "ties",
        "columns": {
            "src": "who",
            "dst": "shop",
            "ts": "day",
            "weight": {"constant": "1"},
            "relation": {"constant": "paid_at"},
        },
    }
    given["tables"]["exposure"]["from"] = "log"
    found = map_tables(read_mapping(write(tmp_path, given, frame)))
    known = found.account.query("side == 'customer'").groupby("account_id")["snapshot_ts"].agg(["min", "max"])
    assert set(known["min"]) == {first.min()}
    assert (known["max"] == first.loc[known.index]).all()
    for tables in (map_tables(read_mapping(write(tmp_path, description(), frame))), found):
        assert dropped(tables).sides["customer"].no_profile == 0


def test_the_tutorial_shows_the_files_and_what_the_check_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "tutorials" / "your-own-files.md").read_text()
    for name in ("kunden.csv", "gutscheine.csv"):
        assert "".join((EXAMPLE / name).read_text().splitlines(keepends=True)[:2]) in page
    main(["check", str(EXAMPLE / "mapping.yaml")])
    printed = capsys.readouterr().out
    assert printed[: printed.index("checked in")] in page
