"""The gate before the budget is priced: explicit rules that a model's metrics must meet."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.interim import EqualPrice
from shadowprice.evaluation.policy.joint import AtBudget
from shadowprice.evaluation.policy.mending import MEANINGS, MENDS, Override, mend
from shadowprice.evaluation.policy.worth import WorthAt
from shadowprice.evaluation.statistics.intervals import Estimate

Found = float | Estimate
Compared = AtBudget | EqualPrice | WorthAt
Rival = Literal["the incumbent", "uniform dosing"]

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "customer": ("auc", "ece", "base_rate", "rpr"),
    "merchant": ("mse", "ece", "base_rate", "rpr"),
}
"""Side → metrics that it cannot be judged without."""
CAMPAIGN = "campaign"
"""Subject of the rules that concern all sides together."""


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Requirements on a model.

    auc_floor     the lower bound of the AUC must lie above it: 0.5 is a coin. It finds a broken model, and does not
                  prove a good one
    ece_share     most that the calibration error may be, as a share of the mean response: the response multiplies
                  money, so expected costs are wrong by that share
    value_margin  share of the rival's value at the budget that the candidate's lower bound may fall short by: 0
                  promotes only what is shown to be better. With a margin a candidate must not be shown to bring less
                  than the incumbent, nor to predict worse
    effective_rows  rows of each side that the weights of a policy must be worth, or values are not compared
    newest_days   days before the newest row whose test rows are judged, where a population drifts; 0: all
    """

    auc_floor: float = 0.5
    ece_share: float = 0.25
    value_margin: float = 0.0
    effective_rows: float = 30.0
    newest_days: float = 0.0


def limits_of(given: Mapping[str, Any]) -> Requirements:
    """Return the limits with some of them changed.

    >>> limits_of({"ece_share": 0.3}).ece_share
    0.3

    Raises:
        InvalidInput: there is no such limit, or it is no finite number.
    """
    names = [requirement.name for requirement in fields(Requirements)]
    for name, value in given.items():
        require(name in names, "limits", f"there is no {name!r}; there are {', '.join(names)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidInput(f"must be a finite number, got {value!r}", field=f"limits.{name}")
    return Requirements(**given)


@dataclass(frozen=True)
class Check:
    """One rule applied to one side, or to the campaign: what it asks, what was found, whether it holds.

    required  whether the gate refuses a model that breaks the rule
    meaning   why the rule is asked
    mend      rows or change that would mend it, where it is broken
    """

    side: str
    rule: str
    found: str
    passed: bool
    required: bool = True
    meaning: str = ""
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.side}: {self.rule}, found {self.found}"


@dataclass(frozen=True)
class GateResult:
    """Result of a gate: whether every required rule holds, and the finding of each rule.

    override  decision of a person to use the model all the same; None of a model that passed
    """

    passed: bool
    checks: tuple[Check, ...]
    override: Override | None = None

    def overridden(self, override: Override | None) -> GateResult:
        """Return the result with the decision of a person, which a model that passed does not need."""
        return self if self.passed else replace(self, override=override)

    @property
    def accepted(self) -> bool:
        """Return whether the model may be used: it passed, or a person took it all the same."""
        return self.passed or self.override is not None

    @property
    def broken(self) -> tuple[Check, ...]:
        """Required rules that do not hold."""
        return tuple(check for check in self.checks if not check.passed and check.required)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return one sentence per broken rule; empty when the model passed."""
        return tuple(map(str, self.broken))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Rules that do not hold and were not required, one sentence each."""
        return tuple(str(check) for check in self.checks if not check.passed and not check.required)

    def __str__(self) -> str:
        """Markdown: the verdict, a table of the rules, and the meaning and mend of each broken one."""
        verdict = "**Gate: passed.**" if self.passed else "**Gate: not passed.**"
        if self.override is not None:
            verdict += f" The model is {self.override}"
        marks = ["✓" if check.passed else "✗" if check.required else "✗ (not required)" for check in self.checks]
        rows = [f"| {mark} | {c.side} | {c.rule} | {c.found} |" for mark, c in zip(marks, self.checks, strict=True)]
        mends = [f"- {broken.side}, {broken.rule}: {broken.meaning} {broken.mend}" for broken in self.broken]
        advice = ["", "To mend it:", "", *mends] if mends else []
        return "\n".join([verdict, "", "| | side | rule | found |", "|---|---|---|---|", *rows, *advice])


