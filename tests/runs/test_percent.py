"""A trial of percentages from one CSV file to a replayed day, by the commands that a user types."""

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from snippets import ROOT, Machine, blocks_of, follow

from operations.common.workspace import MODEL, read_campaign
from shadowprice.campaign import Percent
from shadowprice.responses.layers.heads import load_heads

pytestmark = pytest.mark.timeout(900)

QUERY = """SELECT level, incentive, d.response AS predicted, expected_cost, o.cost AS cost
    FROM decision AS d JOIN outcome AS o ON o.request_id = d.request_id"""
MEAN, DEVIATION = np.log(4500), 0.7
"""Logarithms of the orders of the example, in cents."""


@dataclass(frozen=True)
class Done:
    run: Path
    summary: dict[str, Any]


@pytest.fixture(scope="module")
def done(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The guide, from its first line to the run."""
    folder = tmp_path_factory.mktemp("percent")
    (folder / "docs").symlink_to(ROOT / "docs")
    told = follow(blocks_of(ROOT / "docs/how-to/offer-a-percentage.md"), folder, machine, {})
    assert "20 % up to $10.00 from $30.00" in told
    run = (folder / "runs" / "latest").resolve()
    return Done(run, json.loads((run / "summary.json").read_text()))


def test_the_model_knows_the_amounts_of_the_orders(done: Done) -> None:
    terms = read_campaign(done.run).terms("customer")
    assert terms.percent == (None, Percent(share=10.0), Percent(share=20.0, least=3000))
    known = load_heads((done.run / MODEL).resolve())["customer"].amounts(np.zeros((1, 1), dtype=np.float32))
    assert known is not None
    # About 400 orders: three standard errors.
    np.testing.assert_allclose(known[:, 0, 0], [MEAN, DEVIATION], atol=0.12)


def test_the_ledger_held_the_caps_and_captured_what_orders_cost(done: Done) -> None:
    campaign = read_campaign(done.run)
    with sqlite3.connect(f"file:{done.run / 'replay-ledger.db'}?mode=ro", uri=True) as ledger:
        rows = pd.read_sql(QUERY, ledger)
    terms = campaign.terms("customer")
    assert rows["incentive"].tolist() == [terms.amounts[level] for level in rows["level"]]
    paid = rows[rows["cost"] > 0]
    assert len(paid)
    assert (paid["cost"] <= paid["incentive"]).all()
    # Neither all caps nor all nothing: orders differ.
    assert paid["cost"].nunique() > 3
    assert done.summary["pacing"]["overspend"] == 0
    assert 0 < done.summary["pacing"]["spend"] <= campaign.budget.limit
    # The answers expected the payment, which is well below the cap.
    known = load_heads((done.run / MODEL).resolve())["customer"].amounts(np.zeros((1, 1), dtype=np.float32))
    unit = terms.expected_unit_costs(known)[:, 0]
    assert unit[2] < 800
    np.testing.assert_allclose(rows["expected_cost"], unit[rows["level"]] * rows["predicted"], rtol=1e-6)


def test_pages_name_a_level_by_its_terms(done: Done) -> None:
    assert "20 % up to $10.00 from $30.00" in (done.run / "report.html").read_text()
