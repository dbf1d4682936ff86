"""``shadowprice check`` reads a user's files and lists every fault in their words."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import cli.main as command
from shadowprice.datasets import load
from shadowprice.datasets.folder import write_tables

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


@pytest.mark.parametrize("place", ["mapping/mapping.yaml", "tables"])
def test_good_files_are_counted(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", str(EXAMPLES / place), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"]
    lines = {"mapping/mapping.yaml": ("gutscheine.csv", "summer"), "tables": ("exposure.csv", None)}[place]
    file, campaign = lines
    assert found["rows"]["exposure"] == len((EXAMPLES / place.split("/")[0] / file).read_text().splitlines()) - 1
    assert campaign in (found["campaign"], None)


def test_the_table_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    place = str(EXAMPLES / "mapping" / "mapping.yaml")
    assert command.main(["check", place]) == 0
    shown = capsys.readouterr().out
    assert "5,200" in shown
    assert "levels of customers: €0.00, €2.50, €5.00, €10.00" in shown
    assert f"shadowprice run {place}" in shown.replace("\n", "")


def test_the_trial_is_shown_before_anything_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    place = str(EXAMPLES / "mapping" / "mapping.yaml")
    assert command.main(["check", place]) == 0
    shown = capsys.readouterr().out
    assert "rows of customers: offers 5,200, learned from and judged on 5,200" in shown
    assert "Identified: the response rises with the incentive. At €10.00 42.9 % responded" in shown
    log = pd.read_csv(EXAMPLES / "mapping" / "gutscheine.csv", sep=";", decimal=",")
    rate = (log["eingelöst"] == "ja").groupby(log["Wert"]).mean()
    assert f"│ €2.50     │ {100 * rate[2.5]:.1f} %" in shown
    assert f"+{100 * (rate[5.0] - rate[0.0]):.1f} points" in shown
    assert command.main(["check", place, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    customer = found["evidence"]["customer"]
    assert customer["verdict"] == "identified"
    assert [each["response"]["value"] for each in customer["levels"]] == pytest.approx(rate.tolist())
    assert set(customer) >= {"trend_p", "sample_ratio_p", "balance", "sentence", "weighted", "clusters"}
    assert found["learned_from"]["sides"]["customer"] == {
        "offers": 5200,
        "waiting": 0,
        "no_outcome": 0,
        "not_drawn": 0,
        "no_profile": 0,
        "purged": 0,
        "learned": 5200,
    }


def test_a_trial_with_other_shares_for_each_account_is_to_be_learned_with_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(load("promotion", seed=2, rows=3000, features=(3,), levels=(0, 50, 100), bias=1.0).tables, tmp_path)
    assert command.main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.replace("\n", "").endswith(f"shadowprice run {tmp_path} --weighting known")


def test_a_side_without_an_identified_effect_is_said_not_to_pass_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", str(EXAMPLES / "tables")]) == 0
    shown = capsys.readouterr().out
    assert "Not identified: the log does not show that the incentive raises the response." in shown
    assert shown.count("A model of this side does not pass the gate.") == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("propensity: {constant: 0.25}", "propensity: {constant: 0.4}", "add up to 1.6, not to 1"),
        (
            "snapshot_ts: {constant: 2026-03-01}",
            "snapshot_ts: {constant: 2026-03-20}",
            "see no profile of their account",
        ),
    ],
)
def test_files_that_mislead_a_model_end_with_1_and_the_figures(
    old: str, new: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(EXAMPLES / "mapping", tmp_path / "files")
    mapping = folder / "mapping.yaml"
    assert old in mapping.read_text()
    mapping.write_text(mapping.read_text().replace(old, new))
    assert command.main(["check", str(mapping)]) == 1
    assert reason in capsys.readouterr().err
    assert command.main(["check", str(mapping), "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert reason in problem["reason"]


def test_faults_are_printed_without_a_traceback_and_the_status_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(EXAMPLES / "mapping", tmp_path / "files")
    coupons = folder / "gutscheine.csv"
    coupons.write_text(coupons.read_text().replace(";ja\n", ";JA\n", 1))
    assert command.main(["check", str(folder / "mapping.yaml")]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("shadowprice check: the files cannot be used")
    assert "gutscheine.csv, column 'eingelöst': is not a whole number; got 'JA'" in shown.err
    assert "Traceback" not in shown.err
    assert command.main(["check", str(folder / "mapping.yaml"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["valid"]
    assert {problem["table"] for problem in found["problems"]} == {"gutscheine.csv"}


def test_a_wrong_option_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", "--jsn"]) == 2
    assert "No such option" in capsys.readouterr().err
