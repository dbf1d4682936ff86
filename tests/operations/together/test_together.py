"""Lift of all campaigns together, against the accounts that none of them treats."""

import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from served_log import CAMPAIGN, TRUTH, write_log

import cli.main as command
from operations.questions.together import REST, together
from shadowprice.arms import COMPANY, Experiment, Holdout
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.experiments import lift

OUT = Holdout(key="company", share=2000)
NAMES = [f"a{number}" for number in range(1500)]
HELD = OUT.holds(NAMES)


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[pd.DataFrame], Path]:
    """Two campaigns, one with arms of its own and one whose services got the holdout late; and a list of accounts."""
    root, runs, rows = tmp_path_factory.mktemp("company"), [], []
    for number, (name, test, early) in enumerate((("spring", CAMPAIGN.experiment, 0.0), ("summer", None, 60.0))):
        campaign = replace(CAMPAIGN, name=name, holdout=OUT, experiment=test)
        save(campaign, root / name)
        (root / name / "served").mkdir()
        found = write_log(root / name / "served" / "ledger", campaign=campaign, seed=number, early=early)
        runs.append(root / name)
        rows.append(found)
    accounts = root / "accounts.parquet"
    pd.DataFrame({"account_id": NAMES}).to_parquet(accounts)
    return runs, rows, accounts


def save(campaign: Campaign, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "campaign.json").write_text(json.dumps(campaign.to_dict()))


def test_the_sums_of_an_account_over_all_campaigns_are_compared(company, capsys: pytest.CaptureFixture[str]) -> None:
    """Against Welch's test on sums by hand; both campaigns hold the same accounts."""
    runs, rows, accounts = company
    first, second = rows
    early = OUT.holds(second["account_id"].tolist()) & (second["arm"] != COMPANY)
    late = second[second["hour"] > second.loc[early, "hour"].max()]
    for served in (first, late):
        assert ((served["arm"] == COMPANY) == OUT.holds(served["account_id"].tolist())).all()
    arguments = ["portfolio", "lift", *map(str, runs), "--accounts", str(accounts), "--mature-hours", "0"]
    assert command.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sums = {
        column: pd.concat([first, late]).groupby("account_id")[column].sum().reindex(NAMES, fill_value=0).to_numpy()
        for column in ("value", "cost")
    }
    for column, total in sums.items():
        welch = stats.ttest_ind(total[~HELD], total[HELD], equal_var=False)
        interval, given = welch.confidence_interval(), found["lift"][column]
        assert given["value"] == pytest.approx(total[~HELD].mean() - total[HELD].mean(), rel=1e-9)
        assert [given["low"], given["high"]] == pytest.approx([interval.low, interval.high], rel=1e-3)
        parts = sum(own[column]["value"] for own in found["by"].values())
        assert given["value"] == pytest.approx(parts, rel=1e-9)
        told = found["forgone" if column == "value" else "saved"]
        assert told[0] == pytest.approx(HELD.sum() * given["value"], rel=1e-9)
    assert (found["held"], found["accounts"]) == (HELD.sum(), 1500)
    assert found["left_out"] == {"spring": 0, "summer": len(second) - len(late)}
    truth = TRUTH[1] - 0.5 * TRUTH[0]
    assert found["by"]["summer"]["value"]["value"] == pytest.approx(truth * len(late) / 1500, rel=0.2)
    assert command.main(arguments) == 0
    told = capsys.readouterr().out
    assert f"The holdout has {HELD.sum()} of 1,500 accounts" in told
    assert "are left out, from before its services had the holdout" in told


