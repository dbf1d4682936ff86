"""Voucher logs of a company's own files against the same sessions read as canonical tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from benchmarks.companies.vouchers import write_company
from cli.main import main
from shadowprice.datasets.folder import write_tables
from shadowprice.datasets.inputs import accounts_in, dataset_of, input_files
from shadowprice.datasets.registry import load
from shadowprice.datasets.vouchers import generate
from shadowprice.errors import InvalidInput, InvalidTable
from shadowprice.mapping import map_sessions, read_mapping
from shadowprice.tables import campaign_from_tables

SESSIONS = 400


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a company; tests that change them work on a copy."""
    return write_company(tmp_path_factory.mktemp("company"), generate(seed=3, sessions=SESSIONS).tables)


def changed(company: Path, folder: Path, change: dict[str, Any], **files: pd.DataFrame) -> Path:
    """Return a copy of the mapping with other tables and files; a table of None is left out."""
    for file in company.parent.glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())
    for name, frame in files.items():
        frame.to_csv(folder / f"{name}.csv", sep=";", index=False)
    described = yaml.safe_load(company.read_text())
    tables = described["tables"] | change
    described["tables"] = {name: table for name, table in tables.items() if table is not None}
    (folder / "mapping.yaml").write_text(yaml.safe_dump(described, allow_unicode=True))
    return folder / "mapping.yaml"


