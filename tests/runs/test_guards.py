"""A trial with complaints from one CSV file to a replayed day whose decisions keep limits on mean and sum."""

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
USED, COMPLAINTS = np.array([0.1, 0.2, 0.3]), np.array([0.02, 0.04, 0.12])
SUM, LOOSE = 6.0, 0.2
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
  limits: '{"budgets": BUDGETS}'
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


def test_limits_on_complaints_are_learned_priced_kept_and_reported(tmp_path: Path) -> None:
    budgets = [
        {"name": "calm", "limit": SUM, "outcome": "x_complaints"},
        {"name": "wide", "limit": LOOSE, "form": "per_account", "outcome": "x_complaints"},
    ]
    dice, n = np.random.default_rng(5), 3000
    level = dice.integers(0, 3, n)
    sent = pd.Timestamp("2026-05-01") + pd.to_timedelta(dice.integers(0, 600, n), unit="h")
    columns = {"customer": [f"c{place}" for place in range(n)], "sent": sent, "discount": np.array([0, 5, 10])[level]}
    drawn = {
        name: (dice.random(n) < chance[level]).astype(int)
        for name, chance in (("used", USED), ("complaints", COMPLAINTS))
    }
    pd.DataFrame(columns | drawn).to_csv(tmp_path / "trials.csv", index=False)
    (tmp_path / "mapping.yaml").write_text(MAPPING.replace("BUDGETS", json.dumps(budgets)))
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
    assert price.prices["wide"] == 0
    value, low, high = price.outcomes["calm"].expected
    assert low < value < high
    assert price.outcomes["wide"].least[0] == pytest.approx(known.min())
    with sqlite3.connect(f"file:{run / 'replay-ledger.db'}?mode=ro", uri=True) as ledger:
        chosen = pd.read_sql("SELECT level FROM decision", ledger)["level"].to_numpy()
    assert len(set(chosen)) > 1
    page = (run / "report.html").read_text()
    assert "x_complaints of all requests" in page
    assert f"allowed {SUM:g}, expected {value:.3g} with 95 % interval [{low:.3g}, {high:.3g}]" in page
    assert f"{LOOSE} a request" in page
    assert price.plans["calm"][-1] == pytest.approx(SUM, rel=0.02)
    assert known[chosen].sum() == pytest.approx(SUM, rel=0.05)
    # The report shows the sum that was decided.
    assert f"<td>{known[chosen].sum():.3g}" in page
