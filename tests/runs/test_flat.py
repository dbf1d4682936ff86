"""A user's trial whose model is refused is served as the flat policy; by choice the flat policy runs whole."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from bonus_trial import BUDGET, REQUESTS, write_trial
from scipy import optimize

from operations.common.workspace import MODEL, REPLAY_PRICES, read_campaign
from serving.local.launch import free_port
from shadowprice.curves import Curves
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.budgets.kept import KEPT
from shadowprice.pacing.price_store import PriceStore
from shadowprice.policy import flat_shares
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import load_heads

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-W", "ignore", "-m", "shadowprice"]
Run = tuple[Path, dict[str, Any]]


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Address of the predictor and of the console of ``shadowprice serve``, and what the command printed."""
    port = free_port()
    with subprocess.Popen(
        [*COMMAND, "serve", str(folder), "--port", str(port)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as services:
        try:
            assert services.stdout is not None
            told = []
            while not told or not told[-1].startswith("Ctrl-C"):
                told.append(services.stdout.readline())
                assert told[-1], told
            yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 2}", "".join(told)
        finally:
            services.terminate()


def ask(url: str, accounts: list[str]) -> list[dict[str, Any]]:
    rows = [{"request_id": f"r-{name}", "account_id": name, "side": "customer"} for name in accounts]
    answer = httpx.post(f"{url}/v1/models/bonus:predict", json={"instances": rows}, timeout=60)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


def words(console: str) -> str:
    """Page of the campaign without its style."""
    page = httpx.get(f"{console}/campaigns/bonus", timeout=60).text
    return re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)


def test_a_refused_run_ends_with_status_1_and_is_served_as_the_flat_policy(tmp_path: Path) -> None:
    trial = write_trial(tmp_path / "files", accounts=3000, effect=0)
    done = subprocess.run(
        [
            *COMMAND,
            *("run", str(tmp_path / "files" / "mapping.yaml"), "--runs", str(tmp_path / "runs")),
            *("--workers", "0", "--epochs", "20", "--beat-uniform"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    said = done.stderr.strip().splitlines()[-1]
    assert "the model did not pass the gate" in said
    (folder,) = (each for each in (tmp_path / "runs").iterdir() if not each.is_symlink())
    assert f"`shadowprice serve {folder}` serves the flat policy" in said
    page = (folder / "report.html").read_text()
    assert "serves the flat policy" in page
    meta = read_meta((folder / MODEL).resolve())
    assert meta["recipe"] == "flat"
    assert meta["instead_of"]["broken"]
    with served(folder) as (url, console, told):
        assert "the flat policy is served, because the gate refused model " in told
        assert "every customer €0.00, because no other level has an effect that the log shows" in told
        answers = ask(url, [*trial.people["person_id"].head(50), "somebody-new"])
        assert {each["incentive"] for each in answers} == {0}
        assert len({each["response"] for each in answers}) == 1
        assert "ended" not in words(console)


@pytest.fixture(scope="module")
def flat(quickstart: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on a trial with a strong effect, whose campaign has the policy ``flat``."""
    files = tmp_path_factory.mktemp("files")
    write_trial(files, accounts=3000, effect=8)
    mapping = files / "mapping.yaml"
    mapping.write_text(
        mapping.read_text().replace("  budget_name: bonuses\n", "  budget_name: bonuses\n  policy: flat\n")
    )
    return quickstart("--dataset", "mapping", "--data", str(mapping), "--workers", "0")


def best_mixture(files: pd.DataFrame) -> np.ndarray:
    """Chances of the levels with the most responses for the budget, by a linear program on the means by level."""
    amounts = np.sort(files["bonus"].str.replace(",", "").astype(float).unique())
    level = np.searchsorted(amounts, files["bonus"].str.replace(",", "").astype(float))
    means = (files["found_work"] == "yes").groupby(level).mean().to_numpy()
    assert (np.diff(means) > 0).all()
    found = optimize.linprog(
        -means, A_ub=[REQUESTS * amounts * means], b_ub=[BUDGET], A_eq=np.ones((1, means.size)), b_eq=[1.0]
    )
    return np.asarray(found.x)


def test_the_flat_policy_decides_the_best_flat_mixture_of_the_trials_means(flat: Run, tmp_path: Path) -> None:
    folder, summary = flat
    campaign = read_campaign(folder)
    assert campaign.policy == "flat"
    price = PriceRecord.from_json((folder / "price.json").read_text())
    heads = load_heads((folder / MODEL).resolve())
    curves = {side: Curves(each.levels, each.response(each.default_embedding[None])) for side, each in heads.items()}
    shares = flat_shares(campaign, curves, price.of(campaign.priced), price.tie_share)["customer"]
    trial = write_trial(tmp_path, accounts=3000, effect=8)
    np.testing.assert_allclose(shares, best_mixture(trial.offers), atol=1e-4)
    assert summary["solve"]["status"] == "optimal"
    assert summary["pacing"]["spend"] <= 100 * BUDGET
    assert "flat: the same chances for every account" in (folder / "report.html").read_text()


def test_the_prices_of_the_replayed_day_are_not_served(flat: Run) -> None:
    folder, summary = flat
    replayed, _ = PriceStore(folder / REPLAY_PRICES).history("bonus")
    assert len(replayed) == summary["pacing"]["price_updates"] + 1
    for before, record in pairwise(replayed):
        if record.status == KEPT:
            assert record.prices == before.prices
    assert KEPT in {record.status for record in replayed}
    assert PriceStore(folder / "prices").versions("bonus") == [1]
    opening = PriceRecord.from_json((folder / "price.json").read_text())
    assert (opening.version, opening.slot, opening.spent) == (1, -1, 0)
    with served(folder) as (url, console, told):
        assert "a window of 24 hours begins: nothing is spent" in told
        (answer,) = ask(url, ["100007"])
        assert answer["price_version"] == 2
        served_price = PriceStore(folder / "prices").read("bonus", 2)
        assert served_price.prices == pytest.approx(opening.prices, rel=1e-9)
        shown = re.sub(
            r"<style.*?</style>", "", httpx.get(f"{console}/campaigns/bonus", timeout=60).text, flags=re.DOTALL
        )
        assert "running" in shown
        assert "ended" not in shown
