import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import numpy as np
import pytest
from jinja2 import Environment

from shadowprice.campaign import Budget
from shadowprice.evaluation import Estimate
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.evaluation.policy.gate import gate
from shadowprice.evaluation.policy.worth import Worth, WorthAt
from shadowprice.evaluation.prediction.calibration import calibration_table, equal_bins
from shadowprice.evaluation.prediction.change_points import find_change_points
from shadowprice.evaluation.prediction.per_level import response_by_level
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.shares import shares
from shadowprice.evaluation.uplift.slope import within_slope
from shadowprice.reports import money_figures, response_figures, spending_figures
from shadowprice.reports.budgets import FurtherBudget
from shadowprice.reports.data import Policy, ReportData, Scenario, SideReport, Solve

LEVELS = np.arange(20, 201, 20)
RATES = np.array([2, 2, 2, 2, 5, 10, 10, 10, 10, 10]) / 1000


def customers() -> SideReport:
    rng = np.random.default_rng(0)
    rows = 30_000
    offset, level = rng.normal(0, 0.8, rows), rng.integers(0, 10, rows)
    offset -= np.log(np.exp(offset).mean())
    truth = -np.expm1(-np.exp(offset) * np.cumsum(20 * RATES)[level])
    y = (rng.random(rows) < truth).astype(float)
    p = np.clip(truth**1.1 * np.exp(rng.normal(0, 0.2, rows)), 0, 1)
    repaired = np.interp(p, np.sort(p)[::300], np.sort(truth)[::300])
    found = find_change_points(y, level, LEVELS, offset)
    metrics = {
        "joint graph network": {
            "auc": Estimate(0.8312, 0.8251, 0.8373),
            "logloss": Estimate(0.3921, 0.3855, 0.3987),
            "mae": Estimate(0.2434, 0.2401, 0.2467),
            "mse": Estimate(0.1173, 0.1149, 0.1197),
            "ece": Estimate(0.0081, 0.0042, 0.0113),
            "rpr": 0.0,
        },
        "DNN-H": {"auc": Estimate(0.8, 0.7935, 0.8065), "mse": Estimate(0.129, 0.1264, 0.1316)},
        "DNN": {"auc": Estimate(0.7612, 0.7540, 0.7684), "mse": Estimate(0.1355, 0.1330, 0.1380)},
    }
    return SideReport(
        side="customer",
        metrics=metrics,
        levels=response_by_level(y, p, level, LEVELS, truth=truth),
        hazard=found,
        model_hazard=RATES * rng.normal(1, 0.06, 10),
        true_hazard=RATES,
        calibration=calibration_table(y, p, equal_bins(p)),
        repaired=calibration_table(y, repaired, equal_bins(repaired)),
        slope=within_slope(y, LEVELS[level], [rng.integers(0, 40, rows)]),
        model_slope=0.0041,
        simulated=True,
    )


def merchants() -> SideReport:
    rng = np.random.default_rng(1)
    level = rng.integers(0, 5, 4000)
    levels = np.array([50, 100, 150, 200, 300])
    truth = 0.8 + 0.002 * levels[level]
    y = truth * rng.lognormal(-0.02, 0.2, 4000)
    return SideReport(
        side="merchant",
        metrics={"joint graph network": {"mae": Estimate(0.211, 0.203, 0.219), "mse": Estimate(0.083, 0.079, 0.087)}},
        levels=response_by_level(y, truth * 0.99, level, levels, truth=truth),
        calibration=calibration_table(y, truth, equal_bins(truth, 5)),
        simulated=True,
    )


