"""Estimate from the decision log alone what an arm, another price, another budget or one level would have brought."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from operations.common.job import Job, option, reads, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import MODEL, POPULATION, PRICES, read_campaign, read_worths
from shadowprice.arms import CANARY, UNASSIGNED
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.currency import Currency
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.experiments.logged_policy import LoggedRows, PolicyEstimate, Target, logged_rows
from shadowprice.experiments.served import READ, mature, served_requests
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta
from shadowprice.limits.coverage import Coverage, SideRequests
from shadowprice.pacing.contexts import context_columns
from shadowprice.pacing.decision_log.segments import RowKind
from shadowprice.pacing.decision_log.served import ServedLog, read_log
from shadowprice.pacing.population import read_population
from shadowprice.pacing.price_store import PriceStore
from shadowprice.policy import Choices, Eligible, Policy
from shadowprice.responses.layers.heads import load_heads

NONE = -1
BISECTIONS = 40


@dataclass(frozen=True, kw_only=True)
class OffpolicyJob(Job):
    """Estimate a policy on the mature requests of a log: exactly one of arm, price, budget and level.

    Requests of a holdout are left out, but for an arm: no other level was possible there. Those of the company's
    holdout are in no arm.
    """

    log: Path = reads("folder of the decision log")
    campaign: Path = reads("file of the campaign, or the workspace that has it")
    result: Path = writes("file that gets the result as JSON")
    page: Path = writes("file that gets the result as Markdown")
    workspace: Path | None = option(
        None, "folder with the model whose curves the policy decides by; for a price or a budget"
    )
    arm: str = option("", "arm whose own requests are summed up")
    price: float = option(-1.0, "price of money of the policy; -1: none")
    budget: int = option(NONE, "minor units for these requests; the price that spends them is found; -1: none")
    level: int = option(NONE, "level that every request gets; -1: none")
    estimator: str = option("", "ips, hajek or dr; empty: dr with a workspace, hajek without")
    side: str = option("", "side that is judged; empty: all together")
    mature_hours: int = maturity()

    def __post_init__(self) -> None:
        super().__post_init__()
        asked = [bool(self.arm), self.price >= 0, self.budget >= 0, self.level >= 0]
        if sum(asked) != 1:
            raise InvalidInput("give exactly one of arm, price, budget and level", field="offpolicy")
        if (self.price >= 0 or self.budget >= 0) and self.workspace is None:
            raise InvalidInput("is needed for a price or a budget: its model says who gets what", field="workspace")


def run(job: OffpolicyJob) -> PolicyEstimate:
    """Write the estimate.

    Raises:
        InvalidInput: the log cannot answer: no mature request, too little overlap, or too few rows; the message says
            why.
        NotFound: the workspace has no model.
    """
    campaign = read_campaign(job.campaign)
    log = read_log(job.log, columns=_read(priced=job.price >= 0 or job.budget >= 0))
    hours = hours_of(job.mature_hours, campaign)
    coverage = read_worths(campaign, job.campaign)
    requests, nothing = _judged(log, campaign, coverage, hours, job.arm, job.side)
    known, unknown = (requests, 0) if job.workspace is None else _known(requests, _population(job.workspace))
    priced = None
    if job.workspace is not None and (job.price >= 0 or job.budget >= 0):
        priced = _Priced.of(known, log, campaign, job.workspace)
        known = priced.requests
    rows = logged_rows(known, log.decisions)
    estimator = job.estimator or ("dr" if job.workspace is not None else "hajek")
    price: float | None = None
    if job.arm:
        estimate = rows.estimate(lambda side: Target(rows.propensity[side]), "hajek")
    elif job.level >= 0:
        curves = None if job.workspace is None else _curves(job.workspace, known, coverage)
        estimate = rows.estimate(_flat(rows, campaign, job.level, curves), estimator)
    else:
        assert priced is not None
        price = job.price if job.price >= 0 else _price(rows, priced, job.budget, estimator)
        estimate = rows.estimate(priced.at(price), estimator)
    ineligible = len(requests) - unknown - estimate.requests - estimate.outside
    content = {
        "campaign": campaign.name,
        "policy": {"arm": job.arm or None, "level": job.level if job.level >= 0 else None, "price": price},
        "mature_hours": hours,
        "unknown_accounts": unknown,
        "ineligible": ineligible,
        "given_nothing": nothing,
        **asdict(estimate),
    }
    write_whole(job.result, json.dumps(content, indent=1))
    write_whole(job.page, "\n".join(_page(campaign, job, estimate, price, (nothing, unknown, ineligible))) + "\n")
    return estimate


def at_prices(
    folder: Path, campaign: Campaign, workspace: Path, prices: Sequence[Mapping[str, float]], hours: float
) -> tuple[list[PolicyEstimate | str], int]:
    """Estimate from a log what the model of a workspace brings at some prices; the reason where the log cannot tell.

    Also return the number of requests that were given nothing, which the estimates leave out.

    Args:
        folder: of the decision log.
        campaign: with its rules and further budgets; what caps and hard stops would refuse is not taken off.
        workspace: whose model's curves say who gets what.
        prices: name of each budget → its price, of each policy; 0 of a further budget that is missing.
        hours: age at which a decision without an outcome counts as no response.
    """
    log = read_log(folder, columns=_read(priced=True))
    try:
        requests, nothing = _judged(log, campaign, read_worths(campaign, workspace), hours)
        known, _ = _known(requests, _population(workspace))
        priced = _Priced.of(known, log, campaign, workspace)
        rows = logged_rows(priced.requests, log.decisions)
    except InvalidInput as error:
        return [str(error)] * len(prices), 0
    estimates: list[PolicyEstimate | str] = []
    main, *further = campaign.priced
    for price in prices:
        try:
            estimates.append(rows.estimate(priced.at(price[main], [price.get(name, 0.0) for name in further]), "dr"))
        except InvalidInput as error:
            estimates.append(str(error))
    return estimates, nothing


def _read(*, priced: bool) -> Mapping[RowKind, tuple[str, ...]]:
    """Return the columns of the log that an estimate needs; rules of a policy at a price read the context."""
    decided = (*READ["decisions"], "propensities")
    return {**READ, "decisions": (*decided, "context") if priced else decided}


def _judged(
    log: ServedLog, campaign: Campaign, coverage: Coverage, hours: float, arm: str = "", side: str = ""
) -> tuple[pd.DataFrame, int]:
    """Return the requests that the policy is judged on, and the number of those that were given nothing.

    Limits give a request nothing whatever the policy is, where its side has no level that costs nothing.
    """
    requests = mature(served_requests(log, campaign, coverage), log, hours)
    if side:
        campaign.terms(side)  # type: ignore[arg-type]
        requests = requests[requests["side"] == side]
    arms = (
        {}
        if campaign.experiment is None
        else {served_arm.name: served_arm.kind for served_arm in campaign.experiment.arms}
    )
    if arm and arm not in (known := [*arms, UNASSIGNED, CANARY]):
        raise InvalidInput(f"there is no arm {arm!r}; there are {known}", field="arm")
    held = [name for name, kind in arms.items() if kind == "holdout"]
    requests = requests[requests["arm"] == arm if arm else ~requests["arm"].isin(held)]
    if requests.empty:
        raise InvalidInput(
            f"no such decision is {hours:g} hours old; wait, or give 0 where the outcomes are all there",
            field="mature_hours",
        )
    level = log.decisions.set_index("request_id")["level"].loc[requests["request_id"]].to_numpy()
    if not (level >= 0).any():
        raise InvalidInput("no such decision gave a level", field="log")
    return requests[level >= 0].reset_index(drop=True), int((level < 0).sum())


@dataclass(frozen=True, eq=False)
class _Priced:
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
    def of(cls, requests: pd.DataFrame, log: ServedLog, campaign: Campaign, workspace: Path) -> _Priced:
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
        curves = _curves(workspace, requests, policy.coverage)
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


def _population(workspace: Path) -> Mapping[Side, Any]:
    model = (workspace / MODEL).resolve()
    version = str(read_meta(model)["model_version"])
    population = read_population(workspace / POPULATION / version, load_heads(model))
    if not population:
        raise NotFound(f"{workspace / POPULATION / version} holds no curves; register the model again")
    return population


def _known(requests: pd.DataFrame, population: Mapping[Side, Any]) -> tuple[pd.DataFrame, int]:
    """Return the requests of accounts that the model has a curve of, and the number of the others."""
    known = np.zeros(len(requests), dtype=bool)
    for side, side_accounts in population.items():
        own = (requests["side"] == side).to_numpy()
        accounts = pa.array(requests.loc[own, "account_id"].tolist(), pa.string())
        known[own] = np.asarray(pc.is_in(accounts, value_set=side_accounts.account_id.combine_chunks()))
    if not known.any():
        raise InvalidInput("has no curve of an account of the log", field="workspace")
    return requests[known].reset_index(drop=True), int((~known).sum())


def _curves(workspace: Path, requests: pd.DataFrame, coverage: Coverage) -> Mapping[str, Curves]:
    curves_by_side: dict[str, Curves] = {}
    for side, side_accounts in _population(workspace).items():
        names = requests.loc[requests["side"] == side, "account_id"].tolist()
        asked = pa.array(names, pa.string())
        places = pc.index_in(asked, value_set=side_accounts.account_id.combine_chunks()).to_numpy(zero_copy_only=False)
        own = side_accounts.curves.take(places)
        worth = coverage.worth(SideRequests(side, names), own.amounts)
        curves_by_side[side] = replace(own, weight=None, worth=worth)
    return curves_by_side


def _flat(
    rows: LoggedRows, campaign: Campaign, level: int, curves: Mapping[str, Curves] | None
) -> Callable[[str], Target]:
    def target(side: str) -> Target:
        levels, n = rows.propensity[side].shape
        if level >= levels:
            raise InvalidInput(f"side {side} has the levels 0 to {levels - 1}, got {level}", field="level")
        probability = np.zeros((levels, n))
        probability[level] = 1.0
        return _with_model(campaign, side, probability, curves)

    return target


def _with_model(
    campaign: Campaign, side: str, probability: np.ndarray[Any, Any], curves: Mapping[str, Curves] | None
) -> Target:
    if curves is None:
        return Target(probability)
    terms, own = campaign.terms(side), curves[side]  # type: ignore[arg-type]
    return Target(probability, terms.value(own.response, own.worth), terms.cost(own.response, own.amounts))


def _price(rows: LoggedRows, priced: _Priced, budget: int, estimator: str) -> float:
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


def _outside(found: PolicyEstimate) -> str:
    share = f"{found.outside / (found.requests + found.outside):.2%} of all"
    value = found.outside_value
    return share if value is None else f"{share} and {value:.2%} of the value that the model expects of the policy"


def _page(
    campaign: Campaign, job: OffpolicyJob, found: PolicyEstimate, price: float | None, left_out: tuple[int, int, int]
) -> Iterator[str]:
    policy = f"arm `{job.arm}`" if job.arm else f"level {job.level} for all" if price is None else f"price {price:.6g}"
    currency = Currency.of(campaign.currency)
    yield f"# Estimate of another policy: {campaign.name}, {policy}"
    yield ""
    yield f"From {found.requests:,} requests of the log, by `{found.estimator}`, with {found.value.level:.0%} intervals"
    yield f"that draw whole accounts. The log is worth {found.effective_rows:,.0f} requests of this policy."
    reasons = ("that were given nothing", "of accounts without a curve", "that the rules allow no level")
    for count, reason in zip(left_out, reasons, strict=True):
        if count:
            yield f"{count:,} requests {reason} are left out."
    if found.outside:
        yield f"{found.outside:,} requests, {_outside(found)}, could not get in the log what the policy gives: they are"
        yield "left out too."
    yield ""
    yield "| | per request | in all |"
    yield "|---|---|---|"
    plain = "{:,.5g}".format
    value = campaign.earned if campaign.long_term else "value"
    for name, estimate, mean, sums in (
        (value, found.value, *((currency.write_mean, currency.write) if campaign.in_money else (plain, plain))),
        ("spend", found.cost, currency.write_mean, currency.write),
    ):
        bounds = (estimate.value, estimate.low, estimate.high)
        one, total = map(mean, bounds), [sums(found.requests * bound) for bound in bounds]
        yield "| " + " | ".join([name, *(f"{each} [{low}, {high}]" for each, low, high in (one, total))]) + " |"
