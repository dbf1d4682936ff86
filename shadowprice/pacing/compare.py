"""What hourly prices are worth: against one static price, and against hindsight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.campaign import Campaign, Side
from shadowprice.pacing.day import Day
from shadowprice.pacing.forecast import Forecast
from shadowprice.pacing.outcomes import OutcomeModel, Outcomes, Population
from shadowprice.pacing.policies import Books, PricedPolicy, Pricer
from shadowprice.pacing.replay import Replay, ResolveSlot, replay, weighted


@dataclass(frozen=True)
class Setting:
    """One day and everything the policies may know of it.

    outcomes  the truth
    model     side → the curves the policies believe in; the truth's own where the model is perfect
    forecast  expected requests by slot
    history   side → accounts of requests before the window
    """

    campaign: Campaign
    day: Day
    outcomes: OutcomeModel
    model: Mapping[Side, Population]
    forecast: Forecast
    history: Mapping[Side, NDArray[np.str_]]


def run_policies(setting: Setting, *, batch: int = 128, progress: bool = False) -> dict[str, Replay]:
    """Replay the day under each policy, in process and without the hard stop.

    ``hourly``           the system: a new price every slot
    ``static``           one price, solved before the window from the forecast
    ``hindsight_model``  one price, solved on the day's actual requests with the model's curves
    ``hindsight``        the same with the true curves, deciding on them: no policy does better

    Without the hard stop a policy's overspend shows; :func:`score` counts what lies within the budget.
    """
    runs: dict[str, Replay] = {}
    for name in ("hourly", "static", "hindsight_model", "hindsight"):
        curves = setting.outcomes.truth if name == "hindsight" else setting.model
        books = Books(setting.campaign, setting.history)
        policy = PricedPolicy(setting.campaign, curves, books)
        pricer = Pricer(policy, setting.forecast)
        methods: dict[str, ResolveSlot] = {"hourly": pricer.hourly, "static": pricer.static}
        runs[name] = replay(
            setting.day,
            setting.campaign,
            setting.outcomes,
            policy,
            books.settle,
            methods.get(name, pricer.hindsight(setting.day)),
            batch=batch,
            progress=progress,
        )
    return runs


def score(campaign: Campaign, runs: Mapping[str, Replay]) -> pd.DataFrame:
    """One row per policy.

    ``allowance``       what the budget allowed: its limit, or limit × requests, or limit × measure
    ``spend``           minor units paid, as drawn; ``overspend`` is max(spend − allowance, 0)
    ``expected_spend``  the true mean of what the same decisions cost
    ``value``           weighted response, as drawn, whatever it cost
    ``expected_value``  its true mean, which is free of the luck of the draw
    ``…_within_budget`` the same, counted request by request only while the allowance lasts
    ``share_of_hindsight``  expected value within the budget over the hindsight optimum, the
                        expected value of ``hindsight``; luck can lift it a little above one, as
                        money that is not redeemed is offered again
    """
    rows = []
    for name, run in runs.items():
        outcomes = run.outcomes
        drawn = weighted(campaign, outcomes, outcomes.response)
        mean = weighted(campaign, outcomes, outcomes.expected_response)
        allowance, spend = _allowance(campaign, outcomes), float(outcomes.cost.sum())
        inside = np.cumsum(outcomes.cost) <= allowance * (1 + 1e-12)
        rows.append(
            {
                "policy": name,
                "allowance": allowance,
                "spend": spend,
                "overspend": max(spend - allowance, 0.0),
                "expected_spend": float(outcomes.expected_cost.sum()),
                "value": float(drawn.sum()),
                "expected_value": float(mean.sum()),
                "value_within_budget": float(drawn[inside].sum()),
                "expected_value_within_budget": float(mean[inside].sum()),
            }
        )
    frame = pd.DataFrame(rows).set_index("policy")
    optimum = float(frame["expected_value"]["hindsight"])
    return frame.assign(share_of_hindsight=frame["expected_value_within_budget"] / optimum)


def _allowance(campaign: Campaign, outcomes: Outcomes) -> float:
    budget = campaign.budget
    if budget.form == "total":
        return float(budget.limit)
    if budget.form == "per_account":
        return budget.limit * len(outcomes)
    earned = 0.0
    for side, terms in campaign.sides.items():
        mine = outcomes.side == side
        earned += float(outcomes.response[mine].sum()) if terms.cost_basis == "on_response" else float(mine.sum())
    return budget.limit * earned
