"""Compare hourly prices with one static price and with hindsight."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Budget, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.evaluation.policy.attainable import Attainable
from shadowprice.evaluation.policy.uniform import best_flat_value, flat_levels
from shadowprice.groups import Groups
from shadowprice.limits import GroupBudget
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.budgets.periods import whole_limit
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.pacers import Pacer, make_pacer
from shadowprice.pacing.replay.allowance import allowance
from shadowprice.pacing.replay.day import Day
from shadowprice.pacing.replay.ledger import SimulatedLedger
from shadowprice.pacing.replay.outcomes import NamedCurves, OutcomeModel
from shadowprice.pacing.replay.policies import PricedPolicy, Pricing
from shadowprice.pacing.replay.run import Replay, System, replay
from shadowprice.pacing.window import WindowSolution, able_accounts, solve_window
from shadowprice.policy import Choices


@dataclass(frozen=True)
class Setting:
    """One day, and the data that policies may read.

    outcomes  the truth
    model     side → the curves that the policies decide by; the truth's own where the model is perfect
    forecast  expected requests by slot
    history   side → accounts of requests before the window
    partners  side → partners of these requests, in the same order; a side that is missing has none
    groups    of accounts, which an experiment by clusters assigns
    attributes  side → columns of accounts that conditions of budgets and rules read
    """

    campaign: Campaign
    day: Day
    outcomes: OutcomeModel
    model: Mapping[Side, NamedCurves]
    forecast: Forecast
    history: Mapping[Side, NDArray[np.str_]]
    partners: Mapping[Side, NDArray[np.str_]] = field(default_factory=dict)
    groups: Groups | None = None
    attributes: Mapping[Side, Attributes] = field(default_factory=dict)

    @property
    def coverage(self) -> Coverage:
        """Budgets that count a request of the day, and levels that rules allow it."""
        return self.campaign.coverage(self.attributes)

    def marked(self, side: Side, curves: Curves, rows: NDArray[np.bool_]) -> Curves:
        """Curves of requests of the day, with their budgets and rules."""
        day = self.day.take(np.flatnonzero(rows))
        return self.coverage.mark(day.of_side(side), curves)

    def true(self, side: Side, rows: NDArray[np.bool_]) -> Curves:
        """True curves of requests of the day, likewise; no request of the day moves another."""
        curves = self.outcomes.curves(side, self.day.account_id[rows], self.day.at[rows])
        return replace(self.marked(side, curves, rows), influence=None)


def run_policies(setting: Setting, *, batch: int = 128, progress: bool = False) -> dict[str, Replay]:
    """Replay the day under each policy, in process, and without the hard stop where there is one budget alone.

    ``hourly``           the system: a new price every slot
    ``static``           one price, solved before the window from the forecast
    ``hindsight_model``  one price, solved on the day's actual requests with the model's curves
    ``hindsight``        the same with the true curves, deciding on them: no policy does better

    Without the hard stop a policy's overspend shows; :func:`score` counts what the hard stop would leave. It knows the
    main budget alone, so the hard stop holds further budgets and caps.
    """
    truth = replace(setting, model=setting.outcomes.truth)
    ways = {
        "hourly": (setting, make_pacer("hourly")),
        "static": (setting, make_pacer("static")),
        "hindsight_model": (setting, hindsight(setting)),
        "hindsight": (truth, hindsight(truth)),
    }
    stop = bool(setting.campaign.limits)
    return {
        name: run_pacer(way_setting, pacer, hard_stop=stop, batch=batch, progress=progress)
        for name, (way_setting, pacer) in ways.items()
    }


def run_pacer(
    setting: Setting,
    pacer: Pacer,
    *,
    hard_stop: bool = False,
    feed_down: tuple[float, float] = (0.0, 0.0),
    store_down: tuple[float, float] = (0.0, 0.0),
    delay: float = 0.0,
    batch: int = 128,
    progress: bool = False,
) -> Replay:
    """Replay the day under a pacer, in process; the options are those of the policy, the pricing and the replay."""
    ledger = SimulatedLedger(setting.campaign, setting.history, setting.coverage, partners=setting.partners)
    policy = PricedPolicy(setting.campaign, setting.model, ledger, hard_stop=hard_stop, groups=setting.groups)
    pricing = Pricing(policy, setting.forecast, pacer, feed_down=feed_down, store_down=store_down)
    return replay(
        setting.day,
        setting.campaign,
        setting.outcomes,
        System(policy, ledger.settle, pricing),
        moments=pricing.moments,
        delay=delay,
        batch=batch,
        progress=progress,
    )


def hindsight(setting: Setting) -> Pacer:
    """The pacer that knows the day's requests and the curves of ``setting.model``."""
    day = setting.day
    curves = {}
    for side in setting.campaign.sides:
        mine = day.side == side
        if mine.any():
            curves[side] = setting.marked(side, setting.model[side].of(day.account_id[mine]), mine)
    return make_pacer("hindsight", curves=curves)


def optimum(setting: Setting) -> float:
    """Expected value of the linear program over the day's own requests, on true curves: no policy's mean is higher.

    Exploration and arms are not in it: their cost shows as a loss. Where a merchant has more units than are paid for
    (``most_units``), a mean may be higher: the program charges all of them.
    """
    return solve_day(setting).primal


