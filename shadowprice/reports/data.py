"""Content of a report. Every part is optional; a missing part can state its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.campaign import SIDES, Budget, Campaign, Side
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.evaluation.policy.gate import GateResult
from shadowprice.evaluation.policy.worth import Worth
from shadowprice.evaluation.prediction.calibration import CalibrationTable
from shadowprice.evaluation.prediction.change_points import ChangePoints
from shadowprice.evaluation.prediction.per_level import ResponseByLevel
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.slope import Slope
from shadowprice.reports.budgets import FurtherBudget
from shadowprice.reports.mix import Mix
from shadowprice.reports.wording import percent

Section = Literal["evidence", "worth", "model", "rehearsal", "run"]
Role = Literal["resolved", "static", "hindsight"]

OVERSPENT = 0.005
"""Relative excess over the budget from which a policy's value is not comparable with others'."""


@dataclass(frozen=True, kw_only=True)
class SideReport:
    """One side of the market: how its accounts respond and how well the model knows it.

    side           ``customer`` or ``merchant``
    metrics        model name → metric name → value or Estimate; the first model is the one in use
    levels         response by level, observed and predicted
    hazard         change points of the hazard rate
    model_hazard   float64 (J,), the model's mean hazard rate of each level's segment, per minor unit
    true_hazard    float64 (J,), the same of the known truth
    calibration    reliability of the model's predictions on held-out rows
    repaired       the same after the model was calibrated on validation rows
    amounts        mean amount of a response in ranges of the predicted one, on held-out rows, minor units
    long_term      sentences on the surrogate index that the amounts are; empty where they are amounts
    slope          of response in value with confounders held fixed, from the data
    model_slope    of the model's curves, response per minor unit
    offers         name of each level, where levels are numbers of offers and not amounts
    simulated      whether the responses come from a generator and not from people
    """

    side: Side
    metrics: Mapping[str, Mapping[str, float | Estimate]] = field(default_factory=dict)
    levels: ResponseByLevel | None = None
    hazard: ChangePoints | None = None
    model_hazard: NDArray[np.float64] | None = None
    true_hazard: NDArray[np.float64] | None = None
    calibration: CalibrationTable | None = None
    repaired: CalibrationTable | None = None
    amounts: CalibrationTable | None = None
    long_term: tuple[str, ...] = ()
    slope: Slope | None = None
    model_slope: float | Estimate | None = None
    offers: tuple[str, ...] = ()
    simulated: bool = False

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise InvalidInput(f"must be one of {SIDES}, got {self.side!r}", field="side")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Course of one policy over the hours of a scenario.

    role   ``resolved`` (price solved again every hour), ``static`` (price of the start kept),
           ``hindsight`` (best possible had the whole day been known)
    value  weighted response that it contributed
    spend  float64 (H,), minor units paid in each hour
    price  float64 (H,), λ in use in each hour, response per minor unit; NaN where there was none
    used   what the budget limits, in minor units: by default the sum of ``spend``; for an average
           budget the cost per account or per response that came out
    mean_cost  mean cost of its decisions in minor units, where it is known; ``spend`` is the cost as drawn
    """

    role: Role
    name: str
    value: float
    spend: NDArray[np.float64]
    price: NDArray[np.float64] | None = None
    used: float | None = None
    mean_cost: float | None = None

    @property
    def total(self) -> float:
        """Minor units paid over all hours."""
        return float(np.nansum(self.spend))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One campaign window under one course of arrivals.

    name, description  course of the day, for a reader who does not know the campaign
    budget             the limit
    arrivals           float64 (H,), requests in each hour
    planned_spend      float64 (H,), minor units that each hour's solve foresaw for its hour
    policies           the one the campaign ran comes first
    simulated          whether outcomes were drawn from a model or a generator
    attainable         values between which the policies are judged, where the mean response of every level is known
    shares             whether shares of a gain are shown: not where the gain of the day may be nothing
    weights            side → worth of one response of it
    """

    name: str
    description: str
    budget: Budget
    arrivals: NDArray[np.float64]
    policies: tuple[Policy, ...]
    planned_spend: NDArray[np.float64] | None = None
    simulated: bool = True
    attainable: Attainable | None = None
    shares: bool = True
    weights: Mapping[Side, float] = field(default_factory=dict)

    def times(self, factor: float) -> Scenario:
        """Return the same with values, and prices by them, in a unit of which one old unit is ``factor``."""
        known, policies = self.attainable, []
        for policy in self.policies:
            price = None if policy.price is None else factor * policy.price
            policies.append(replace(policy, value=factor * policy.value, price=price))
        if known is not None:
            known = Attainable(lowest=factor * known.lowest, flat=factor * known.flat, best=factor * known.best)
        return replace(self, policies=tuple(policies), attainable=known)

    def __post_init__(self) -> None:
        hours = np.shape(self.arrivals)
        if len(hours) != 1 or not self.policies:
            raise InvalidInput("needs arrivals by hour and at least one policy", field="scenario")
        series = {"planned_spend": self.planned_spend}
        for policy in self.policies:
            series |= {f"{policy.name}.spend": policy.spend, f"{policy.name}.price": policy.price}
        for name, hourly in series.items():
            if hourly is not None and np.shape(hourly) != hours:
                raise InvalidInput(f"must have one entry per hour, {hours[0]}, got {np.shape(hourly)}", field=name)

    def policy(self, role: Role) -> Policy | None:
        """The first policy of that role, if there is one."""
        return next((policy for policy in self.policies if policy.role == role), None)

    def used(self, policy: Policy) -> float:
        """Amount that the policy used, in the budget's own terms (minor units)."""
        return policy.total if policy.used is None else policy.used

    def excess(self, policy: Policy) -> float:
        """Relative excess over the budget; ≤ 0 is within it."""
        used = self.used(policy)
        if self.budget.limit > 0:
            return used / self.budget.limit - 1
        return np.inf if used > 0 else 0.0

    def overspent(self, policy: Policy) -> bool:
        """Return whether the policy exceeded its budget by so much that its value is not comparable."""
        return self.excess(policy) > OVERSPENT

    def of_best(self, policy: Policy) -> float:
        """The policy's share of the incremental value that is possible in hindsight.

        Incremental is what lies above the lowest incentive for every request. NaN where the optimum is not known, where
        it adds nothing or the day may have added nothing, or when the policy overspent.
        """
        if self.attainable is None or not self.shares or self.overspent(policy):
            return np.nan
        best = self.attainable.incremental(self.attainable.best)
        return self.attainable.incremental(policy.value) / best if best > 0 else np.nan

    def why_above(self, policy: Policy) -> str:
        """Reason why a policy's share of the optimum is above 100 %; empty where it is not."""
        if not self.of_best(policy) > 1:
            return ""
        limit = self.budget.limit if self.budget.form == "total" else np.nan
        if policy.mean_cost is not None and policy.mean_cost > limit:
            return (
                f"above 100 %: its outcomes cost less than their mean, which is {percent(policy.mean_cost / limit)} of "
                "the budget; the money that was left bought more than the optimum may plan for"
            )
        return "above 100 %: some responses cost nothing, which the optimum cannot plan for"


