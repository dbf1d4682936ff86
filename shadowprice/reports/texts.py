"""Short texts and flat numbers for the artifacts of pipeline steps."""

from __future__ import annotations

from collections.abc import Sequence

from shadowprice.evaluation.policy.gate import GateResult
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.reports.data import Currency, Scenario, SideReport, Solve
from shadowprice.reports.headline import LIMITS, against, change_sentence, effect_sentence, solve_sentence
from shadowprice.reports.wording import duration, estimate, incentives, money, number, percent


def evaluation_markdown(
    sides: Sequence[SideReport], gate: GateResult | None = None, currency: Currency | None = None
) -> str:
    """Markdown of an evaluation: gate, metrics of every model, response by level, change points."""
    unit = currency or Currency()
    parts = ["# Evaluation"]
    if gate is not None:
        parts.append(str(gate))
    for side in sides:
        parts.append(f"## {side.side.capitalize()}s" + (" (simulated responses)" if side.simulated else ""))
        if side.metrics:
            names = list(dict.fromkeys(name for found in side.metrics.values() for name in found))
            rows = [
                [model, *(estimate(found[name]) if name in found else "–" for name in names)]
                for model, found in side.metrics.items()
            ]
            parts.append(_table(["model", *names], rows))
        if side.hazard is not None:
            parts.append(change_sentence(side, unit))
        if told := effect_sentence(side):
            parts.append(told)
        if side.levels is not None:
            parts.append(_levels(side, unit))
    return "\n\n".join(parts) + "\n"


def evaluation_metrics(sides: Sequence[SideReport]) -> dict[str, float]:
    """Flat numbers of the model in use: ``customer_auc``, ``customer_auc_low``, ``customer_auc_high``, …"""
    flat: dict[str, float] = {}
    for side in sides:
        for name, found in next(iter(side.metrics.values()), {}).items():
            if isinstance(found, Estimate):
                flat |= {
                    f"{side.side}_{name}": found.value,
                    f"{side.side}_{name}_low": found.low,
                    f"{side.side}_{name}_high": found.high,
                }
            else:
                flat[f"{side.side}_{name}"] = float(found)
    return flat


def solve_markdown(solves: Sequence[Solve], currency: Currency | None = None) -> str:
    """Markdown of the certificates of solves."""
    symbol = (currency or Currency()).symbol
    head = ["version", "hour", "status", f"λ per {symbol}1", "primal", "dual", "gap", "violation", "time", "published"]
    rows = [
        [
            str(solve.version),
            str(solve.slot) if solve.slot >= 0 else "before",
            solve.status,
            number(100 * solve.price),
            number(solve.primal, 6),
            number(solve.dual, 6),
            number(solve.gap, 3),
            number(solve.violation, 3),
            duration(solve.seconds),
            number(solve.published),
        ]
        for solve in solves
    ]
    return "\n\n".join(["# Price of money", solve_sentence(solves), _table(head, rows)]) + "\n"


def spending_markdown(scenario: Scenario, value_unit: str = "responses", currency: Currency | None = None) -> str:
    """Markdown of value and spend of each policy of a scenario."""
    unit = currency or Currency()
    outcomes = "simulated" if scenario.simulated else "observed"
    head = [
        "policy",
        f"value, {value_unit}",
        "of hindsight",
        "of the attainable gain",
        LIMITS[scenario.budget.form],
        "against the limit",
        "outcomes",
    ]
    rows = [
        [
            policy.name,
            number(policy.value),
            percent(scenario.of_best(policy)),
            percent(scenario.of_gain(policy)),
            money(scenario.used(policy), unit),
            against(scenario, policy),
            outcomes,
        ]
        for policy in scenario.policies
    ]
    return "\n\n".join([f"# {_cell(scenario.name)}", _cell(scenario.description), _table(head, rows)]) + "\n"


def _levels(side: SideReport, currency: Currency) -> str:
    table = side.levels
    if table is None:
        return ""
    amounts, unit = incentives(table.levels, currency)
    head = [f"incentive, {unit}", "rows", "observed", "model"] + ["truth"] * (table.truth is not None)
    rows = []
    for j, amount in enumerate(amounts):
        seen = Estimate(float(table.observed[j]), float(table.low[j]), float(table.high[j]))
        row = [number(amount), number(table.rows[j]), estimate(seen), number(table.predicted[j])]
        rows.append(row + ([number(table.truth[j])] if table.truth is not None else []))
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text that neither breaks a table nor is taken for HTML."""
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").split())
