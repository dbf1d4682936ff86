"""Decisions of a model at a price, for requests of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from operations.common.workspace import MODEL, POPULATION, PRICES
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.experiments.logged_policy import LoggedRows, Target
from shadowprice.learning.bundle import read_meta
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.pacing.contexts import context_columns
from shadowprice.pacing.decision_log.served import ServedLog
from shadowprice.pacing.population import read_population
from shadowprice.pacing.price_store import PriceStore
from shadowprice.policy import Choices, Eligible, Policy
from shadowprice.responses.layers.heads import load_heads

NONE = -1
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class Priced:
    """Decisions of the policy on logged requests, under the campaign's rules and further budgets.

    policy    at the workspace's newest price, where one is known; half of what ties gets the dearer level
    requests  those that the rules allow some level
    curves    side → curves of its requests
    choices   side → levels of its requests
    """

    policy: Policy
    requests: pd.DataFrame
    curves: Mapping[str, Curves]
    choices: Mapping[str, Choices]

    @classmethod
    def of(cls, requests: pd.DataFrame, log: ServedLog, campaign: Campaign, workspace: Path) -> Priced:
        """Return the requests of a log as the model of a workspace decides them at its newest price."""
        newest = PriceStore(workspace / PRICES).latest(campaign.name, verified_only=True)
        prices = [0.0] * len(campaign.priced) if newest is None else newest.of(campaign.priced)
        policy = Policy(campaign, campaign.coverage().reading(workspace), prices, 0.5)
        context = context_columns(log.decisions.set_index("request_id")["context"].loc[requests["request_id"]].tolist())
        accounts, partners = requests["account_id"].tolist(), requests["partner_id"].tolist()
        able: list[np.ndarray[Any, Any]] = []
        eligible: dict[str, Eligible] = {}
        for side in SIDES:
            if (rows := np.flatnonzero(requests["side"] == side)).size:
                eligible[side] = policy.eligible(SideRequests(side, accounts, partners, context).take(rows))
                able.append(rows[eligible[side].rows])
        requests = requests.iloc[np.sort(np.concatenate(able))].reset_index(drop=True)
        curves = curves_of(workspace, requests, policy.coverage)
        choices = {side: policy.choices(asked, curves[side]) for side, asked in eligible.items()}
        return cls(policy, requests, curves, choices)

    def at(self, price: float, further: Sequence[float] | None = None) -> Callable[[str], Target]:
        """Return the policy at a price of the main budget, and at those (K − 1,) of further ones."""
        policy, prices = self.policy, [price, *(self.policy.prices[1:] if further is None else further)]

        def target(side: str) -> Target:
            ids = self.requests.loc[self.requests["side"] == side, "request_id"].tolist()
            made = self.choices[side].decide(prices, policy.tie_share, ids)
            return _with_model(policy.campaign, side, made.policy.propensities(), self.curves)

        return target


def population_of(workspace: Path) -> Mapping[Side, Any]:
    """Return side → accounts and curves of the model of a workspace; :class:`NotFound` where it has none."""
    model = (workspace / MODEL).resolve()
    version = str(read_meta(model)["model_version"])
    population = read_population(workspace / POPULATION / version, load_heads(model))
    if not population:
        raise NotFound(f"{workspace / POPULATION / version} holds no curves; register the model again")
    return population


def known_requests(requests: pd.DataFrame, population: Mapping[Side, Any]) -> tuple[pd.DataFrame, int]:
    """Return the requests of accounts that the model has a curve of, and the number of the others."""
    known = np.zeros(len(requests), dtype=bool)
    for side, side_accounts in population.items():
        own = (requests["side"] == side).to_numpy()
        accounts = pa.array(requests.loc[own, "account_id"].tolist(), pa.string())
        known[own] = np.asarray(pc.is_in(accounts, value_set=side_accounts.account_id.combine_chunks()))
    if not known.any():
        raise InvalidInput("has no curve of an account of the log", field="workspace")
    return requests[known].reset_index(drop=True), int((~known).sum())


def curves_of(workspace: Path, requests: pd.DataFrame, coverage: Coverage) -> Mapping[str, Curves]:
    """Return side → curves of requests of the log, whose accounts the model has."""
    curves_by_side: dict[str, Curves] = {}
    for side, side_accounts in population_of(workspace).items():
        names = requests.loc[requests["side"] == side, "account_id"].tolist()
        asked = pa.array(names, pa.string())
        places = pc.index_in(asked, value_set=side_accounts.account_id.combine_chunks()).to_numpy(zero_copy_only=False)
        own = side_accounts.curves.take(places)
        worth = coverage.worth(SideRequests(side, names), own.amounts)
        curves_by_side[side] = replace(own, weight=None, worth=worth)
    return curves_by_side


def flat_target(
    rows: LoggedRows, campaign: Campaign, level: int, curves: Mapping[str, Curves] | None
) -> Callable[[str], Target]:
    """Return the policy that gives every request one level."""

    def target(side: str) -> Target:
        levels, n = rows.propensity[side].shape
        if level >= levels:
            raise InvalidInput(f"side {side} has the levels 0 to {levels - 1}, got {level}", field="level")
        probability = np.zeros((levels, n))
        probability[level] = 1.0
        return _with_model(campaign, side, probability, curves)

    return target


def price_for(rows: LoggedRows, priced: Priced, budget: int, estimator: str) -> float:
    """Return the lowest price at which the estimated spend is within the budget, by bisection.

    The estimate at the price that is found has the check of the overlap; policies on the way need none.
    """

    n = rows.level.size

    def within(price: float) -> bool:
        # The estimate is NaN where the log has no row of the policy; this comparison takes it as too dear.
        return rows.mean_cost(priced.at(price), estimator) * n <= budget

    low = priced.policy.campaign.least_return
    if within(low):
        return low
    high = max(4 * low, 1e-6)
    while not within(high):
        low, high = high, 4 * high
        if high > 1e6:
            raise InvalidInput("is below what the cheapest levels cost", field="budget")
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if within(middle) else (middle, high)
    return high


def _with_model(
    campaign: Campaign, side: str, probability: np.ndarray[Any, Any], curves: Mapping[str, Curves] | None
) -> Target:
    if curves is None:
        return Target(probability)
    terms, own = campaign.terms(side), curves[side]  # type: ignore[arg-type]
    return Target(probability, terms.value(own.response, own.worth), terms.cost(own.response, own.amounts))