@dataclass(frozen=True, kw_only=True)
class Against:
    """Comparison of a candidate with its rival.

    value       the candidate's value against the rival's at the campaign's budget, all sides together; or the worth
                of personalizing there; or net of money at one price where the gate is asked again as rows come in; or
                the reason why there is none. Without it only the metrics are judged
    rival       what ``value`` is compared with
    required    whether the model must be shown to beat the rival; if not, the comparison is only reported
    baseline    metrics of the rival: on each side the candidate's ``mse`` may not lie wholly above it
    prediction  the candidate's squared error of all levels alike less the incumbent's, as a share of it; asked for
                where the limits leave a margin of value
    """

    value: Compared | str | None = None
    rival: Rival = "the incumbent"
    required: bool = True
    baseline: Mapping[str, Mapping[str, Found]] = field(default_factory=dict)
    prediction: Estimate | None = None

    def checks(self, limits: Requirements, currency: Currency) -> list[Check]:
        """Return the checks of the value; none without it."""
        if self.value is None:
            return []
        comparisons = [_beats(self.value, self.rival, limits, currency)]
        if self.rival == "the incumbent" and limits.value_margin > 0 and not isinstance(self.value, str | WorthAt):
            comparisons += _within_margin(self.value, self.prediction)
        return [replace(check, required=self.required) for check in comparisons]


def gate(
    candidate: Mapping[str, Mapping[str, Found]],
    limits: Requirements | None = None,
    against: Against | None = None,
    *,
    extra: Sequence[Check] = (),
    rows: Mapping[str, int] | None = None,
    unordered: Collection[str] = (),
    currency: Currency | None = None,
) -> GateResult:
    """Judge a model by its metrics.

    Args:
        candidate: side → metric name → value or Estimate. Both sides need ``ece``, ``base_rate`` and ``rpr``, a
            customer ``auc`` and a merchant ``mse`` besides.
        limits: see :class:`Requirements`.
        against: comparison with the rival, if any.
        extra: checks that were made elsewhere; they count like the others.
        rows: side → test rows, to tell how many would mend a broken rule.
        unordered: sides whose levels have no order: their curves have no reversed pairs, and ``rpr`` is not needed.
        currency: of the budget, to write it.

    Rules, per side: every metric is a finite number; AUC above the floor by its lower bound (by its value when it has
    no interval); calibration error, by its lower bound, at most a share of the mean response; no reversed pair in any
    curve; squared error not worse than the baseline's. Of the campaign: the lower bound of the difference in value
    above zero, less the margin, from enough effective rows; within the margin neither a loss nor worse predictions that
    an interval shows.

    Raises:
        InvalidInput: a side is missing, unknown, or lacks a required metric.
    """
    allowed, compared = limits or Requirements(), against or Against()
    require(candidate, "candidate", "needs the metrics of at least one side")
    checks: list[Check] = []
    for side, metrics in candidate.items():
        free = {"rpr"} if side in unordered else set()
        missing = [name for name in _required(side) if name not in metrics and name not in free]
        require(not missing, f"candidate.{side}", f"lacks {', '.join(missing)}; evaluate the model with them")
        checks += side_checks(side, metrics, compared.baseline.get(side, {}), allowed, (rows or {}).get(side))
    checks += [*compared.checks(allowed, currency or Currency()), *extra]
    return GateResult(all(check.passed or not check.required for check in checks), tuple(checks))


def side_checks(
    side: str, found: Mapping[str, Found], baseline: Mapping[str, Found], limits: Requirements, rows: int | None
) -> list[Check]:
    """Checks of the metrics of one side; that of the AUC where there is one."""
    broken = [name for name, entry in found.items() if not math.isfinite(_value(entry))]
    rule = "every metric is a finite number"
    checks = [_check("finite", side, rule, ", ".join(broken) or "all finite", not broken)]
    if "auc" in found:
        rule = f"AUC above {limits.auc_floor:g} by its lower bound"
        passed, needed = _low(found["auc"]) > limits.auc_floor, mend("auc", found["auc"], limits.auc_floor, rows)
        checks.append(_check("auc", side, rule, _show(found["auc"]), passed, needed))
    error, rate = found["ece"], _value(found["base_rate"])
    rule = f"calibration error at most {limits.ece_share:.0%} of the mean response {rate:.4g}, by its lower bound"
    checks.append(_check("ece", side, rule, _show(error), _low(error) <= limits.ece_share * rate))
    if "rpr" in found:
        rule = "no curve falls where the incentive rises (RPR = 0)"
        checks.append(_check("rpr", side, rule, _show(found["rpr"]), _value(found["rpr"]) == 0))
    if "mse" in baseline and "mse" in found:
        mine, other = found["mse"], _value(baseline["mse"])
        rule = f"squared error not above the baseline's {other:.4g}"
        checks.append(_check("mse", side, rule, _show(mine), _low(mine) <= other))
    return checks


