from __future__ import annotations

import dataclasses

import pytest

from shadowprice.evaluation import Estimate
from shadowprice.reports.data import SideReport
from shadowprice.reports.report import write_report
from shadowprice.reports.texts import evaluation_markdown, evaluation_metrics


def tables(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]


def test_the_evaluations_markdown_holds_gate_metrics_levels_and_change_points(example):
    text = evaluation_markdown(example.sides, example.gate)
    assert text.count("(simulated responses)") == 2
    assert "**Gate: passed.**" in text
    assert "| joint graph network | 0.8312 [0.8251, 0.8373] |" in text
    assert "$0.80" in text
    assert len(tables(text)) == 5


def test_report_and_markdown_state_that_the_data_do_not_identify_the_effect(example, tmp_path):
    side = example.sides[0]
    open_slope = dataclasses.replace(side.slope, low=-1e-5)
    unclear = dataclasses.replace(side, slope=open_slope)
    sentence = "The effect of the incentive is not identified by this log"
    assert sentence in evaluation_markdown([unclear])
    assert sentence not in evaluation_markdown([dataclasses.replace(side, slope=None)])
    assert sentence not in evaluation_markdown(
        [dataclasses.replace(side, slope=dataclasses.replace(open_slope, low=1e-5))]
    )
    write_report(dataclasses.replace(example, sides=(unclear,)), tmp_path / "report.html")
    assert sentence in (tmp_path / "report.html").read_text()


def test_every_table_of_the_markdown_has_as_many_cells_in_each_line(example):
    for lines in tables(evaluation_markdown(example.sides, example.gate)):
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
