"""``shadowprice init`` proposes a mapping whose tables are those of the files, whatever their columns are called."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cli.main as command
from shadowprice.datasets.inputs import dataset_of
from shadowprice.datasets.registry import load
from shadowprice.mapping import map_tables, read_mapping

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "mapping"
GERMAN = ["--trials", str(EXAMPLE / "gutscheine.csv"), "--customers", str(EXAMPLE / "kunden.csv")]


def test_the_files_of_the_tutorial_become_the_tables_of_its_mapping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shop"
    assert command.main(["init", str(folder), *GERMAN, "--currency", "EUR", "--timezone", "Europe/Berlin"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith(f"next: shadowprice check {folder / 'mapping.yaml'}\n")
    found = map_tables(read_mapping(folder / "mapping.yaml"))
    wanted = map_tables(read_mapping(EXAMPLE / "mapping.yaml"))
    for table, guessed in (("exposure", []), ("outcome", ["observed_at"]), ("account", ["snapshot_ts"]), ("offer", [])):
        mine, theirs = (getattr(each, table).drop(columns=guessed) for each in (found, wanted))
        pd.testing.assert_frame_equal(mine, theirs)


def test_the_tutorial_shows_lines_of_the_mapping_that_is_written(tmp_path: Path) -> None:
    page = (EXAMPLE.parents[1] / "tutorials" / "your-own-files.md").read_text()
    assert command.main(["init", str(tmp_path), *GERMAN, "--currency", "EUR", "--timezone", "Europe/Berlin"]) == 0
    written = (tmp_path / "mapping.yaml").read_text()
    [shown] = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert [line for line in shown.splitlines() if line not in written.splitlines()] == []
    assert f"check its {written.count('CHECK:')} lines with CHECK" in page


def write_english(folder: Path) -> pd.DataFrame:
    """Write customers, trials and results as another shop has them, and return what the outcome must be."""
    rng = np.random.default_rng(3)
    people = pd.DataFrame({"member": [f"m-{at:03}" for at in range(300)], "age": rng.integers(18, 80, 300)})
    people["home town"] = rng.choice(["Graz", "Zürich", "NA"], 300)
    people["e-mail"] = [f"{at}@example.org" for at in range(300)]
    people.to_parquet(folder / "people.parquet")
    rows = 1_000
    sent = pd.Timestamp("2026-01-05T08:00Z") + pd.to_timedelta(rng.integers(0, 20 * 24 * 60, rows), unit="min")
    trials = pd.DataFrame(
        {
            "mail": [f"t{at}" for at in range(rows)],
            "who": people["member"].to_numpy()[rng.integers(0, 300, rows)],
            "sent_on": sent.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "discount": rng.choice([0, 2.5, 5], rows, p=[0.6, 0.3, 0.1]),
        }
    )
    used = rng.random(rows) < 0.2
    trials["redeemed_at"] = np.where(used, (sent + pd.Timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ"), "")
    trials.to_csv(folder / "mails.csv", index=False)
    paid = np.where(used, np.round(100 * trials["discount"]), 0).astype(int)
    return pd.DataFrame({"request_id": trials["mail"], "redeemed": used.astype(int), "cost_paid": paid})


def test_other_names_types_and_times_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = write_english(tmp_path).set_index("request_id").sort_index()
    files = ["--trials", str(tmp_path / "mails.csv"), "--customers", str(tmp_path / "people.parquet")]
    assert command.main(["init", str(tmp_path), *files, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["missing"] == []
    assert told["columns"]["exposure"]["account_id"] == "who"
    assert told["columns"]["account"]["account_id"] == "member"
    text = Path(told["mapping"]).read_text()
    assert "not used: e-mail" in text
    assert "timezone" not in text
    tables = map_tables(read_mapping(told["mapping"]))
    outcome = tables.outcome.set_index("request_id").sort_index()
    assert outcome["redeemed"].astype(int).tolist() == wanted["redeemed"].tolist()
    assert outcome["cost_paid"].astype(int).tolist() == wanted["cost_paid"].tolist()
    assert {"x_age", "c_home_town"} <= set(tables.account.columns)
    shares = tables.exposure.merge(tables.offer, on="offer_id").groupby("face_value")["propensity"]
    counted = tables.exposure.merge(tables.offer, on="offer_id").groupby("face_value").size() / 1_000
    assert shares.first().to_numpy() == pytest.approx(counted.to_numpy())


def test_copies_of_rows_and_accounts_that_stand_twice_are_named_and_their_keys_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(3)
    people = pd.DataFrame({"cliente": [f"{k:06d}" for k in range(300)], "region": ["Norte", "Sur", "Sur"] * 100})
    offers = pd.DataFrame(
        {
            "oferta": [f"F{k}" for k in range(900)],
            "cliente": random.choice(people["cliente"], 900),
            "region": random.choice(["Norte", "Sur"], 900),
            "enviado": pd.date_range("2026-03-01 09:00", periods=900, freq="7min").strftime("%d/%m/%Y %H:%M"),
            "cupon": random.choice(["0,00", "2,50", "5,00"], 900),
            "pedido": random.choice(["si", "no"], 900, p=[0.6, 0.4]),
        }
    )
    pd.concat([people, people.head(3).assign(region="Este")]).to_csv(tmp_path / "clientes.csv", sep=";", index=False)
    pd.concat([offers, offers.iloc[[4, 9]]]).to_csv(tmp_path / "ofertas.csv", sep=";", index=False)
    files = ["--trials", str(tmp_path / "ofertas.csv"), "--customers", str(tmp_path / "clientes.csv")]
    assert command.main(["init", str(tmp_path), *files, "--currency", "EUR"]) == 0
    text = (tmp_path / "mapping.yaml").read_text()
    assert "CHECK: 2 rows are copies of earlier ones: remove them unless each counts" in text
    assert "request_id: oferta # no two rows have the same value" in text
    assert "account_id: cliente # CHECK: several rows have the same value: keep one of each" in text
    # A column that says yes is the result before one that has two values.
    assert "redeemed: {column: pedido, values: {si: 1, no: 0}}" in text
    capsys.readouterr()
    assert command.main(["check", str(tmp_path / "mapping.yaml")]) == 1
    faults = capsys.readouterr().err
    assert "(2 rows, first: 900, 901; lines 902, 903)" in faults
    assert "awk '!seen[$0]++' FILE > NEW" in faults
    assert "Keep one row of each account and time" in faults


def test_results_in_a_file_of_their_own_are_joined(tmp_path: Path) -> None:
    wanted = write_english(tmp_path)
    paid = wanted.set_index("request_id").sort_index()["cost_paid"]
    results = wanted.rename(columns={"request_id": "for mail", "redeemed": "bought", "cost_paid": "cost"})
    results["cost"] = results["cost"] / 100
    results["bought"] = results["bought"].astype(float)  # 0.0 and 1.0, as a table with unknown cells writes them
    results["known since"] = "31.01.2026 12:00"
    results.to_csv(tmp_path / "results.csv", index=False, sep="\t", encoding="latin-1")
    trials = pd.read_csv(tmp_path / "mails.csv").drop(columns="redeemed_at")
    trials.to_csv(tmp_path / "mails.csv", index=False)
    files = ["--trials", str(tmp_path / "mails.csv"), "--outcomes", str(tmp_path / "results.csv")]
    assert command.main(["init", str(tmp_path), *files]) == 0
    tables = map_tables(read_mapping(tmp_path / "mapping.yaml"))
    outcome = tables.outcome.set_index("request_id").sort_index()
    assert outcome["cost_paid"].astype(int).tolist() == paid.tolist()
    assert outcome["redeemed"].astype(int).sum() == wanted["redeemed"].sum()
    assert set(outcome["observed_at"]) == {pd.Timestamp("2026-01-31T12:00Z")}


def test_each_command_that_is_printed_reads_files_outside_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my files").mkdir()
    (tmp_path / "work").mkdir()
    write_english(tmp_path / "my files")
    monkeypatch.chdir(tmp_path / "work")
    words = ["init", "../my shop", "--trials", "../my files/mails.csv", "--customers", "../my files/people.parquet"]
    told = ""
    for name in ("check", "run"):
        assert command.main(words) == 0, told
        told = capsys.readouterr().out
        program, *words = shlex.split(told[told.rindex("next: ") + len("next: ") :])
        assert (program, words[0]) == ("shadowprice", name)
    _, path, flag, options = words
    assert flag == "--options"
    assert load(dataset_of(Path(path)), path, **json.loads(options)).tables.rows()["exposure"] == 1_000


def test_a_mapping_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mapping.yaml").write_text("mine")
    assert command.main(["init", str(tmp_path), *GERMAN]) == 1
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "mapping.yaml").read_text() == "mine"


def test_files_that_cannot_be_used_are_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new"
    (tmp_path / "timeless.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "empty.csv").write_text("a,b\n")
    (tmp_path / "ragged.csv").write_text("a,b\n" + "1,2\n" * 30_000 + "1,2,3\n")
    for trials, words in (
        ("none.csv", "there is no file"),
        ("timeless.csv", "no column of times"),
        ("empty.csv", "row"),
        ("ragged.csv", "ragged.csv: has 3 cells where the header has 2 (row 30000, line 30002)"),
    ):
        assert command.main(["init", str(target), "--trials", str(tmp_path / trials)]) == 1
        told = capsys.readouterr().err
        assert words in told
        assert "Traceback" not in told
    for option, value in (("--currency", "euro"), ("--timezone", "Berlin")):
        assert command.main(["init", str(target), *GERMAN, option, value]) == 1
        assert "must be a" in capsys.readouterr().err
    assert not target.exists()
    assert command.main(["init", str(target)]) == 2


def test_a_column_that_is_not_found_is_named_in_the_file_and_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text("id,at\n" + "".join(f"{row},2026-01-{row:02} 10:00\n" for row in range(1, 20)))
    assert command.main(["init", str(tmp_path), "--trials", str(tmp_path / "log.csv")]) == 0
    assert "no column was found for exposure.face_value" in capsys.readouterr().out
    assert "no column was found for face_value, which is required" in (tmp_path / "mapping.yaml").read_text()


@pytest.mark.parametrize(
    ("end", "zoned"), [("", False), (" 10:00", False), (" 10:00 UTC", True), ("T10:00+02:00", True)]
)
def test_a_time_zone_is_asked_for_where_times_have_none(end: str, zoned: bool, tmp_path: Path) -> None:
    rows = "".join(f"{row},2026-01-{row:02}{end},{row % 2}\n" for row in range(1, 20))
    (tmp_path / "log.csv").write_text(f"id,at,value\n{rows}")
    assert command.main(["init", str(tmp_path), "--trials", str(tmp_path / "log.csv")]) == 0
    assert ("timezone: UTC" in (tmp_path / "mapping.yaml").read_text()) is not zoned


def test_numbers_as_keys_merchants_and_few_rows_of_an_account_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Amounts, ages and shares are among the keys or differ in each row, and are none."""
    rng = np.random.default_rng(4)
    people = pd.DataFrame({"share": rng.random(200), "no": np.arange(1, 201), "age": rng.integers(18, 80, 200)})
    people["town"] = rng.choice(["Graz", "Linz"], 200)
    shops = pd.DataFrame({"shop": [f"s{at}" for at in range(60)], "size": rng.integers(1, 9, 60)})
    sent = pd.Timestamp("2026-01-05") + pd.to_timedelta(np.arange(200) * 7, unit="h")
    trials = pd.DataFrame(
        {"basket": rng.random(200), "coupon value": rng.choice([1, 2, 5], 200), "person": people["no"]}
    )
    trials = trials.assign(at=sent.strftime("%Y-%m-%d %H:%M"), till=rng.choice(shops["shop"], 200))
    trials["redeemed"] = rng.choice(["Y", "N"], 200, p=[0.7, 0.3])
    for name, table in (("people", people), ("shops", shops), ("trials", trials)):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    files = [f"--{option}={tmp_path / name}.csv" for option, name in (("customers", "people"), ("merchants", "shops"))]
    assert command.main(["init", str(tmp_path), *files, "--trials", str(tmp_path / "trials.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"]["exposure"] | {"request_id": "", "propensity": ""} == {
        "account_id": "person",
        "partner_id": "till",
        "request_id": "",
        "decided_at": "at",
        "face_value": "coupon value",
        "propensity": "",
        "redeemed": "redeemed",
        "observed_at": "at",
    }
    tables = map_tables(read_mapping(told["mapping"]))
    account = tables.account.set_index("side")
    assert account.loc["customer", ["x_share", "x_age", "c_town"]].notna().all(axis=None)
    assert account.loc["customer", "x_size"].isna().all()
    assert account.loc["merchant", ["x_share", "x_age", "c_town"]].isna().all(axis=None)
    assert tables.account.groupby("side").size().to_dict() == {"customer": 200, "merchant": 60}
    assert int(tables.outcome["redeemed"].sum()) == int((trials["redeemed"] == "Y").sum())


def test_a_log_without_other_files_names_its_accounts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"u{at},2026-01-{1 + at % 28:02}T08:00Z,{at % 3},{at % 2}" for at in range(90)]
    (tmp_path / "log.csv").write_text("\n".join(["user,at,incentive,used", *rows]))
    assert command.main(["init", str(tmp_path), "--trials", str(tmp_path / "log.csv"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"]["exposure"]["account_id"] == "user"
    tables = map_tables(read_mapping(told["mapping"]))
    assert tables.rows()["account"] == 90


@pytest.mark.parametrize("right", [True, False])
def test_the_chances_of_the_rows_are_found_by_what_they_add_up_to(right: bool, tmp_path: Path) -> None:
    random, rows = np.random.default_rng(3), 4000
    north = random.random(rows) < 0.4
    arms = np.array([[0.1, 0.3, 0.6], [0.7, 0.2, 0.1]])[north.astype(int)]
    arm = (random.random(rows)[:, None] > arms.cumsum(axis=1)).sum(axis=1)
    anteil = arms[np.arange(rows), arm] if right else np.where(north, 0.3, 0.6)
    trials = pd.DataFrame({"Sendung": [f"S{k:05d}" for k in range(rows)], "Kunde": [f"K{k:05d}" for k in range(rows)]})
    trials = trials.assign(gesendet="02.03.2026 08:00", Anteil=anteil, Gutschein=[0, 3, 8] @ np.eye(3)[arm].T)
    trials.assign(ja=(random.random(rows) < 0.2).astype(int)).to_csv(tmp_path / "a.csv", index=False, sep=";")
    assert command.main(["init", str(tmp_path), "--trials", str(tmp_path / "a.csv"), "--json"]) == 0
    tables = map_tables(read_mapping(tmp_path / "mapping.yaml"))
    assert set(tables.offer["face_value"]) == {0, 300, 800}
    shares = np.bincount(arm) / rows
    assert tables.exposure["propensity"].to_numpy() == pytest.approx(anteil if right else shares[arm], rel=1e-4)


def test_a_gift_without_an_amount_is_told_from_a_column_of_shares(tmp_path: Path) -> None:
    rows = 60
    trials = pd.DataFrame({"id": [f"T{k:03d}" for k in range(rows)], "customer": [f"C{k:03d}" for k in range(rows)]})
    trials = trials.assign(sent="2026-03-02 08:00", offer=["gift", "none"] * 30, opened=["Y", "N", "N"] * 20)
    trials.assign(p=[0.5, 0.5, 1.0] * 20).to_csv(tmp_path / "a.csv", index=False)
    assert command.main(["init", str(tmp_path), "--trials", str(tmp_path / "a.csv")]) == 0
    tables = map_tables(read_mapping(tmp_path / "mapping.yaml"))
    assert set(tables.offer["offer_id"]) == {"gift", "none"}
    assert tables.outcome["redeemed"].tolist() == [1, 0, 0] * 20
