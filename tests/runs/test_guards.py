"""A trial with complaints from one CSV file to a replayed day whose decisions keep a limit on mean or sum."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from operations.common.workspace import MODEL, PRICES
from shadowprice.pacing.price_store import PriceStore
from shadowprice.responses.layers.heads import load_heads

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
USED, COMPLAINTS, LIMIT = np.array([0.1, 0.2, 0.3]), np.array([0.02, 0.04, 0.12]), 0.05
SUM = 6.0
MAPPING = """
currency: USD
timezone: UTC
sources:
  trials: {file: trials.csv, delimiter: ","}
campaign:
  campaign_id: calm
  starts_at: 2026-05-26
  hours: 24
  budget_name: incentives
  budget_form: total
  budget_limit: 500
  cost_basis_customer: on_response
  policy: flat
  limits: '{"budgets": [BUDGET]}'
tables:
  exposure:
    from: trials
    columns:
      account_id: customer
      request_id: {row: R}
      decided_at: sent
      face_value: discount
      propensity: {constant: 0.333333}
  outcome:
    from: trials
    columns:
      request_id: {row: R}
      observed_at: {column: sent, plus_days: 7}
      mature: {constant: "true"}
      redeemed: used
      cost_paid: {expression: "used::INT * discount::DOUBLE"}
      x_complaints: complaints
"""


@pytest.mark.parametrize(
    "budget",
    [
        {"name": "calm", "limit": LIMIT, "form": "per_account", "outcome": "x_complaints"},
        {"name": "calm", "limit": SUM, "outcome": "x_complaints"},
    ],
    ids=["mean", "sum"],
)
def test_a_limit_on_complaints_is_learned_priced_kept_and_reported(tmp_path: Path, budget: dict[str, object]) -> None:
    dice, n = np.random.default_rng(5), 3000
    level = dice.integers(0, 3, n)
    sent = pd.Timestamp("2026-05-01") + pd.to_timedelta(dice.integers(0, 600, n), unit="h")
    columns = {"customer": [f"c{place}" for place in range(n)], "sent": sent, "discount": np.array([0, 5, 10])[level]}
    drawn = {
        name: (dice.random(n) < chance[level]).astype(int)
        for name, chance in (("used", USED), ("complaints", COMPLAINTS))
    }
    pd.DataFrame(columns | drawn).to_csv(tmp_path / "trials.csv", index=False)
    (tmp_path / "mapping.yaml").write_text(MAPPING.replace("BUDGET", json.dumps(budget)))
    words = ("run", tmp_path / "mapping.yaml", "--runs", tmp_path / "runs", "--workers", 0, "--epochs", 2)
    command = [sys.executable, "-W", "ignore", "-m", "shadowprice", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    run = (tmp_path / "runs" / "latest").resolve()

    model = (run / MODEL).resolve()
    known = load_heads(model)["customer"].guards["x_complaints"]
    mean = pd.DataFrame(drawn).groupby(level)["complaints"].mean()
    np.testing.assert_allclose(known, mean, rtol=0.2)
    kept = json.loads((model / "model.json").read_text())["outcomes"]["customer"]["x_complaints"]
    assert all(low < value < high for value, low, high in kept)

    price = PriceStore(run / PRICES).latest("calm")
    assert price is not None
    # The money would pay for the highest discount of all; the complaints do not allow it.
    assert price.prices["incentives"] == 0
    assert price.prices["calm"] > 0
    with sqlite3.connect(f"file:{run / 'replay-ledger.db'}?mode=ro", uri=True) as ledger:
        chosen = pd.read_sql("SELECT level FROM decision", ledger)["level"].to_numpy()
    assert len(set(chosen)) > 1
    page = (run / "report.html").read_text()
    assert "x_complaints of all requests" in page
    if "form" in budget:
        assert price.plans["calm"][-1] == pytest.approx(LIMIT * price.expected, rel=5e-3)
        assert known[chosen].mean() == pytest.approx(LIMIT, abs=0.012)
        assert "0.05 a request" in page
        return
    assert price.plans["calm"][-1] == pytest.approx(SUM, rel=0.02)
    assert known[chosen].sum() == pytest.approx(SUM, rel=0.05)
    # The report shows the sum that was decided.
    assert f"<td>{known[chosen].sum():.3g}" in page