def evidence() -> tuple[SideEvidence, ...]:
    """Evidence of customers, whose effect is identified, and of merchants, whose effect is not."""
    rng = np.random.default_rng(2)
    found = []
    for side, levels, rise in (("customer", [0, 250, 500], 0.06), ("merchant", [100, 300], 0.0)):
        level = rng.integers(0, len(levels), 6000)
        y = (rng.random(6000) < 0.2 + rise * level).astype(float)
        shared = shares(level, np.full(6000, 1 / len(levels)), len(levels))
        paid = np.array(levels)[level] * y
        one = side_evidence(side, levels, LevelMeans(level, len(levels)), y, paid, shared)
        found.append(replace(one, claim=f"The sentence of {side}s.", plan="" if rise else "shadowprice plan RUN"))
    return tuple(found)


def around(value: float, wide: float) -> Estimate:
    return Estimate(value, value - wide, value + wide)


def worth() -> Worth:
    """Worth of a policy that brings 4,292.4 responses over the lowest level and 112.4 over flat at the budget."""
    points = tuple(
        WorthAt(
            share=share,
            budget=500_000 * share,
            cost=around(499_000 * share, 9_000 * share),
            value=around(6120 + 4292.4 * gain, 260 * gain),
            lowest=around(4292.4 * gain, 240 * gain),
            flat=around(112.4 * gain, 60 * gain),
            flat_lowest=around(4180 * gain, 235 * gain),
            each=around(82.2 * share, 4.0) if share else None,
            effective_rows={"customer": 2100.0, "merchant": 640.0},
            true_lowest=4300 * gain,
            true_flat=120 * gain,
        )
        for share, gain in ((0.0, 0.0), (0.5, 0.7), (0.8, 0.9), (1.0, 1.0), (1.2, 1.1), (1.5, 1.2), (2.0, 1.3))
    )
    return Worth(
        points=points,
        lowest=around(3800, 210),
        flat=around(98.1, 41),
        rows={"customer": 21_000, "merchant": 5_000},
        accounts={"customer": 14_000, "merchant": 2_800},
        stages=3,
        true_lowest=3805.0,
        true_flat=101.0,
    )


def scenario(name: str, description: str, arrivals: np.ndarray, static_over: float) -> Scenario:
    rng = np.random.default_rng(len(name))
    budget = 500_000
    shape = arrivals / arrivals.sum()
    spend = budget * 0.9982 * shape * rng.normal(1, 0.02, 24)
    spend *= budget * 0.9982 / spend.sum()
    price = 0.00231 * (1 + 0.04 * np.sin(np.arange(24) / 3) + (static_over > 0) * 0.2 * (np.arange(24) >= 12))
    plan = np.roll(shape, 0) * budget
    return Scenario(
        name=name,
        description=description,
        budget=Budget(limit=budget),
        arrivals=arrivals,
        planned_spend=plan,
        attainable=Attainable(lowest=6120.0, flat=10_300.0, best=10_495.0),
        weights={"customer": 1.0, "merchant": 0.5},
        policies=(
            Policy(role="resolved", name="solved again every hour", value=10_412.4, spend=spend, price=price),
            Policy(
                role="static",
                name="price kept from the start",
                value=10_120.8 * (1 + static_over),
                spend=plan * (1 + static_over) * rng.normal(1, 0.02, 24) * 0.985,
                price=np.full(24, 0.00228),
            ),
            Policy(
                role="hindsight",
                name="hindsight",
                value=10_495.0,
                spend=budget * shape,
                price=np.full(24, 0.00233),
            ),
        ),
    )


@pytest.fixture(scope="session")
def drawn() -> dict[bytes, Any]:
    """Figures and compiled templates of the tests before, by what they were made of."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def figures_are_drawn_once(drawn: dict[bytes, Any]) -> Iterator[None]:
    """Draw a figure, and compile a template, once for all pages that have it: most of a page's time."""

    def once(make: Callable[..., Any], skipped: int = 0) -> Callable[..., Any]:
        @wraps(make)
        def made(*arguments: Any, **options: Any) -> Any:
            key = pickle.dumps((make.__qualname__, arguments[skipped:], options))
            if key not in drawn:
                drawn[key] = make(*arguments, **options)
            return drawn[key]

        return made

    with pytest.MonkeyPatch.context() as patch:
        # Environments of pages differ in filters and globals alone, which templates look up when they run.
        patch.setattr(Environment, "compile", once(Environment.compile, skipped=1))
        for module, names in (
            (money_figures, ("mix", "worth_curve")),
            (response_figures, ("calibration", "effect", "hazard_by_level", "response_by_level")),
            (spending_figures, ("hours",)),
        ):
            for name in names:
                patch.setattr(module, name, once(getattr(module, name)))
        yield


