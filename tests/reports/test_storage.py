import dataclasses
import json

import numpy as np
import pytest

from shadowprice.errors import InvalidInput
from shadowprice.evaluation import Estimate
from shadowprice.reports.data import ReportData, Scenario, SideReport
from shadowprice.reports.report import render
from shadowprice.storage import from_json, to_json


def test_a_whole_report_comes_back_from_json_as_the_same_page(example):
    text = to_json(example)
    back = from_json(ReportData, text)
    assert json.loads(to_json(back)) == json.loads(text)
    assert render(back) == render(example)
    assert back.created_at == example.created_at
    assert back.sides[0].levels.rows.dtype == np.int64
    assert isinstance(back.sides[0].metrics["DNN"]["auc"], Estimate)
    assert isinstance(back.facts["Graph"]["edges"], int)


def test_values_that_json_has_no_word_for_come_back():
    side = SideReport(
        side="customer",
        metrics={"m": {"auc": float("nan"), "mse": Estimate(float("inf"), float("-inf"), float("nan")), "rpr": 0}},
        model_hazard=np.array([0.1, np.nan]),
    )
    text = to_json(side)
    assert "NaN" not in text
    back = from_json(SideReport, text)
    assert np.isnan(back.metrics["m"]["auc"])
    assert back.metrics["m"]["mse"].value == np.inf
    assert back.metrics["m"]["mse"].low == -np.inf
    assert np.array_equal(back.model_hazard, side.model_hazard, equal_nan=True)
    assert back.levels is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda d: d.pop("title"), "ReportData"),
        (lambda d: d.update(extra=1), "ReportData"),
        (lambda d: d.update(title=3), r"ReportData\.title"),
        (lambda d: d["scenarios"][0]["budget"].update(form="weekly"), r"scenarios\[0\]\.budget\.form"),
        (lambda d: d["sides"][0]["levels"].update(rows="many"), r"sides\[0\]\.levels\.rows"),
        (lambda d: d["sides"][0].update(slope=[1]), r"sides\[0\]\.slope"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_the_path_to_the_field(example, change, field):
    data = json.loads(to_json(example))
    change(data)
    with pytest.raises(InvalidInput, match=field):
        from_json(ReportData, json.dumps(data))


def test_text_that_is_no_json_is_refused():
    with pytest.raises(InvalidInput, match="not JSON"):
        from_json(SideReport, "{")


def test_hours_that_do_not_agree_are_refused(example):
    scenario = example.scenarios[0]
    with pytest.raises(InvalidInput, match="planned_spend"):
        dataclasses.replace(scenario, planned_spend=np.zeros(23))
    with pytest.raises(InvalidInput, match="scenario"):
        Scenario(name="n", description="", budget=scenario.budget, arrivals=np.zeros(3), policies=())


def test_an_unknown_side_is_refused():
    with pytest.raises(InvalidInput, match="side"):
        SideReport(side="courier")
