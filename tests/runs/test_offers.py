"""A randomized e-mail of three arms, from CSV to a served decision, by the commands that a user types."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from snippets import ROOT, Machine, blocks_of, follow

from benchmarks.trials import TrialFiles, draw
from operations.common.workspace import MODEL, read_campaign
from serving.client.client import LedgerClient, Outcome
from serving.local.launch import free_port
from shadowprice.decision import decide
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import load_heads

pytestmark = pytest.mark.timeout(1500)

COMMAND = [sys.executable, "-W", "ignore", "-m", "shadowprice"]
NAMES = ["No E-Mail", "Mens E-Mail", "Womens E-Mail"]


def shadowprice(*words: object) -> str:
    # Wide enough that no name is broken.
    wide = os.environ | {"COLUMNS": "200"}
    done = subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, cwd=ROOT, env=wide, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@dataclass(frozen=True)
class Served:
    trial: TrialFiles
    run: Path
    summary: dict[str, Any]
    checked: str
    port: int

    def url(self, service: int) -> str:
        return f"http://127.0.0.1:{self.port + service}"


@pytest.fixture(scope="module")
def served(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The guide, from its first line to the run, and the services of the run."""
    folder = tmp_path_factory.mktemp("email")
    checked = follow(blocks_of(ROOT / "docs/how-to/offer-without-an-amount.md"), folder, machine, {})
    trial = draw("email", seed=1, accounts=4000, effect=2.0)
    run = (folder / "runs" / "latest").resolve()
    summary = json.loads((run / "summary.json").read_text())
    port = free_port()
    words = [*COMMAND, "serve", str(run), "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert any("Ctrl-C" in line for line in iter(process.stdout.readline, ""))
            yield Served(trial, run, summary, checked, port)
        finally:
            process.terminate()


def test_the_check_names_the_offers_and_the_control(served: Served) -> None:
    assert (
        "No E-Mail 0 offers, Mens E-Mail 1 offer, Womens E-Mail 1 offer; they have no order, and the first is"
        in " ".join(served.checked.split())
    )


def test_the_day_counts_offers_within_its_budget(served: Served) -> None:
    campaign, who = read_campaign(served.run), pd.read_csv(served.run / "who_got_what.csv")
    assert served.summary["currency"] == "offers"
    assert served.summary["pacing"]["budget"] == campaign.budget.limit
    assert served.summary["pacing"]["overspend"] == 0
    given = who.loc[who["level"] > 0, "requests"].sum()
    assert served.summary["pacing"]["spend"] == given == who["paid_minor_units"].sum()
    assert given <= campaign.budget.limit
    assert served.summary["serve"]["errors"] == 0
    assert set(who["level"].dropna()) == {0, 1, 2}


def test_the_report_has_names_and_no_money(served: Served) -> None:
    page = "".join((served.run / name).read_text() for name in ("report.html", "summary.html"))
    text = " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)).split())
    assert all(name in text for name in NAMES)
    assert "of its budget of" in text
    assert "offers" in text
    assert "$" not in text
    assert "lowest incentive" not in text


def test_the_service_answers_with_the_offer_that_model_and_price_choose(served: Served) -> None:
    campaign = read_campaign(served.run)
    people = [str(each) for each in served.trial.people["customer"][:200]]
    requests = [f"asked-{name}" for name in people]
    body = {
        "instances": [
            {"request_id": request, "account_id": name, "side": "customer"}
            for request, name in zip(requests, people, strict=True)
        ]
    }
    answer = httpx.post(f"{served.url(0)}/v1/models/{campaign.name}:predict", json=body, timeout=30).json()
    found = answer["predictions"]
    price = max((served.run / "prices" / campaign.name).glob("*.json"))
    record = PriceRecord.from_json(price.read_text())
    assert answer["price_version"] == record.version
    stored = pd.read_parquet(served.run / MODEL / EMBEDDINGS).set_index("account_id")["embedding"].loc[people]
    response = load_heads(served.run / MODEL)["customer"].response(np.stack(stored.to_list()).astype(np.float32))
    terms = campaign.terms("customer")
    wanted = decide(
        terms.value(response),
        campaign.charges("customer", response),
        record.of(campaign.priced),
        record.tie_share,
        requests,
    )
    assert [each["level"] for each in found] == wanted.level.tolist()
    assert [each["offer_id"] for each in found] == [NAMES[level] for level in wanted.level]
    assert {each["incentive"] for each in found} == {0}
    assert [each["expected_cost"] for each in found] == [float(level > 0) for level in wanted.level]
    # Who bought women's goods before is offered them more often.
    womens = served.trial.people["womens"].to_numpy()[:200] == 1
    offered = wanted.level == 2
    assert offered[womens].mean() > offered[~womens].mean()


def test_the_ledger_counts_what_was_given_and_the_console_names_it(served: Served) -> None:
    campaign = read_campaign(served.run)
    (name,) = served.trial.people["customer"][300:301].astype(str)
    body = {"instances": [{"request_id": "one", "account_id": name, "side": "customer"}]}
    (made,) = httpx.post(f"{served.url(0)}/v1/models/{campaign.name}:predict", json=body).json()["predictions"]
    cost = int(made["level"] > 0)
    with LedgerClient(served.url(1)) as ledger:
        held = ledger.totals()["outstanding"]
        outcome = Outcome(request_id="one", cost=cost, observed_at=datetime.now(UTC), redeemed=False)
        ledger.settle([outcome], source="mailer")
        totals = ledger.totals()
    assert (totals["outstanding"], totals["net_spent"]) == (held - cost, cost)
    told = shadowprice("explain", name, "--campaign", campaign.name, "--url", served.url(0), "--request-id", "two")
    assert all(offer in told for offer in NAMES)
    page = httpx.get(f"{served.url(2)}/campaigns/{campaign.name}").text
    assert "Mens E-Mail (costs 1 offer)" in page
    assert "λ per offer" in page
    assert "$" not in page


def test_the_ratios_of_a_matching_gift_run_from_files_to_a_report(tmp_path: Path) -> None:
    """Offers without an amount that ascend: ``init`` takes the ratio for an amount, and the user names the offers."""
    files = draw("gift", seed=1, accounts=2000, effect=12.0).write(tmp_path)
    mapping = tmp_path / "mapping.yaml"
    shadowprice("init", tmp_path, "--trials", files["offers"], "--customers", files["people"])
    offers = '{column: match_ratio, values: {0: no match, 1: "1:1", 2: "2:1", 3: "3:1"}}'
    costs = "{column: match_ratio, values: {0: 0, 1: 20, 2: 40, 3: 60}}"
    own, count = re.subn(
        r"( +)face_value: match_ratio # CHECK.*\n",
        rf"\1offer_id: {offers}\n\1cost: {costs}\n\1order_index: match_ratio\n",
        mapping.read_text(),
    )
    assert count == 1
    own = re.sub(r"budget_limit: \d+", "budget_limit: 90\n  ordered_customer: true", own)
    mapping.write_text(own)
    options = ("--runs", tmp_path / "runs", "--workers", 0, "--epochs", 10, "--no-beat-uniform", "--json")
    found = json.loads(shadowprice("run", mapping, *options))
    campaign = read_campaign(Path(found["run"]))
    terms = campaign.terms("customer")
    assert (terms.offers, terms.ordered) == (("no match", "1:1", "2:1", "3:1"), True)
    assert terms.unit_costs == (0, 2000, 4000, 6000)
    assert found["summary"]["pacing"]["overspend"] == 0
    assert "than no match for every request" in found["summary"]["worth"]["sentence"]
    page = (Path(found["run"]) / "report.html").read_text()
    assert "More than at no match" in page
    assert "lowest incentive" not in page
