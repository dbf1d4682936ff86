"""A run that is served after its replayed day: no page shows a figure of another window beside those of this one."""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import ask

from operations.common.workspace import LIFT
from serving.console.app import Console, create_app
from shadowprice.arms import Arm, Experiment
from shadowprice.campaign import Budget, Campaign, Terms
from shadowprice.evaluation.policy.worth import Worth, WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.files import write_whole
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports.data import ReportData
from shadowprice.reports.stored import FIGURES
from shadowprice.storage import to_json

NOW = datetime.now(UTC).replace(microsecond=0)
CAMPAIGN = Campaign(
    name="spring",
    sides={"customer": Terms(levels=(0, 100))},
    budget=Budget(limit=720_000),
    starts_at=NOW,
    experiment=Experiment(arms=(Arm(name="holdout", kind="holdout", share=3000),), salt="spring"),
)
WORTH = "personal incentives bring 4,292 more redemptions"
OF_THE_DAY_BEFORE = ("$7,192.00", "54.9 %", "0.7777")
"""Paid, and a price, of the window before."""


class Ledger:
    """Totals of the window that is served."""

    def totals(self) -> Mapping[str, Any]:
        counts = {"requests": {"customer": 40}, "outcomes": {"customer": 31}}
        return {"net_spent": 3100, "outstanding": 900, "money_left": 716_000, **counts}


def price(version: int, window: datetime, at: int, spent: int, rate: float) -> PriceRecord:
    return PriceRecord(
        campaign="spring",
        version=version,
        slot=at - 1,
        prices={"budget": rate},
        tie_share=0.0,
        status="optimal",
        primal=10.0,
        dual=10.0,
        gap=0.0,
        violation=0.0,
        spent=spent,
        remaining=720_000 - spent,
        sample_rows=10,
        model_version="m",
        solved_at=window + timedelta(hours=at),
        expires_at=window + timedelta(hours=at + 2),
        window=window,
        at=float(at),
        requests=10 * at,
        expected=240.0 - 10 * at,
        plan=tuple(np.linspace(spent, 719_200 if version < 4 else 718_000, 26 - max(at, 1)).tolist()),
        arrivals=(10.0,) * (26 - max(at, 1)),
    ).sealed()


def pages(folder: Path, age: float, reported: Campaign | None = None) -> dict[str, str]:
    """Texts of all pages of a window that began ``age`` hours ago, one day after the last one, under a report."""
    began = NOW - timedelta(hours=age)
    campaign = dataclasses.replace(CAMPAIGN, starts_at=began)
    store = PriceStore(folder / "prices")
    before = began - timedelta(days=1)
    for version, at in enumerate((0, 12, 23), start=1):
        store.publish(price(version, before, at, round(719_200 * at / 23), 0.007777))
    for version, at in enumerate(range(0, min(int(age), 23) + 1, 6), start=4):
        store.publish(price(version, began, at, 3100 * at // 24, 0.0041))
    point = Estimate(4292.0, 4052.0, 4532.0)
    at_budget = WorthAt(
        share=1.0,
        budget=720_000,
        cost=Estimate(7e5, 6.9e5, 7.1e5),
        value=point,
        lowest=point,
        flat=Estimate(112.0, 52.0, 172.0),
        flat_lowest=point,
        each=None,
        effective_rows={},
    )
    worth = Worth(
        points=(at_budget,), lowest=point, flat=point, rows={"customer": 9}, accounts={"customer": 9}, stages=1
    )
    data = ReportData(
        title="t",
        dataset="world",
        created_at=before,
        simulated=True,
        campaign=reported or dataclasses.replace(CAMPAIGN, starts_at=before),
        worth=worth,
    )
    write_whole(folder / FIGURES, to_json(data))
    lift = {"level": 0.95, "per": "account", "mature": 7, "requests": 9, "mature_hours": 1, "daily": [], "lifts": []}
    ratio = {"mismatch": False, "assigned": None, "asked": {"differs": False, "always_valid_p_value": 0.7777}}
    lift |= {"campaign": "spring", "baseline": "holdout", "per_request": [], "sample_ratio": ratio}
    (folder / LIFT).write_text(json.dumps(lift))
    os.utime(folder / LIFT, (before.timestamp(), before.timestamp()))
    app = create_app(Console(campaign, Ledger(), store, lift=folder / LIFT, log=folder))
    asked = ("", "/mix", "/arms", "/changes", "/requests")
    found = {path: words(ask(app, f"/campaigns/spring{path}").text) for path in asked}
    return {**found, "all": words(ask(app, "/").text)}


def words(page: str) -> str:
    # Values of a picture count, its coordinates do not.
    shown = re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


@pytest.mark.parametrize(("age", "phase"), [(0.01, "running"), (12.5, "running"), (25.0, "ended")])
def test_each_page_has_the_figures_of_this_window_alone(tmp_path: Path, age: float, phase: str) -> None:
    found = pages(tmp_path, age)
    for path, text in found.items():
        if path != "/changes":
            assert not [figure for figure in OF_THE_DAY_BEFORE if figure in text], path
    assert found["all"].count(f"$31.00 $7,200.00 {phase}") == 1
    shown = found[""]
    assert f"· {phase}" in shown
    assert "Paid $31.00" in shown
    assert "0.4 % of $7,200.00" in shown
    # What the trial says comes after all figures of the window, and is said to be none of them.
    assert shown.index("Paid then") < shown.index(WORTH)
    assert "no result of this one" in shown[shown.index(WORTH) :]
    assert found["/arms"].count("No lift of this window is written yet") == 1
    assert "Degraded" not in shown or phase == "running"
    # The page of changes names every price of the campaign, but no money of another window.
    assert "0.7777" in found["/changes"]
    assert "$7,192.00" not in found["/changes"]


def test_before_the_first_price_of_a_window_that_of_the_last_one_is_no_plan(tmp_path: Path) -> None:
    store = PriceStore(tmp_path / "prices")
    store.publish(price(1, NOW - timedelta(days=1), 23, 719_200, 0.007777))
    shown = words(ask(create_app(Console(CAMPAIGN, Ledger(), store)), "/campaigns/spring").text)
    assert "Planned by now –" in shown
    assert "There is no price of this window" in shown
    assert "$7,192.00" not in shown


def test_the_worth_of_other_terms_is_not_shown(tmp_path: Path) -> None:
    assert WORTH in pages(tmp_path / "own", 1.0)[""]
    others = (
        {"budget": Budget(limit=360_000)},
        {"sides": {"customer": Terms(levels=(0, 200))}},
        {"name": "summer"},
    )
    for place, other in enumerate(others):
        shown = pages(tmp_path / f"{place}", 1.0, dataclasses.replace(CAMPAIGN, **other))  # type: ignore[arg-type]
        assert "What personalizing is worth" not in shown[""], other
