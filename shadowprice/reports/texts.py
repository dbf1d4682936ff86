"""Short texts and flat numbers for the artifacts of pipeline steps."""

from __future__ import annotations

from collections.abc import Sequence

from shadowprice.currency import Currency
from shadowprice.evaluation.policy.gate import GateResult
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.reports.data import SideReport
from shadowprice.reports.headline import change_sentence, effect_sentence
from shadowprice.reports.wording import estimate, incentives, number


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


def _levels(side: SideReport, currency: Currency) -> str:
    table = side.levels
    if table is None:
        return ""
    amounts, unit = incentives(table.levels, currency)
    names = side.offers or tuple(map(number, amounts))
    head = ["offer" if side.offers else f"incentive, {unit}", "rows", "observed", "model"] + ["truth"] * (
        table.truth is not None
    )
    rows = []
    for j, name in enumerate(names):
        seen = Estimate(float(table.observed[j]), float(table.low[j]), float(table.high[j]))
        row = [name, number(table.rows[j]), estimate(seen), number(table.predicted[j])]
        rows.append(row + ([number(table.truth[j])] if table.truth is not None else []))
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text that neither breaks a table nor is taken for HTML."""
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").split())