@pytest.fixture(scope="session")
def example() -> ReportData:
    """Every section filled with made-up numbers."""
    return build_example()


def build_example() -> ReportData:
    arrivals = np.round(
        900 + 700 * np.exp(-((np.arange(24) - 13) ** 2) / 20) + 400 * np.exp(-((np.arange(24) - 20) ** 2) / 6)
    )
    noon = arrivals * np.where((np.arange(24) >= 12) & (np.arange(24) < 15), 2, 1)
    sides = (customers(), merchants())
    verdict = gate(
        {
            "customer": {**sides[0].metrics["joint graph network"], "base_rate": 0.2},
            "merchant": {**sides[1].metrics["joint graph network"], "ece": 0.02, "base_rate": 1.1, "rpr": 0.0},
        }
    )
    solves = tuple(
        Solve(
            version=hour + 1,
            slot=hour,
            status="optimal",
            price=0.00231 + 0.00001 * hour,
            primal=10_480.1 - 400 * hour,
            dual=10_480.1 - 400 * hour,
            gap=2.1e-12,
            violation=-3e-13 if hour != 5 else 0.0,
            rows=20_000 - 700 * hour,
            seconds=0.043,
            published=hour != 5,
        )
        for hour in range(24)
    )
    return ReportData(
        title="Example campaign, made-up numbers",
        dataset="world",
        created_at=datetime(2025, 6, 1, 8, 30, tzinfo=UTC),
        simulated=True,
        facts={
            "Tables": {
                "accounts": 24_000,
                "of them on both sides": 812,
                "offers": 15,
                "exposures": 61_204,
                "outcomes": 58_870,
                "campaigns": 1,
            },
            "Graph": {
                "customers": 20_000,
                "merchants": 4_000,
                "edges": 151_200,
                "mean partners of a customer": 7.56,
                "last event": "2025-05-31",
            },
        },
        evidence=evidence(),
        sides=sides,
        worth=worth(),
        gate=verdict,
        scenarios=(
            scenario(
                "As it ran",
                "Requests arrive as forecast. Outcomes are drawn from the generator's truth.",
                arrivals,
                0.0,
            ),
            scenario("Doubled noon", "Twice the forecast requests arrive between hours 12 and 15.", noon, 0.131),
        ),
        budgets=tuple(
            FurtherBudget(
                name=name,
                period=period,
                group=group,
                limit=300_000,
                each="",
                floor=price < 0,
                used=used,
                plan=300_000.0,
                price=price,
                error=0.0,
                status="binds",
            )
            for name, period, group, used, price in (
                ("north", "campaign", 'customers, where account.c_region == "north"', 299_400.0, 0.00042),
                ("new", "day", "all requests", 301_000.0, -0.0001),
            )
        ),
        solves=solves,
        serving={"requests": 24_310, "errors": 0, "p50, ms": 1.9, "p99, ms": 4.6, "requests per second": 812.0},
        steps={
            "ingest": 2.1,
            "features": 14.2,
            "train": 96.4,
            "evaluate": 8.8,
            "solve": 1.3,
            "publish": 0.4,
            "serve and replay": 71.5,
            "report": 3.2,
        },
        versions={"shadowprice": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "feast": "0.67.0", "kserve": "0.21.0"},
        notes=(
            "Outcomes of the replay are simulated: they say how the loop behaves, not what people would do.",
            "p-values of change points flatter, because the places were chosen on the same rows.",
            "Hindsight knows every arrival of the day; no policy that acts in time can reach it.",
        ),
    )