def solve_day(setting: Setting) -> WindowSolution:
    """Return the linear program's optimum of :func:`optimum`, with the price of each budget."""
    day, campaign = setting.day, setting.campaign.without_arms()
    budget = campaign.budget
    curves: dict[Side, Curves] = {}
    for side in campaign.sides:
        mine = day.side == side
        if mine.any():
            curves[side] = setting.true(side, mine)
    ahead = {side: float(those.accounts) for side, those in curves.items()}
    return solve_window(campaign, curves, ahead, budget.limit if budget.form == "total" else 0.0)


def attainable(setting: Setting) -> Attainable:
    """Values between which the policies of the day are judged: lowest levels, best flat mixture, :func:`optimum`.

    The flat mixture is the linear program's solution for one account per side with the mean true curve of the day's
    requests. O(requests · levels).
    """
    day, campaign = setting.day, setting.campaign.without_arms()
    means: dict[Side, Curves] = {}
    ahead: dict[Side, float] = {}
    marked: dict[Side, Curves] = {}
    lowest = 0.0
    for side, terms in campaign.sides.items():
        mine = day.side == side
        if mine.any():
            marked[side] = setting.true(side, mine)
            mean = marked[side].mean()
            means[side], ahead[side] = mean, float(marked[side].accounts)
            lowest += ahead[side] * float(terms.value(mean.response, mean.worth)[0, 0])
    if campaign.group_budgets or campaign.rules:
        return Attainable(lowest=lowest, flat=_flat_within(campaign, marked), best=optimum(setting))
    budget = campaign.budget
    solved = solve_window(campaign, means, ahead, budget.limit if budget.form == "total" else 0.0)
    feasible = solved.allocation.status == "optimal"
    return Attainable(lowest=lowest, flat=solved.primal if feasible else np.nan, best=optimum(setting))


def _flat_within(campaign: Campaign, curves: Mapping[Side, Curves]) -> float:
    """Value of the best flat mixture within all budgets and rules; a request that may be given nothing counts as 0."""
    budgets: list[Budget | GroupBudget] = [campaign.budget, *campaign.group_budgets]
    value: dict[Side, NDArray[np.float64]] = {}
    costs: list[dict[Side, NDArray[np.float64]]] = [{} for _ in budgets]
    requests: dict[Side, float] = {}
    for side, curve in curves.items():
        mine = curve.take(able_accounts(curve))
        allowed = np.ones(mine.response.shape, dtype=bool) if mine.allowed is None else mine.allowed
        level, columns = flat_levels(allowed), np.arange(mine.accounts)
        choices = Choices.marked(campaign, side, mine)
        requests[side] = float(mine.accounts)
        value[side] = choices.value[level, columns].mean(axis=1)
        for place, budget in enumerate(budgets):
            own = choices.charges[place][level, columns]
            if budget.form == "per_account":
                counted = 1.0 if place == 0 or mine.bits is None else mine.bits >> np.uint32(place - 1) & np.uint32(1)
                own = own - budget.limit * counted
            costs[place][side] = own.mean(axis=1)
    main = campaign.budget.limit if campaign.budget.form == "total" else 0.0
    limits = [main, *(whole_limit(campaign, group_budget) for group_budget in campaign.group_budgets)]
    floors = [False, *(group_budget.sense == "at_least" for group_budget in campaign.group_budgets)]
    return best_flat_value(value, costs, limits, floors, requests)


def score(campaign: Campaign, runs: Mapping[str, Replay]) -> pd.DataFrame:
    """One row per policy.

    ``allowance``       what the budget allowed: its limit, or limit × requests, or limit × measure
    ``spend``           minor units paid, as drawn; ``overspend`` is max(spend − allowance, 0)
    ``expected_spend``  the true mean of what the same decisions cost
    ``value``           weighted response, as drawn, whatever it cost
    ``expected_value``  its true mean, which is free of the luck of the draw
    ``…_within_budget`` the same, with the level that costs nothing once the allowance is spent (``Replay.within``)
    ``share_of_hindsight``  expected value within the budget over the hindsight optimum, the
                        expected value of ``hindsight``; luck can lift it a little above one, as
                        money that is not redeemed is offered again
    """
    rows = []
    for name, run in runs.items():
        outcomes = run.outcomes
        allowed, spend = allowance(campaign, outcomes), float(outcomes.cost.sum())
        rows.append(
            {
                "policy": name,
                "allowance": allowed,
                "spend": spend,
                "overspend": max(spend - allowed, 0.0),
                "expected_spend": float(outcomes.expected_cost.sum()),
                "value": float(outcomes.worth @ outcomes.response),
                "expected_value": float(outcomes.worth @ outcomes.expected_response),
                "value_within_budget": float(run.within.worth @ run.within.response),
                "expected_value_within_budget": value_within_budget(run),
            }
        )
    frame = pd.DataFrame(rows).set_index("policy")
    optimum = float(frame["expected_value"]["hindsight"])
    return frame.assign(share_of_hindsight=frame["expected_value_within_budget"] / optimum)


def value_within_budget(run: Replay) -> float:
    """Return the expected value of a day, with the level that costs nothing once the allowance is spent."""
    return float(run.within.worth @ run.within.expected_response)