def frame_of(company: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(company.parent / f"{name}.csv", sep=";", dtype=str)


def test_a_companys_files_are_the_sessions_they_were_written_from(company: Path, tmp_path: Path) -> None:
    tables = generate(seed=3, sessions=SESSIONS).tables
    found = load("vouchers", str(company))
    write_tables(tables, tmp_path / "folder")
    named = {"budget": 208_000, "requests": 2000, "campaign": "fruehling"}
    # A day begins at midnight where the shop is.
    newest = tables.session["collected_at"].max().tz_convert("Europe/Berlin")
    starts_at = f"{(newest + pd.Timedelta(days=1)).date()}T00:00:00{newest.strftime('%z')}"
    wanted = load("vouchers", str(tmp_path / "folder"), **named, starts_at=starts_at)
    assert found.sessions is not None
    assert wanted.sessions is not None
    session, own = found.sessions.session, wanted.sessions.session.drop(columns="campaign")
    # The generator expires vouchers after its own end; what was not known when the log ended has no label.
    end = max(own["collected_at"].max(), own["redeemed_at"].max())
    open_yet = own["expires_at"] > end
    assert open_yet.any()
    key = ["session_id"]
    left = session.drop(columns="campaign").sort_values(key, ignore_index=True)
    right = own.assign(label=own["label"].where(~open_yet)).sort_values(key, ignore_index=True)
    pd.testing.assert_frame_equal(left, right, check_dtype=False)
    key = ["session_id", "ts", "item_id", "action"]
    events = (each.sessions.behaviour.sort_values(key, ignore_index=True) for each in (found, wanted))
    pd.testing.assert_frame_equal(*events, check_dtype=False)
    assert found.split.test_from == wanted.split.test_from
    assert (found.currency, wanted.currency) == ("EUR", "USD")
    campaigns = [campaign_from_tables(each.tables).to_dict() | {"currency": ""} for each in (found, wanted)]
    assert campaigns[0] == campaigns[1]


def test_events_of_a_person_belong_to_the_sessions_near_them(company: Path, tmp_path: Path) -> None:
    """Against a loop over all pairs of events and sessions."""
    events = frame_of(company, "koerbe").head(300)
    sessions = frame_of(company, "geholt").set_index("Vorgang")
    events["Kundin"] = sessions.loc[events["Vorgang"], "Kundin"].to_numpy()
    described = yaml.safe_load(company.read_text())["tables"]["behaviour"]
    columns = {name: own for name, own in described["columns"].items() if name != "session_id"}
    behaviour = {"behaviour": described | {"columns": {**columns, "user_id": "Kundin"}}}
    found, _ = map_sessions(read_mapping(changed(company, tmp_path, behaviour, koerbe=events)))
    at = pd.to_datetime(events["wann"]).dt.tz_localize("Asia/Tokyo")
    collected = pd.to_datetime(sessions["geholt"], format="%d.%m.%Y %H:%M:%S").dt.tz_localize("Europe/Berlin")
    wanted = [
        (session, item, "after" if ts > collected[session] else "before")
        for person, item, ts in zip(events["Kundin"], events["Artikel"], at, strict=True)
        for session in sessions.index[sessions["Kundin"] == person]
        if abs(ts - collected[session]) <= pd.Timedelta(days=7)
    ]
    assert len(wanted) > len(events)
    assert sorted(found.behaviour[["session_id", "item_id", "phase"]].itertuples(index=False, name=None)) == sorted(
        wanted
    )
    strangers = changed(company, tmp_path, behaviour, koerbe=events.assign(Kundin="nobody"))
    with pytest.raises(InvalidInput, match="no event is of a person who collected"):
        map_sessions(read_mapping(strangers))


def test_carts_and_redemptions_of_sessions_that_are_left_out_are_left_out_too(company: Path, tmp_path: Path) -> None:
    """Some sessions have no voucher: their rows go, and nothing else."""
    whole, _ = map_sessions(read_mapping(company))
    sessions = frame_of(company, "geholt")
    session = yaml.safe_load(company.read_text())["tables"]["session"]
    none = sessions["Vorgang"].isin(whole.behaviour["session_id"].unique()[:40])
    named = session["columns"]["voucher_id"]
    emptied = sessions.assign(**{named: sessions[named].where(~none)})
    kept = {"session": session | {"where": f'"{named}" IS NOT NULL'}}
    found, _ = map_sessions(read_mapping(changed(company, tmp_path, kept, geholt=emptied)))
    gone = set(sessions.loc[none, "Vorgang"])
    assert whole.session.loc[whole.session["session_id"].isin(gone), "redeemed_at"].notna().any()
    for left, right in ((found.session, whole.session), (found.behaviour, whole.behaviour)):
        wanted = right[~right["session_id"].isin(gone)].reset_index(drop=True)
        pd.testing.assert_frame_equal(left, wanted)
    assert len(found.behaviour) < len(whole.behaviour)


def test_init_proposes_a_mapping_that_gives_the_same_sessions(
    company: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = {"vouchers": "geholt", "offers": "scheine", "outcomes": "eingeloest", "behaviors": "koerbe"}
    files = [f"--{kind}={company.parent / name}.csv" for kind, name in kinds.items()]
    assert main(["init", str(tmp_path), *files, "--currency", "EUR", "--timezone", "Europe/Berlin"]) == 0
    proposed = tmp_path / "mapping.yaml"
    # The zone of the carts stands nowhere in their file: that line is one to check.
    proposed.write_text(proposed.read_text().replace("ts: wann #", "ts: {column: wann, timezone: Asia/Tokyo} #"))
    wanted, found = (map_sessions(read_mapping(path), outside=True)[0] for path in (company, proposed))
    pd.testing.assert_frame_equal(found.behaviour, wanted.behaviour)
    names = [name for name in wanted.session if not name.startswith(("x_", "c_"))]
    pd.testing.assert_frame_equal(found.session[names], wanted.session[names])
    assert set(found.session) == set(wanted.session)
    capsys.readouterr()
    assert main(["check", str(proposed), "--outside"]) == 0
    assert "none is a control" in " ".join(capsys.readouterr().out.split())
    assert main(["init", str(tmp_path / "new"), *files, "--trials", "x.csv"]) == 2


def test_faults_of_a_voucher_log_name_the_companys_files(company: Path, tmp_path: Path) -> None:
    collected = frame_of(company, "geholt")
    collected.loc[7, "geholt"] = "gestern"
    with pytest.raises(InvalidTable, match=r"geholt\.csv, column 'geholt'.*'gestern'.*line 9"):
        load("vouchers", str(changed(company, tmp_path, {}, geholt=collected)))
    used = frame_of(company, "eingeloest")
    used.loc[0, "Vorgang"] = "s-none"
    with pytest.raises(InvalidInput, match=r"outcome.*'s-none' is no session_id"):
        load("vouchers", str(changed(company, tmp_path, {}, eingeloest=used)))
    terms = frame_of(company, "scheine")
    with pytest.raises(InvalidInput, match=r"offer.*'v\d+' stands twice"):
        load(
            "vouchers",
            str(
                changed(
                    company,
                    tmp_path,
                    {},
                    eingeloest=frame_of(company, "eingeloest"),
                    scheine=pd.concat([terms, terms.head(1)]),
                )
            ),
        )
    with pytest.raises(InvalidTable, match=r"geholt\.csv, column 'Gutschein'.*\[session.discount\]"):
        load("vouchers", str(changed(company, tmp_path, {}, scheine=terms.tail(-1))))
    with pytest.raises(InvalidInput, match="label: is needed, or redeemed_at"):
        load("vouchers", str(changed(company, tmp_path, {"outcome": None})))
    with pytest.raises(InvalidInput, match=r"exposure.*no tables; there are session"):
        read_mapping(changed(company, tmp_path, {"exposure": {"from": "geholt"}}))
    with pytest.raises(InvalidInput, match="name the data set vouchers"):
        load("mapping", str(company))


def test_the_mapping_names_its_data_set_and_files(company: Path, tmp_path: Path) -> None:
    assert dataset_of(company) == "vouchers"
    assert dataset_of(Path("docs/examples/mapping/mapping.yaml")) == "mapping"
    assert dataset_of(tmp_path) == "tables"
    files = input_files("vouchers", str(company), {})
    assert {file.name for file in files} == {
        "mapping.yaml",
        "geholt.csv",
        "scheine.csv",
        "eingeloest.csv",
        "koerbe.csv",
    }
    np.testing.assert_allclose(accounts_in("vouchers", str(company), {}), SESSIONS, rtol=0.05)
    campaign = campaign_from_tables(load("vouchers", str(company), budget=500, campaign="herbst").tables)
    assert (campaign.name, campaign.budget.limit, campaign.expected_requests) == ("herbst", 500, 2000)
