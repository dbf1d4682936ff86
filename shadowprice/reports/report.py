"""The report: one HTML page that needs nothing but itself."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.files import write_whole
from shadowprice.reports import headline, money_figures, rehearsal, response_figures, spending_figures, texts, wording
from shadowprice.reports.data import ReportData, Section, SideReport
from shadowprice.reports.mix import FILE, write_mix

SECTIONS: dict[Section, str] = {
    "evidence": "What your trial shows",
    "worth": "What personalizing is worth",
    "model": "The model",
    "rehearsal": "Rehearsal",
    "run": "Terms, data and run",
}
WORTH_SHARES = (0.5, 1.5, 2.0)
"""Budgets in the table of the worth, as shares of the campaign's: the headline has that one."""
METRICS = {
    "auc": "AUC",
    "logloss": "Log loss",
    "brier": "Brier score",
    "mae": "MAE",
    "mse": "MSE",
    "ece": "Calibration error",
    "rpr": "Reversed pairs",
    "epr": "Equal pairs",
    "mlss": "Roughness",
}


def render(data: ReportData) -> str:
    """The page as text: figures inside, no script, no reference to anything outside.

    Every text of ``data`` is escaped. O(size of the data); figures take about a second in all.
    """
    data = data.told()
    pages = environment(data)
    return pages.get_template("report.html.jinja").render(
        data=data,
        contents=_contents(data),
        figures={key: Markup(svg) for key, svg in _figures(data).items()},
        headline=headline.headline(data),
        price_sentence=rehearsal.price_sentence(data),
    )


def write_report(data: ReportData, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``, whole or not at all, and beside it the table of who got what, where there is one."""
    if data.mix is not None:
        write_mix(data.mix, Path(path).with_name(FILE))
    return write_whole(path, render(data))


def _contents(data: ReportData) -> dict[str, str]:
    present = {
        "evidence": bool(data.evidence),
        "worth": data.worth is not None,
        "model": bool(data.gate is not None or data.sides),
        "rehearsal": bool(data.scenarios or data.mix is not None or data.solves),
        "run": bool(data.notes or data.campaign or data.facts or data.steps or data.serving or data.versions),
    }
    return {key: name for key, name in SECTIONS.items() if present[key] or key in data.absent}


def _figures(data: ReportData) -> dict[str, str]:
    figures = {}
    if data.worth is not None and "worth" not in data.absent:
        figures["worth"] = money_figures.worth_curve(
            data.worth, headline.value_unit(data), data.currency, headline.lowest(data.campaign)
        )
    for at, scenario in enumerate(data.scenarios, start=1):
        figures[f"hours-{at}"] = spending_figures.hours(scenario, data.currency, data.value_unit, str(at))
    if data.mix is not None:
        unit = "money" if data.currency.symbol else data.currency.major
        figures |= {
            f"mix-{side}": money_figures.mix(data.mix, side, level_names(data, side), unit) for side in data.mix.sides()
        }
    for trial in data.evidence:
        if any(level.difference for level in trial.levels):
            figures[f"effect-{trial.side}"] = response_figures.effect(trial, data.currency)
    for side in data.sides:
        name, levels = side.side, side.levels
        if levels is not None:
            figures[f"response-{name}"] = response_figures.response_by_level(
                levels, name, data.currency, side.hazard, side.offers, model=not data.refused
            )
        if levels is not None and side.hazard is not None and side.hazard.free.hazard.size:
            figures[f"hazard-{name}"] = response_figures.hazard_by_level(
                side.hazard,
                name,
                data.currency,
                levels.levels,
                None if data.refused else side.model_hazard,
                side.true_hazard,
            )
        if side.calibration is not None:
            figures[f"calibration-{name}"] = response_figures.calibration(side.calibration, side.repaired, name)
    return figures


def environment(data: ReportData) -> Environment:
    """Return the environment of the templates of a report, which escapes every value."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "number": wording.number,
        "percent": wording.percent,
        "estimate": wording.estimate,
        "duration": wording.duration,
        "interval": wording.interval,
        "rounded": wording.rounded,
        "money": lambda minor: wording.money(minor, data.currency),
        "incentives": lambda levels: wording.incentives(levels, data.currency),
        "under": under,
        "metric": lambda name: METRICS.get(name, name),
    }
    pages.globals |= {
        "data": data,
        "against": rehearsal.against,
        "budget_heading": rehearsal.budget_heading,
        "change_sentence": lambda side: headline.change_sentence(side, data.currency),
        "trial_slope": lambda side: next((trial.slope for trial in data.evidence if trial.side == side), None),
        "evidence_table": lambda found: texts.evidence_table(found, data.currency),
        "amount_table": lambda side: texts.amount_table(side, data.currency),
        "amount_title": texts.amount_title,
        "evidence_notes": lambda found: texts.evidence_notes(found, data.currency),
        "evidence_facts": texts.evidence_facts,
        "worth_rows": [] if data.worth is None else [p for p in data.worth.points if p.share in WORTH_SHARES],
        "worth_truth": data.worth is not None and bool(np.isfinite(data.worth.true_flat)),
        "solve_sentence": rehearsal.solve_sentence(data.solves),
        "metric_names": metric_names,
        "campaign_facts": lambda: headline.campaign_facts(data.campaign, data.currency) if data.campaign else {},
        "level_names": lambda side: level_names(data, side),
        "lowest": headline.lowest(data.campaign),
        "unordered": headline.unordered(data.campaign),
        "value_unit": headline.value_unit(data),
        "mix_file": FILE,
        "per_major": lambda slope: per_major(slope, data.currency.unit),
    }
    return pages


def level_names(data: ReportData, side: str) -> Sequence[str]:
    """Name of each level of a side; without a campaign, by the amounts of the mix."""
    for name, terms in () if data.campaign is None else data.campaign.sides.items():
        if name == side:
            return terms.names(data.currency)
    known = {} if data.mix is None else dict(data.mix.by(side, "level", "incentive")[["level", "incentive"]].to_numpy())
    return [wording.money(known.get(level, np.nan), data.currency) for level in range(max(known, default=-1) + 1)]


def metric_names(side: SideReport) -> list[str]:
    """Names of all metrics of a side's models, in the order of first appearance."""
    return list(dict.fromkeys(name for figures in side.metrics.values() for name in figures))


def under(told: str) -> Markup:
    """An estimate's text with its interval on a line of its own."""
    value, _, interval = told.partition(" [")
    return Markup("{}<br><small>[{}</small>").format(value, interval) if interval else escape(value)


def per_major(slope: Slope | Estimate | float, unit: int) -> Any:
    """A slope per minor unit as one per major unit of ``unit`` minor ones, with its interval where there is one."""
    if isinstance(slope, (Slope, Estimate)):
        return Estimate(unit * slope.value, unit * slope.low, unit * slope.high, slope.level)
    return unit * slope
