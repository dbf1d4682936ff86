"""The job and the command that decide a list, as a plan."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from asked import LEVELS, make_head, make_workspace

from cli.decide import main
from operations.common.solver import Solver
from operations.common.workspace import CAMPAIGN
from operations.decide import DecideJob, run
from shadowprice.errors import InvalidInput
from shadowprice.lists.table import SCHEMA


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_workspace(tmp_path_factory.mktemp("workspace"))
    accounts = [*(f"m{i}" for i in range(500)), *(f"c{i}" for i in range(3999, 1999, -1))]
    frame = pd.DataFrame({"account": accounts, "side": ["merchant"] * 500 + ["customer"] * 2000})
    pd.concat([frame, frame.head(2)]).to_csv(folder / "accounts.csv", index=False)
    return folder


def test_a_plan_spends_the_budget_and_says_that_nothing_is_authorized(workspace: Path, tmp_path: Path) -> None:
    fields = {"accounts": workspace / "accounts.csv", "workspace": workspace, "summary": tmp_path / "list.md"}
    fields["budget"] = 200_000  # of a campaign with 150,000
    figures = run(DecideJob(**fields, out=tmp_path / "list.parquet", figures=tmp_path / "figures.json"))
    rows = pd.read_parquet(tmp_path / "list.parquet")
    assert list(rows) == SCHEMA.names
    assert 149_999 < rows["expected_cost"].sum() <= 150_000
    assert figures["used"] == pytest.approx(rows["expected_cost"].sum())
    assert (figures["accounts"], figures["repeated_rows"], figures["unknown_accounts"]) == (2500, 2, 0)
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    page = (tmp_path / "list.md").read_text()
    assert "This is a plan: nothing is authorized" in page
    assert "2 rows repeat an account" in page
    assert "The list was allowed $2,000.00, which is more than the campaign has in hand." in page
    assert not rows["authorized"].any()
    assert (rows["code"] == "").all()
    stored = Solver(workspace).samples["customer"].response
    customers = rows[rows["side"] == "customer"]
    at = customers["account_id"].str[1:].astype(int).to_numpy()
    np.testing.assert_allclose(customers["response"], stored[customers["level"], at], rtol=1e-6)
    assert (customers["incentive"] == np.array(LEVELS["customer"])[customers["level"]]).all()
    assert customers["offer_id"].tolist() == [f"customer-{amount}" for amount in customers["incentive"]]


def test_the_command_takes_an_amount_in_the_currency_and_writes_csv(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(workspace / "accounts.csv"), "--campaign", str(workspace), "--out", str(tmp_path / "list.csv")]
    assert main([*arguments, "--budget", "250.00", "--no-ledger", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    rows = pd.read_csv(tmp_path / "list.csv", keep_default_na=False)
    assert 24_999 < rows["expected_cost"].sum() <= 25_000
    assert figures["left"] == 25_000
    assert main([*arguments, "--list", "no/name"]) == 1
    assert "letters, digits" in capsys.readouterr().err


def test_accounts_that_the_model_does_not_have_are_decided_as_the_service_does(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reader:
        """A store that has the embedding of one new account."""

        def embeddings(self, side, names):
            found = np.full((len(names), 8), np.nan, dtype=np.float32)
            found[[name == "new" for name in names]] = 1.0
            return found, np.zeros(len(names))

    monkeypatch.setattr(Solver, "_reader", Reader())
    path = tmp_path / "accounts.csv"
    pd.DataFrame({"account_id": ["c1", "new", "stranger"], "side": "customer"}).to_csv(path, index=False)
    figures = run(DecideJob(accounts=path, workspace=workspace, out=tmp_path / "list.parquet", budget=10))
    rows = pd.read_parquet(tmp_path / "list.parquet").set_index("account_id")
    assert (rows["reason"] == "cold_start").to_dict() == {"c1": False, "new": False, "stranger": True}
    assert figures["unknown_accounts"] == 1
    head = make_head(LEVELS["customer"], 0)
    curves = head.response(np.stack([np.ones(8), head.default_embedding]).astype(np.float32))
    assert rows.loc["new", "response"] == pytest.approx(curves[rows.loc["new", "level"], 0])
    assert rows.loc["stranger", "response"] == pytest.approx(curves[rows.loc["stranger", "level"], 1])


def test_a_delivery_and_a_mean_are_refused_by_name(workspace: Path, tmp_path: Path) -> None:
    campaign = json.loads((workspace / CAMPAIGN).read_text())
    campaign["budget"] |= {"form": "per_account", "limit": 20}
    other = make_workspace(tmp_path)
    (other / CAMPAIGN).write_text(json.dumps(campaign))
    job = {"accounts": workspace / "accounts.csv", "workspace": other, "out": tmp_path / "list.parquet"}
    with pytest.raises(InvalidInput, match="mean has no amount"):
        run(DecideJob(**job, budget=100))
    figures = run(DecideJob(**job))
    rows = pd.read_parquet(tmp_path / "list.parquet")
    assert 20 * len(rows) - 1 < rows["expected_cost"].sum() <= 20 * len(rows) + 1e-6
    assert figures["planned"] == pytest.approx(20 * len(rows))
