"""Forms of flags and times that people have, and files without a list of accounts, as ``init`` reads them."""

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

import cli.main as command
from shadowprice.mapping import map_tables, read_mapping
from shadowprice.tables import Tables

START = datetime(2026, 3, 1, 9, 30)
MOMENTS = [START + timedelta(hours=7 * k) for k in range(60)]
SERIAL = [(at - datetime(1899, 12, 30)) / timedelta(days=1) for at in MOMENTS]
SINCE = [int(at.replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) for at in MOMENTS]


def proposed(folder: Path, delimiter: str = ",", **columns: list[str]) -> tuple[str, Tables]:
    """Return the mapping that init writes of sixty rows, and the tables that it gives as it is."""
    given = {
        "order": [f"#{k}" for k in range(60)],
        "customer": [f"K{k % 23}" for k in range(60)],
        "sent": [at.isoformat(" ") for at in MOMENTS],
        "coupon value": [("2.50", "5.00")[k % 2] for k in range(60)],
        "redeemed": [("yes", "no")[k % 3 == 0] for k in range(60)],
    } | columns
    rows = [given, *zip(*given.values(), strict=True)]
    (folder / "log.csv").write_text("".join(delimiter.join(row) + "\n" for row in rows), encoding="utf-8")
    words = ["init", str(folder), "--trials", str(folder / "log.csv"), "--currency", "EUR"]
    assert command.main([*words, "--timezone", "Europe/Berlin"]) == 0
    return (folder / "mapping.yaml").read_text(), map_tables(read_mapping(folder / "mapping.yaml"))


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        *(("wahr", "falsch"), ("vrai", "faux"), ("да", "нет"), ("是", "否"), ("on", "off"), ("Y", "N"), ("t", "f")),
        *(("1.0", "0.0"), ("1", "0.0"), ("1", "-1"), ("TRUE", "False"), ("x", ""), ("1", ""), (" yes", "no ")),
    ],
)
def test_two_values_are_flags_in_any_language_and_form(yes: str, no: str, tmp_path: Path) -> None:
    # The rarer value is no, so a guess by frequency would be wrong.
    text, tables = proposed(tmp_path, redeemed=[(yes, no)[k % 3 == 0] for k in range(60)])
    assert tables.outcome["redeemed"].tolist() == [int(k % 3 != 0) for k in range(60)]
    assert "the rarer one" not in text


def test_one_word_in_several_cases_is_one_value(tmp_path: Path) -> None:
    _, tables = proposed(tmp_path, redeemed=[("TRUE", "true", "False")[k % 3] for k in range(60)])
    assert tables.outcome["redeemed"].tolist() == [int(k % 3 != 2) for k in range(60)]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([str(at) for at in SINCE], "seconds since 1970"),
        ([f"{at}.0" for at in SINCE], "seconds since 1970"),
        ([f"{at}000" for at in SINCE], "milliseconds since 1970"),
        ([f"{at}000000" for at in SINCE], "microseconds since 1970"),
        ([f"{days:.8f}" for days in SERIAL], "taken for excel"),
        ([at.strftime("%d %b %Y %H:%M") for at in MOMENTS], "%d %b %Y %H:%M"),
        ([at.strftime("%d-%b-%y %H:%M").upper() for at in MOMENTS], "years of two digits are read as 2026"),
        ([at.strftime("%d/%m/%Y %H:%M") for at in MOMENTS], "%d/%m/%Y %H:%M"),
    ],
)
def test_times_are_found_in_the_forms_that_programs_write(cells: list[str], reason: str, tmp_path: Path) -> None:
    text, tables = proposed(tmp_path, sent=cells)
    assert reason in text
    (line,) = (each for each in text.splitlines() if "decided_at:" in each)
    assert "CHECK" in line
    found = tables.exposure.set_index("request_id")["decided_at"]
    wanted = [pd.Timestamp(at, unit="s", tz="UTC") for at in SINCE]
    assert [found[f"#{k}"] for k in range(60)] == wanted


@pytest.mark.parametrize("delimiter", ["^", "~", "\x01", "|", "\t", ";"])
def test_cells_are_told_apart_by_any_usual_sign(delimiter: str, tmp_path: Path) -> None:
    _, tables = proposed(tmp_path, delimiter)
    assert tables.rows()["exposure"] == 60


def test_a_file_without_times_is_told_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("order:customer\n1:K1\n2:K2\n")
    assert command.main(["init", str(tmp_path / "new"), "--trials", str(tmp_path / "log.csv")]) == 1
    assert "it has order:customer. Where times have another form, or cells another delimiter" in capsys.readouterr().err


def test_no_request_of_a_log_alone_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accounts that no file lists are known from the beginning, not from their own first request."""
    text, tables = proposed(tmp_path)
    assert tables.account["snapshot_ts"].unique().tolist() == [pd.Timestamp("2026-03-01T08:30Z")]
    assert len(tables.account) == 23
    assert command.main(["check", str(tmp_path / "mapping.yaml")]) == 0
    assert "offers 60, learned from and judged on 60" in capsys.readouterr().out
    # Ties are counted up to the time of a profile, so each account has its own time too.
    (tmp_path / "ties.csv").write_text("a,b,t\nK1,M1,2026-03-02 10:00\n")
    text = text.replace("\ncampaign:\n", "  ties: ties.csv\n\ncampaign:\n")
    edge = (
        "  edge: {from: ties, columns: {src: a, dst: b, ts: t, relation: {constant: paid_at}, weight: {constant: 1}}}\n"
    )
    (tmp_path / "mapping.yaml").write_text(text + edge)
    account = map_tables(read_mapping(tmp_path / "mapping.yaml")).account
    assert set(account.loc[account["account_id"] == "M1", "snapshot_ts"]) == {
        pd.Timestamp("2026-03-01T08:30Z"),
        pd.Timestamp("2026-03-02T09:00Z"),
    }
