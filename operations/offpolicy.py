"""Estimate from the decision log alone what an arm, another price, another budget or one level would have brought."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from operations.common.job import Job, option, reads, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import read_campaign, read_worths
from operations.questions.priced import NONE, Priced, curves_of, flat_target, known_requests, population_of, price_for
from shadowprice.arms import CANARY, UNASSIGNED
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.experiments.logged_policy import PolicyEstimate, Target, logged_rows
from shadowprice.experiments.served import READ, mature, served_requests
from shadowprice.files import write_whole
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.decision_log.segments import RowKind
from shadowprice.pacing.decision_log.served import ServedLog, read_log


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
    known, unknown = (requests, 0) if job.workspace is None else known_requests(requests, population_of(job.workspace))
    priced = None
    if job.workspace is not None and (job.price >= 0 or job.budget >= 0):
        priced = Priced.of(known, log, campaign, job.workspace)
        known = priced.requests
    rows = logged_rows(known, log.decisions)
    estimator = job.estimator or ("dr" if job.workspace is not None else "hajek")
    price: float | None = None
    if job.arm:
        estimate = rows.estimate(lambda side: Target(rows.propensity[side]), "hajek")
    elif job.level >= 0:
        curves = None if job.workspace is None else curves_of(job.workspace, known, coverage)
        estimate = rows.estimate(flat_target(rows, campaign, job.level, curves), estimator)
    else:
        assert priced is not None
        price = job.price if job.price >= 0 else price_for(rows, priced, job.budget, estimator)
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
        known, _ = known_requests(requests, population_of(workspace))
        priced = Priced.of(known, log, campaign, workspace)
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
