"""Short texts and flat numbers for the artifacts of pipeline steps."""

import math
from collections.abc import Sequence

from shadowprice.currency import Currency
from shadowprice.evaluation.policy.gate import GateResult
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.reports.data import SideReport
from shadowprice.reports.headline import change_sentence
from shadowprice.reports.wording import MISSING, estimate, incentives, listed, money, number, percent, signed


def evaluation_markdown(
    sides: Sequence[SideReport],
    gate: GateResult | None = None,
    currency: Currency | None = None,
    evidence: Sequence[SideEvidence] = (),
) -> str:
    """Markdown of an evaluation: evidence, gate, metrics of every model, response by level, change points."""
    unit = currency or Currency()
    parts = ["# Evaluation"]
    for trial in evidence:
        parts += [
            f"## What the trial shows of {trial.side}s",
            trial.sentence,
            _table(*evidence_table(trial, unit)),
        ]
    if gate is not None:
        parts.append(str(gate))
    for side in sides:
        parts.append(f"## {side.side.capitalize()}s" + (" (simulated responses)" if side.simulated else ""))
        if side.metrics:
            names = list(dict.fromkeys(name for figures in side.metrics.values() for name in figures))
            rows = [
                [model, *(estimate(figures[name]) if name in figures else "–" for name in names)]
                for model, figures in side.metrics.items()
            ]
            parts.append(_table(["model", *names], rows))
        if side.hazard is not None:
            parts.append(change_sentence(side, unit))
        if side.levels is not None:
            parts.append(_levels(side, unit))
        if side.amounts is not None:
            parts += [f"### {amount_title(side)}", _table(*amount_table(side, unit))]
        parts += side.long_term
    return "\n\n".join(parts) + "\n"


def evidence_table(found: SideEvidence, currency: Currency) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of the evidence of one side; estimates have their 95 % interval in brackets."""
    head = [
        "Incentive",
        "Response",
        f"More than at {found.lowest.written(currency)}",
        "One extra costs",
        found.unit.capitalize(),
        "Planned",
        "Found",
        "Relative change",
    ]
    digits = found.decimals if found.side == "customer" else None
    rows = [
        [
            level.written(currency),
            _shown(level.response, digits),
            _shown(level.difference, digits, "points", sign=True),
            _money(level.cost_each, currency),
            number(level.accounts),
            percent(level.planned),
            percent(level.share),
            _shown(level.relative, 1, sign=True),
        ]
        for level in found.levels
    ]
    return head, rows


def evidence_notes(found: SideEvidence, currency: Currency) -> list[str]:
    """Sentences below the evidence: levels drawn by group, and why levels have no cost of one extra response."""
    grouped = (
        f"All accounts with the same {found.drawn_by} got the same level. Where levels were drawn by it, map it as "
        "exposure.cluster: the intervals count accounts and are too narrow."
    )
    why: dict[str, list[str]] = {}
    for level in found.levels:
        if level.why_no_cost:
            why.setdefault(level.why_no_cost, []).append(level.written(currency))
    notes = [grouped] if found.drawn_by else []
    return notes + [f"No cost of one extra response at {listed(at)}: {reason}." for reason, at in why.items()]


def evidence_facts(found: SideEvidence) -> dict[str, str]:
    """Tests of a trial and what its rows are, label → text."""
    facts = {}
    if found.trend_p is not None:
        facts["Test of trend"] = f"{_p(found.trend_p)}: how often chance alone gives a trend as strong"
    if found.sample_ratio_p is not None:
        facts["Shares are those planned"] = _held(found.sample_ratio_p, 0.001)
    if found.balance is not None:
        balance = found.balance
        facts["Accounts were alike before"] = (
            f"{_held(balance.p_value, 0.001)}; {balance.features} features, most different: {balance.worst} "
            f"({signed(balance.difference, 2)} standard deviations)"
        )
    weighted = ", weighted by inverse propensity" if found.weighted else ""
    facts["Rows"] = (
        f"all {number(found.rows)} with a final outcome{weighted}; {number(found.clusters)} independent groups"
    )
    return facts


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {number(p_value, 2)}"


def _held(p_value: float, level: float) -> str:
    return f"{'no' if p_value < level else 'yes'}, {_p(p_value)}"


def _shown(found: Estimate | None, digits: int | None, unit: str = "%", *, sign: bool = False) -> str:
    """Estimate of a share, in percent with so many decimals; without ``digits`` a quantity as it is."""
    if found is None or not math.isfinite(found.value):
        return MISSING
    scale, decimals = (1.0, 3) if digits is None else (100.0, digits)
    value, low, high = (
        f"{scale * bound:.{decimals}f}".replace("-", "−") for bound in (found.value, found.low, found.high)
    )
    plus = "+" if sign and found.value > 0 else ""
    return f"{plus}{value}{'' if digits is None else f' {unit}'} [{low}, {high}]"


def _money(found: Estimate | None, currency: Currency) -> str:
    if found is None:
        return MISSING
    return f"{money(found.value, currency)} [{money(found.low, currency)}, {money(found.high, currency)}]"


def evaluation_metrics(sides: Sequence[SideReport]) -> dict[str, float]:
    """Flat numbers of the model in use: ``customer_auc``, ``customer_auc_low``, ``customer_auc_high``, …"""
    flat: dict[str, float] = {}
    for side in sides:
        for name, figure in next(iter(side.metrics.values()), {}).items():
            if isinstance(figure, Estimate):
                flat |= {
                    f"{side.side}_{name}": figure.value,
                    f"{side.side}_{name}_low": figure.low,
                    f"{side.side}_{name}_high": figure.high,
                }
            else:
                flat[f"{side.side}_{name}"] = float(figure)
    return flat


def amount_title(side: SideReport) -> str:
    """Title of the table of amounts, which may be predicted themselves."""
    return "Long-term value of a response by the index" if side.long_term else "Amount of a response"


def amount_table(side: SideReport, currency: Currency) -> tuple[list[str], list[list[str]]]:
    """Heading and rows of the mean amount of a response by range of the prediction, with its 95 % interval."""
    found, rows = side.amounts, list[list[str]]()
    assert found is not None, "the side has amounts"
    for place in range(found.rows.size):
        low, mean, high = (money(bound[place], currency) for bound in (found.low, found.observed, found.high))
        rows.append([number(found.rows[place]), money(found.predicted[place], currency), f"{mean} [{low}, {high}]"])
    head = ["Model", "Index of the rows"] if side.long_term else ["Predicted amount", "Observed amount"]
    return ["Responses", *head], rows


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


def unidentified(evidence: Sequence[SideEvidence]) -> str:
    """Reason why no budget has a known value; empty where the effect of each side is identified."""
    sides = [f"{trial.side}s" for trial in evidence if trial.verdict != "identified"]
    if not sides:
        return ""
    return (
        f"the trial does not identify the effect of the incentives of {listed(sides)}, so no budget has a known value"
    )
