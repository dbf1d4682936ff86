"""Plan a trial before the campaign starts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operations.common.job import Job, option, reads, required, write_figures, writes
from operations.common.workspace import read_campaign
from shadowprice.arms import COMPANY, WHOLE
from shadowprice.campaign import Campaign, Terms
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput
from shadowprice.experiments import plan
from shadowprice.experiments.planning import ExperimentPlan, Precision, Prior
from shadowprice.files import write_whole


@dataclass(frozen=True, kw_only=True)
class PlanJob(Job):
    """Write levels, shares, accounts, money and power of a trial."""

    campaign: Path = reads("file of the campaign whose terms are tried, or the workspace that has it")
    result: Path = writes("file that gets the plan as JSON")
    page: Path = writes("file that gets the plan as Markdown")
    figures: Path | None = writes("file of the price, the money and what the trial can find", optional=True)
    side: str = option("customer", "side that is tried")
    accounts: int = required("accounts of the trial, whether they ask or not, with the company's holdout")
    prior: Mapping[str, Any] = required(
        "JSON object: response by level, money per request; requests_per_account, correlation, variance if known"
    )
    precision: Mapping[str, Any] = required("JSON object of wanted half-widths: lift, curve, price")
    salt: str = option("", "salt of the experiment that the result then holds; empty: none")


def run(job: PlanJob) -> ExperimentPlan:
    """Write the plan.

    Raises:
        InvalidInput: beliefs or precisions that cannot be, or that so many accounts cannot give.
    """
    campaign = read_campaign(job.campaign)
    try:
        prior, precision = Prior(**job.prior), Precision(**job.precision)
    except TypeError as error:
        raise InvalidInput(f"does not have the fields of a plan: {error}", field="prior, precision") from error
    # The plan is for the account of the mean, and before any order: a percentage counts with its cap.
    own = campaign.terms(job.side)  # type: ignore[arg-type]
    terms = replace(own, worth="", percent=())
    held = round(job.accounts * campaign.holdout.share / WHOLE) if campaign.holdout else 0
    weights = campaign.draw_weights(job.side)  # type: ignore[arg-type]
    planned = plan(terms, job.accounts - held, prior, precision, weights=weights)
    experiment = {"experiment": planned.experiment(job.salt).to_dict()} if job.salt else {}
    result = {"campaign": campaign.name} | planned.to_dict() | experiment | ({COMPANY: held} if held else {})
    write_whole(job.result, json.dumps(result, indent=1))
    write_whole(job.page, "\n".join(_page(campaign, planned, own, held)) + "\n")
    money = {"price": planned.price, "spend": sum(planned.money.values())}
    cost = {"exploration_cost": planned.exploration_cost, "holdout_cost": planned.holdout_cost}
    widths = {f"{name}_half_width": width for name, width in planned.half_widths.items()}
    write_figures(job.figures, money | cost | {"detectable_gain": planned.detectable} | widths)
    return planned


def _page(campaign: Campaign, found: ExperimentPlan, terms: Terms, held: int) -> Iterator[str]:
    money = Currency.of(campaign.currency).write
    yield f"# Trial of campaign {campaign.name}"
    yield ""
    if terms.amounts:
        names = terms.names(Currency.of(campaign.currency))
        yield f"Offers to try: {', '.join(names[level] for level in found.levels)}."
        if any(terms.percent):
            yield "An offer in percent counts with its cap, so the money is the most that the trial can cost."
    else:
        yield f"Levels to try: {', '.join(map(money, found.levels))}."
    yield ""
    if held:
        yield f"The company's holdout keeps {held:,} accounts out of all arms; shares are of the others."
        yield ""
    yield "| arm | share | accounts | expected money | value given up, net of saved money |"
    yield "|---|---|---|---|---|"
    lost = {"explore": found.exploration_cost, "holdout": found.holdout_cost}
    for arm, share in found.shares.items():
        if share:
            row = f"{found.accounts[arm]:,} | {money(found.money[arm])} | {lost.get(arm, 0.0):,.4g}"
            yield f"| {arm} | {share / 100:.2f} % | {row} |"
    yield ""
    yield "| estimate | half-width of its interval |"
    yield "|---|---|"
    for name, width in found.half_widths.items():
        yield f"| {name} | {f'{width:.2%} of {found.price:.4g}' if name == 'price' else f'{width:.4g}'} |"
    if found.power:
        yield ""
        yield "| incremental response per assigned account | probability of finding it |"
        yield "|---|---|"
        for effect, power in zip(found.effects, found.power, strict=True):
            yield f"| {effect:.4g} | {power:.0%} |"