def _check(name: str, side: str, rule: str, found: str, passed: bool, mend: str = "") -> Check:
    """Return a check with the meaning of its rule, and with its mend where it is broken."""
    return Check(side, rule, found, passed, meaning=MEANINGS[name], mend="" if passed else mend or MENDS[name])


def _beats(found: Compared | str, rival: Rival, limits: Requirements, currency: Currency) -> Check:
    rule = f"value at the campaign's budget above that of {rival} by its lower bound"
    if isinstance(found, EqualPrice):
        rule = f"value net of money above that of {rival} by a lower bound that holds at every interim analysis"
    if limits.value_margin:
        rule += f", less {limits.value_margin:.2%}"
    if isinstance(found, str):
        return _check("value", CAMPAIGN, rule, found, False, "Make the comparison possible: see what was found.")
    if isinstance(found, EqualPrice):
        unit, other, rows = "an account", found.incumbent, found.effective_rows
        where = f"at a price of {found.price:.4g}"
        difference = found.difference
    elif isinstance(found, WorthAt):
        unit, other, difference = "in all", found.value.value - found.flat.value, found.flat
        rows, where = min(found.effective_rows.values()), f"at a cost of {currency.write(found.cost.value)}"
    else:
        difference = found.difference
        unit, other, rows = "in all", found.rival.value, min(found.effective_rows.values())
        budget, least = currency.write(found.budget), currency.write(found.least_cost)
        where = f"with {budget} at a price of {currency.unit * found.price:.4g} per {currency.one}"
        if found.least_cost > found.budget:
            text = f"the cheapest levels cost {least} of {budget}: raise the budget"
            return _check("value", CAMPAIGN, rule, text, False, f"Raise the budget above {least}.")
    figures = f"{_show(difference)} {unit}, {rival} {other:.4g}, {where}, {rows:.0f} effective rows"
    if rows < limits.effective_rows:
        times = limits.effective_rows / rows if rows else math.inf
        more = f"about {times:.2g} times the exploration" if math.isfinite(times) else "some exploration"
        text = f"{figures}: fewer than {limits.effective_rows:g}, log more exploration"
        return _check("value", CAMPAIGN, rule, text, False, f"Log {more} (exploration of the campaign, or a trial).")
    target = -limits.value_margin * abs(other)
    passed = difference.low > target
    return _check("value", CAMPAIGN, rule, figures, passed, mend("value", difference, target))


def _within_margin(found: AtBudget | EqualPrice, prediction: Estimate | None) -> list[Check]:
    """Rules of a candidate whose value lies within the margin: nothing may show that it is worse."""
    if found.difference.low > 0:
        return []
    rule = "value not below that of the incumbent by its upper bound"
    checks = [_check("loss", CAMPAIGN, rule, _show(found.difference), found.difference.high >= 0)]
    rule = "squared error of the responses to all levels not above the incumbent's by its lower bound"
    if prediction is None:
        return [*checks, _check("prediction", CAMPAIGN, rule, "not compared", False)]
    text = f"changed by {prediction.value:+.2%} [{prediction.low:+.2%}, {prediction.high:+.2%}]"
    return [*checks, _check("prediction", CAMPAIGN, rule, text, prediction.low <= 0)]


def _required(side: str) -> tuple[str, ...]:
    require(side in REQUIRED, "candidate", f"unknown side {side!r}; sides are {', '.join(REQUIRED)}")
    return REQUIRED[side]


def _value(found: Found) -> float:
    return found.value if isinstance(found, Estimate) else float(found)


def _low(found: Found) -> float:
    return found.low if isinstance(found, Estimate) else float(found)


def _show(found: Found) -> str:
    return str(found) if isinstance(found, Estimate) else f"{found:.4g}"