def test_without_money_the_value_of_it_is_not_known(
    company, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, _, accounts = company
    arguments = ["portfolio", "lift", *map(str, runs), "--accounts", str(accounts), "--mature-hours", "0"]
    for run in runs:
        log = copytree(run / "served" / "ledger", tmp_path / run.name)
        arguments += ["--log", f"{run.name}={log}"]
        for path in log.glob("outcomes-*"):
            table = pq.read_table(path)
            paid = pa.array([0] * len(table), pa.int64())
            pq.write_table(table.set_column(table.column_names.index("cost"), "cost", paid), path)
    assert command.main(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert not re.search(r"\b(nan|inf)\b", told)
    assert "not known" in told


@pytest.mark.parametrize(
    ("holdout", "words"),
    [(None, "'summer' is missing"), (replace(OUT, share=1500), "the same in all campaigns")],
)
def test_campaigns_repeat_one_holdout(company, tmp_path: Path, holdout: Holdout | None, words: str) -> None:
    runs, _, accounts = company
    other = tmp_path / "summer"
    save(replace(CAMPAIGN, name="summer", holdout=holdout), other)
    with pytest.raises(InvalidInput, match=words):
        together([runs[0], other], accounts=accounts)


def test_a_log_that_treats_the_holdout_and_a_list_of_treated_accounts_are_refused(company, tmp_path: Path) -> None:
    runs, _, accounts = company
    with pytest.raises(InvalidInput, match="has no model; give a file of all accounts"):
        together(runs, mature_hours=0)
    treated = tmp_path / "treated.parquet"
    pd.DataFrame({"account_id": [name for name, held in zip(NAMES, HELD, strict=True) if not held]}).to_parquet(treated)
    with pytest.raises(NotCertified, match="is not one of all accounts"):
        together(runs, accounts=treated, mature_hours=0)
    write_log(tmp_path / "log", campaign=replace(CAMPAIGN, holdout=OUT), early=1e9)
    with pytest.raises(InvalidInput, match="were treated until the end of its log"):
        together(runs, {"spring": tmp_path / "log"}, accounts, mature_hours=0)


def test_logs_that_are_all_young_name_the_option_that_takes_them(company, capsys: pytest.CaptureFixture[str]) -> None:
    runs, _, accounts = company
    arguments = ["portfolio", "lift", *map(str, runs), "--accounts", str(accounts), "--mature-hours"]
    assert command.main([*arguments, "100000"]) == 1
    assert "mature_hours: no decision of spring, summer is old enough" in capsys.readouterr().err.replace("\n", " ")
    # One campaign that began today does not stop the estimate of the others.
    assert command.main([*arguments, "0"]) == 0


def test_the_interval_covers_the_truth_and_an_effect_of_nothing() -> None:
    """Three campaigns with arms of their own salts; accounts differ in activity, and campaigns add up."""
    dice, covered, n = np.random.default_rng(4), {0.0: 0, 0.4: 0}, 600
    names, runs = [f"b{number}" for number in range(n)], 80
    tests = [Experiment(arms=CAMPAIGN.experiment.arms, salt=salt) for salt in ("one", "two", "three")]
    own = [test.arm_of(names) == "holdout" for test in tests]
    for seed in range(runs):
        held = Holdout(key=f"k{seed}", share=2000).holds(names)
        arm = np.where(held, COMPANY, REST)
        listed = pd.DataFrame({"account_id": names, "arm": arm})
        for effect in covered:
            active = dice.gamma(0.7, 2.0, n)
            frames = []
            for out in own:
                who = np.repeat(np.arange(n), dice.poisson(active))
                rate = 0.2 + effect * ~(held | out)[who]
                value = dice.random(who.size) < rate
                frames.append(pd.DataFrame({"account_id": np.array(names)[who], "arm": arm[who], "value": value}))
            rows = pd.concat(frames).assign(value=lambda table: table["value"].astype(float), cost=0.0)
            (found,) = lift(rows, COMPANY, listed)
            # An account not held is in the holdout of a campaign by that campaign's salt.
            truth = effect * 1.4 * sum((~held & ~out).sum() / (~held).sum() for out in own)
            covered[effect] += found.value.low <= truth <= found.value.high
    for count in covered.values():
        assert stats.binomtest(count, runs, 0.95).pvalue > 1e-3
