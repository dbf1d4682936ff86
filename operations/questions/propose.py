"""Propose budgets of several campaigns that have one sum of money together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operations.questions.question import open_what_if
from shadowprice.allocation.portfolio.curve import ValueCurve
from shadowprice.allocation.portfolio.solve import Portfolio, solve_portfolio
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.pacing.questions import Answer, Change
from shadowprice.pacing.what_if import SAMPLE_ROWS, WhatIf
from shadowprice.progress import Stages

STEPS = 4
"""Budgets from floor to cap at which a campaign is asked first."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Proposal for one campaign; values are in the unit that all campaigns have together.

    now, then     the campaign solved at its present and at the proposed budget
    returns       value of its last unit of money now, with the errors of its curves where its model knows them, and of
                  the sample of accounts
    beyond_noise  the common price lies outside the interval of ``returns``
    floor, cap    least and largest budget in minor units
    """

    campaign: Campaign
    now: Answer
    then: Answer
    returns: Estimate
    beyond_noise: bool
    floor: int
    cap: int

    @property
    def moved(self) -> float:
        """Minor units that it gets more."""
        return self.then.budget - self.now.budget

    @property
    def gained(self) -> float:
        """Value that it brings more, by its curves."""
        return self.then.value.value - self.now.value.value


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """Budgets for all campaigns.

    total      minor units
    portfolio  the solution: price, value and the bound on what any other division brings more
    of         name → proposal, in the order of the workspaces
    """

    total: int
    portfolio: Portfolio
    of: Mapping[str, Proposal]

    @property
    def gained(self) -> float:
        """Value that the division brings more than the present budgets."""
        return sum(proposal.gained for proposal in self.of.values())


def propose(
    workspaces: Sequence[Path],
    total: int | None = None,
    floors: Mapping[str, int] | None = None,
    caps: Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
    rows: int = SAMPLE_ROWS,
) -> Proposed:
    """Divide one sum of money between the campaigns of workspaces, so that it brings the most.

    Args:
        workspaces: folder of each run; every campaign has a total budget.
        total: minor units; None: what the campaigns have today together.
        floors, caps: name → least and largest budget in minor units; by default nothing and all.
        weights: name → worth of one unit of its value; 1 where it is not named. They are needed where campaigns have
            different objectives.
        rows: accounts of each campaign that are solved on; 0 for all.

    Raises:
        InvalidInput: campaigns with one name, in different currencies or objectives, or without a total budget; or
            floors and caps that cannot be met.
    """
    solvers: dict[str, WhatIf] = {}
    for workspace in workspaces:
        solver = open_what_if(workspace, rows=rows).solver
        name = solver.campaign.name
        if name in solvers:
            raise InvalidInput(f"{workspace}: there is another campaign of the name {name!r}", field="workspaces")
        solvers[name] = solver
    return divide(solvers, total, floors, caps, weights)


def divide(
    solvers: Mapping[str, WhatIf],
    total: int | None = None,
    floors: Mapping[str, int] | None = None,
    caps: Mapping[str, int] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Proposed:
    """Divide one sum between campaigns, by name, of which each can be asked; arguments are those of :func:`propose`.

    The present budget of each is that of the campaign of its solver.

    Raises:
        InvalidInput: as :func:`propose`.
    """
    floors, caps, weights = floors or {}, caps or {}, weights or {}
    _check({name: solver.campaign for name, solver in solvers.items()}, weights)
    own = {name: int(solver.campaign.budget.limit) for name, solver in solvers.items()}
    whole = sum(own.values()) if total is None else total
    answers: dict[tuple[str, int], Answer] = {}
    with Stages("portfolio", 2) as stage:

        def ask(name: str, budget: int) -> Answer:
            known = answers.get((name, budget))
            if known is None:
                known = solvers[name].ask(Change(budget=float(budget))).times(weights.get(name, 1.0))
                if known.status != "optimal":
                    raise InvalidInput(
                        f"{name}: a budget of {budget} minor units is {known.status}; give it a higher floor",
                        field="floors",
                    )
                answers[name, budget] = known
            return known

        stage("ask each campaign")
        curves = {}
        for name in solvers:
            low, high = floors.get(name, 0), min(caps.get(name, whole), whole)
            points = sorted({own[name], *(low + (high - low) * step // STEPS for step in range(STEPS + 1))})
            found = [ask(name, budget) for budget in points if budget >= 0]
            curves[name] = ValueCurve.of(
                [answer.budget for answer in found],
                [answer.value.value for answer in found],
                [answer.price.value for answer in found],
            )
        stage("agree on one price")
        asks = {name: (lambda budget, name=name: _point(ask(name, budget))) for name in solvers}
        portfolio = solve_portfolio(asks, curves, whole, floors, caps)
        proposals = {}
        for name, solver in solvers.items():
            now, then = ask(name, own[name]), ask(name, portfolio.budget[name])
            returns = now.price
            if belief := solver.believe(solver.ask()):
                returns = belief.price.times(weights.get(name, 1.0))
            noise = returns.low <= portfolio.price <= returns.high
            proposals[name] = Proposal(
                campaign=solver.campaign,
                now=now,
                then=then,
                returns=returns,
                beyond_noise=not noise,
                floor=floors.get(name, 0),
                cap=min(caps.get(name, whole), whole),
            )
    return Proposed(total=whole, portfolio=portfolio, of=proposals)


def _point(answer: Answer) -> tuple[float, float]:
    return answer.value.value, answer.price.value


def _check(campaigns: Mapping[str, Campaign], weights: Mapping[str, float]) -> None:
    for name, campaign in campaigns.items():
        if campaign.budget.form != "total":
            raise InvalidInput(f"of {name!r} is a mean; only totals can be divided", field="budget.form")
    check_values(campaigns, weights)


def check_values(campaigns: Mapping[str, Campaign], weights: Mapping[str, float]) -> None:
    """Raise :class:`InvalidInput` for campaigns whose money and values cannot be added up."""
    if len(campaigns) < 2:
        raise InvalidInput("must be at least two", field="workspaces")
    if unknown := sorted(set(weights) - set(campaigns)):
        raise InvalidInput(f"must name campaigns of {sorted(campaigns)}, got {unknown[0]!r}", field="weights")
    if wrong := sorted(name for name, weight in weights.items() if not weight > 0):
        raise InvalidInput(f"of {wrong[0]!r} must be positive", field="weights")
    for field, differ in (
        ("currency", {campaign.currency for campaign in campaigns.values()}),
        ("objective", {campaign.earned for name, campaign in campaigns.items() if name not in weights}),
    ):
        if len(differ) > 1:
            more = "; give each campaign a weight" if field == "objective" else ""
            raise InvalidInput(f"must be one of all campaigns, got {sorted(differ)}{more}", field=field)