@dataclass(frozen=True, kw_only=True)
class Solve:
    """One solve of the price and its certificate; see :class:`shadowprice.price.PriceRecord`.

    certificate  verdict on gap and violation by the campaign's limits, in words
    published    whether the price became active; one that is not keeps the last price, and its figures are NaN
    """

    version: int
    slot: int
    status: str
    price: float
    primal: float
    dual: float
    gap: float
    violation: float
    rows: int
    seconds: float
    certificate: str = "certified"
    published: bool = True


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Content of the report of a run.

    title, dataset   of the run
    created_at       UTC
    simulated        whether the data themselves come from a generator
    currency         how money is written
    value_unit       what one unit of value is, in the plural
    facts            group → label → number or text: tables, graph
    sides            response and model quality, one entry per side
    worth            what personalizing is worth by held-out rows; None, or a reason in ``absent``: nothing is claimed
    gate             verdict on the model
    spend            side → spend of the model's policy at several prices, by held-out rows
    campaign         dates, levels and terms
    scenarios        the campaign as it ran first, then stress tests
    budgets          further budgets at the end of the campaign as it ran
    mix              who got what in the campaign as it ran
    solves           every solve of the run
    serving          label → number or text of the decision service
    steps            pipeline step → seconds
    versions         package → version
    notes            what a reader must know to judge the figures
    absent           section → why it is not in the report; a missing section without a reason is left out
    """

    title: str
    dataset: str
    created_at: datetime
    simulated: bool
    currency: Currency = field(default_factory=Currency)
    value_unit: str = "responses"
    facts: Mapping[str, Mapping[str, str | int | float]] = field(default_factory=dict)
    evidence: tuple[SideEvidence, ...] = ()
    sides: tuple[SideReport, ...] = ()
    worth: Worth | None = None
    gate: GateResult | None = None
    spend: Mapping[Side, HeldOutSpend] = field(default_factory=dict)
    campaign: Campaign | None = None
    scenarios: tuple[Scenario, ...] = ()
    budgets: tuple[FurtherBudget, ...] = ()
    mix: Mix | None = None
    solves: tuple[Solve, ...] = ()
    serving: Mapping[str, str | int | float] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    absent: Mapping[Section, str] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Return whether the gate refused the model, so that nothing of it is claimed."""
        return self.gate is not None and not self.gate.accepted

    def told(self) -> ReportData:
        """Return the report as a person reads it: values in money, and prices by them, are in major units.

        What was returned by it stays as it is.
        """
        if self.campaign is None or not self.campaign.in_money:
            return self
        factor, unit = self.campaign.told_in, f"{self.currency.major} of {self.campaign.earned}"
        if self.value_unit == unit:
            return self
        return replace(
            self,
            value_unit=unit,
            worth=None if self.worth is None else self.worth.times(factor),
            scenarios=tuple(scenario.times(factor) for scenario in self.scenarios),
            budgets=tuple(replace(budget, price=factor * budget.price) for budget in self.budgets),
            solves=tuple(
                replace(solve, price=factor * solve.price, primal=factor * solve.primal, dual=factor * solve.dual)
                for solve in self.solves
            ),
        )

    def __post_init__(self) -> None:
        if self.created_at.tzinfo is None:
            raise InvalidInput("must carry a time zone; times here are UTC", field="created_at")
        object.__setattr__(self, "created_at", self.created_at.astimezone(UTC))
