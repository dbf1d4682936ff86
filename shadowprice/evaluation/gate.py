"""The gate before the budget is priced: explicit rules that a model's metrics must meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from shadowprice.errors import InvalidInput
from shadowprice.evaluation.every_look import EqualPrice
from shadowprice.evaluation.frontier import EqualSpend
from shadowprice.evaluation.intervals import Estimate

Found = float | Estimate
Compared = EqualSpend | EqualPrice

REQUIRED: Mapping[str, tuple[str, ...]] = {"customer": ("auc", "ece", "rpr"), "merchant": ("mse", "rpr")}
"""Metrics without which a side cannot be judged."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model must keep.

    auc_floor     the lower bound of the AUC must lie above it: 0.5 is a coin
    ece_ceiling   calibration error per side, in units of the response; the response multiplies money
    value_margin  share of the incumbent's value at equal spend that the candidate's lower bound may fall short
                  by: 0 promotes only what is shown to be better
    effective_rows  rows that the weights of both policies must be worth, or their values are not compared
    """

    auc_floor: float = 0.5
    ece_ceiling: Mapping[str, float] = field(default_factory=lambda: {"customer": 0.05, "merchant": 0.15})
    value_margin: float = 0.0
    effective_rows: float = 100.0


@dataclass(frozen=True)
class Check:
    """One rule applied to one side: what it asks, what was found, whether it holds."""

    side: str
    rule: str
    found: str
    passed: bool


@dataclass(frozen=True)
class GateResult:
    """Whether every rule holds, and each rule with what was found."""

    passed: bool
    checks: tuple[Check, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the model did not pass, one sentence per broken rule; empty when it passed."""
        return tuple(f"{each.side}: {each.rule}, found {each.found}" for each in self.checks if not each.passed)

    def __str__(self) -> str:
        """Markdown: the verdict and a table of the rules."""
        verdict = "**Gate: passed.**" if self.passed else "**Gate: not passed.**"
        rows = [f"| {'✓' if c.passed else '✗'} | {c.side} | {c.rule} | {c.found} |" for c in self.checks]
        return "\n".join([verdict, "", "| | side | rule | found |", "|---|---|---|---|", *rows])


def gate(
    candidate: Mapping[str, Mapping[str, Found]],
    baseline: Mapping[str, Mapping[str, Found]] | None = None,
    limits: Limits | None = None,
    against: Mapping[str, Compared | str] | None = None,
) -> GateResult:
    """Judge a model by its metrics.

    Args:
        candidate: side → metric name → value or Estimate. A customer needs ``auc``, ``ece`` and
            ``rpr``, a merchant ``mse`` and ``rpr``.
        baseline: the same of the model it would replace, or of a plain one; per side the
            candidate's ``mse`` may not lie wholly above the baseline's.
        limits: see :class:`Limits`.
        against: side → the candidate's value against the incumbent's at equal spend, or net of money at one price
            where the gate is asked again as rows come in, or why it could not be compared; none where there is no
            incumbent.

    Rules, per side: every metric is a finite number; AUC above the floor by its lower bound (by
    its value when it has no interval); calibration error under the ceiling; no reversed pair in
    any curve; squared error not worse than the baseline's; where there is an incumbent,
    the lower bound of the difference in value above zero, less the margin, from enough effective rows.

    Raises:
        InvalidInput: a side is missing, unknown, or lacks a required metric.
    """
    allowed = limits or Limits()
    if not candidate:
        raise InvalidInput("needs the metrics of at least one side", field="candidate")
    checks: list[Check] = []
    for side, found in candidate.items():
        missing = [name for name in _required(side) if name not in found]
        if missing:
            raise InvalidInput(f"lacks {', '.join(missing)}; evaluate the model with them", field=f"candidate.{side}")
        checks += _side(side, found, (baseline or {}).get(side, {}), allowed)
        if against is not None and side in against:
            checks.append(_beats(side, against[side], allowed))
    return GateResult(all(check.passed for check in checks), tuple(checks))


def _side(side: str, found: Mapping[str, Found], baseline: Mapping[str, Found], limits: Limits) -> list[Check]:
    broken = [name for name, entry in found.items() if not math.isfinite(_value(entry))]
    checks = [Check(side, "every metric is a finite number", ", ".join(broken) or "all finite", not broken)]
    if "auc" in found:
        low = found["auc"].low if isinstance(found["auc"], Estimate) else found["auc"]
        rule = f"AUC above {limits.auc_floor:g} by its lower bound"
        checks.append(Check(side, rule, _show(found["auc"]), low > limits.auc_floor))
    if "ece" in found:
        ceiling = limits.ece_ceiling[side]
        rule = f"calibration error at most {ceiling:g}"
        checks.append(Check(side, rule, _show(found["ece"]), _value(found["ece"]) <= ceiling))
    rule = "no curve falls where the incentive rises (RPR = 0)"
    checks.append(Check(side, rule, _show(found["rpr"]), _value(found["rpr"]) == 0))
    if "mse" in baseline and "mse" in found:
        mine, other = found["mse"], _value(baseline["mse"])
        low = mine.low if isinstance(mine, Estimate) else mine
        checks.append(Check(side, f"squared error not above the baseline's {other:.4g}", _show(mine), low <= other))
    return checks


def _beats(side: str, found: Compared | str, limits: Limits) -> Check:
    rule = "value at equal spend above the incumbent's by its lower bound"
    if isinstance(found, EqualPrice):
        rule = "value net of money above the incumbent's by a lower bound that holds at every look"
    if limits.value_margin:
        rule += f", less {limits.value_margin:.2%}"
    if isinstance(found, str):
        return Check(side, rule, found, False)
    if isinstance(found, EqualPrice):
        unit, incumbent, where = "an account", found.incumbent, f"at a price of {found.price:.4g}"
    else:
        unit, incumbent, where = "a request", found.incumbent.value, f"at {found.spend:.4g} minor units"
    told = (
        f"{_show(found.difference)} {unit}, incumbent {incumbent:.4g}, {where}, "
        f"{found.effective_rows:.0f} effective rows"
    )
    if found.effective_rows < limits.effective_rows:
        return Check(side, rule, f"{told}: fewer than {limits.effective_rows:g}, log more exploration", False)
    return Check(side, rule, told, found.difference.low > -limits.value_margin * abs(incumbent))


def _required(side: str) -> tuple[str, ...]:
    if side not in REQUIRED:
        raise InvalidInput(f"unknown side {side!r}; sides are {', '.join(REQUIRED)}", field="candidate")
    return REQUIRED[side]


def _value(found: Found) -> float:
    return found.value if isinstance(found, Estimate) else float(found)


def _show(found: Found) -> str:
    return str(found) if isinstance(found, Estimate) else f"{found:.4g}"
