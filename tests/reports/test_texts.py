import dataclasses

import pytest

from shadowprice.evaluation import Estimate
from shadowprice.evaluation.uplift.balance import Balance
from shadowprice.reports.data import SideReport
from shadowprice.reports.texts import (
    evaluation_markdown,
    evaluation_metrics,
    evidence_facts,
    evidence_notes,
    evidence_table,
)


def tables(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]


def test_the_evaluations_markdown_holds_gate_metrics_levels_and_change_points(example):
    text = evaluation_markdown(example.sides, example.gate)
    assert text.count("(simulated responses)") == 2
    assert "**Gate: passed.**" in text
    assert "| joint graph network | 0.8312 [0.8251, 0.8373] |" in text
    assert "$0.80" in text
    assert len(tables(text)) == 5


def test_the_evidence_stands_before_the_gate_in_the_markdown(example):
    text = evaluation_markdown(example.sides, example.gate, example.currency, example.evidence)
    assert text.index("The sentence of customers.") < text.index("The sentence of merchants.") < text.index("**Gate")
    each = example.evidence[0].levels[2]
    assert f"| $5.00 | {100 * each.response.value:.1f} % [" in text
    assert f"+{100 * each.difference.value:.1f} points [{100 * each.difference.low:.1f}, " in text
    assert f"| ${each.cost_each.value / 100:.2f} [" in text


def test_a_level_without_a_cost_of_one_extra_response_has_its_reason(example):
    found = example.evidence[1]
    assert found.verdict == "not identified"
    assert evidence_table(found, example.currency)[1][1][3] == "–"
    assert evidence_notes(found, example.currency) == [
        "No cost of one extra response at $3.00: the extra responses may be none."
    ]
    assert evidence_notes(example.evidence[0], example.currency) == []


def test_the_tests_of_a_trial_are_told_with_their_result(example):
    found = example.evidence[0]
    assert evidence_facts(found)["Test of trend"].startswith("p < 0.001")
    assert evidence_facts(found)["Shares are those planned"].startswith("yes, p = ")
    mixed = dataclasses.replace(
        found, sample_ratio_p=1e-9, weighted=True, balance=Balance(3, "age", -0.31, 0.0002, 500), trend_p=None
    )
    facts = evidence_facts(mixed)
    assert facts["Shares are those planned"] == "no, p < 0.001"
    assert facts["Accounts were alike before"].startswith("no, p < 0.001; 3 features, most different: age (−0.31")
    assert "weighted by inverse propensity" in facts["Rows"]
    assert "Test of trend" not in facts


def test_every_table_of_the_markdown_has_as_many_cells_in_each_line(example):
    for lines in tables(evaluation_markdown(example.sides, example.gate, None, example.evidence)):
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_hostile_names_neither_break_a_table_nor_become_html():
    evil = "a|b\n<script>"
    text = evaluation_markdown([SideReport(side="customer", metrics={evil: {"auc": 0.9}})])
    assert "<script>" not in text
    assert "| a\\|b &lt;script> | 0.9 |" in text


def test_the_metrics_are_flat_numbers_of_the_model_in_use(example):
    flat = evaluation_metrics(example.sides)
    assert flat["customer_auc"] == 0.8312
    assert flat["customer_auc_low"] == 0.8251
    assert flat["customer_rpr"] == 0.0
    assert flat["merchant_mse_high"] == 0.087
    assert all(isinstance(value, float) for value in flat.values())
    assert evaluation_metrics([SideReport(side="customer")]) == {}


def test_an_estimate_counts_three_numbers():
    side = SideReport(side="merchant", metrics={"m": {"mae": Estimate(0.2, 0.1, 0.3)}})
    assert evaluation_metrics([side]) == pytest.approx(
        {"merchant_mae": 0.2, "merchant_mae_low": 0.1, "merchant_mae_high": 0.3}
    )
