"""Answer what a campaign would bring under other terms, over the stored population of its model."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operations.common.delivery_whatif import PlaceQuestion
from operations.common.job import Job, option, reads, required, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import read_campaign
from operations.offpolicy import at_prices
from operations.questions.question import _amount, _side, open_what_if, plain
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput
from shadowprice.experiments.logged_policy import PolicyEstimate
from shadowprice.files import write_whole
from shadowprice.pacing.questions import Answer, Change, GroupLimit
from shadowprice.pacing.what_if import SAMPLE_ROWS, SHARES, WhatIf


@dataclasses.dataclass(frozen=True, kw_only=True)
class WhatifJob(Job):
    """Solve a campaign under other terms and write the answer as JSON.

    The file holds ``current`` (the campaign's own terms), ``asked`` (the terms of this job) and ``curve`` (50 to 200 %
    of the budget), each with intervals for the sample of accounts, and ``believed`` with the errors of the curves
    besides. With a log, ``logged`` has for each of them what the served requests tell about the policy at its price,
    without trust in the curves' level.
    """

    answer: Path = writes("JSON file of the answers")
    workspace: Path = required("folder with campaign, model, population and traffic")
    state: Path | None = reads("file of the measure job; without it the whole window is asked about", optional=True)
    groups: Path | None = reads("parquet table of account_id and group, for limits on groups", optional=True)
    budget: float = option(-1.0, "minor units, in all or of a mean; the campaign's own where negative")
    least_return: float = option(
        -1.0, "of the last unit of money; without a budget, the one that just returns it; -1: none"
    )
    levels: Mapping[str, Any] = option({}, "side to list of levels offered, as JSON; some of the campaign's")
    limits: Mapping[str, Any] = option({}, "side, group, condition or further budget to minor units, as JSON")
    caps: Mapping[str, Any] = option({}, "side to most minor units that one account may cost, as JSON")
    sizes: Mapping[str, Any] = option({}, "segment of a delivery to number of accounts, as JSON")
    fees: Mapping[str, Any] = option({}, "segment of a delivery to the share of value that counts, as JSON")
    rows: int = option(SAMPLE_ROWS, "accounts to solve on; 0 for all")
    log: Path | None = reads("folder of a decision log that the answers are also estimated from", optional=True)
    mature_hours: int = maturity()


def run(job: WhatifJob) -> dict[str, Any]:
    """Solve and write the answers.

    Returns:
        The content of the file, in JSON types; what is not finite is None.

    Raises:
        InvalidInput: terms that the campaign cannot have, or a limit on a group without accounts.
        NotFound: no population of the model.
    """
    campaign = read_campaign(job.workspace)
    if campaign.segments:
        answer = _delivery(job)
        write_whole(job.answer, json.dumps(answer, indent=1))
        return answer
    if job.sizes or job.fees:
        raise InvalidInput("has no segments: only a delivery has sizes and fees", field="campaign")
    asked = open_what_if(job.workspace, job.state, job.rows)
    amounts = {name: _amount(name, limit) for name, limit in job.limits.items()}
    own = {group_budget.name for group_budget in asked.campaign.group_budgets}
    groups = tuple(
        GroupLimit(name, limit, asked.members(name, job.groups)) for name, limit in amounts.items() if name not in own
    )
    change = Change(
        budget=None if job.budget < 0 else job.budget,
        least_return=None if job.least_return < 0 else job.least_return,
        levels={_side(side, asked.campaign): tuple(levels) for side, levels in job.levels.items()},
        limits={name: limit for name, limit in amounts.items() if name in own},
        groups=groups,
        caps={_side(side, asked.campaign): _amount(side, cap) for side, cap in job.caps.items()},
    )
    answer = {
        "campaign": asked.campaign.name,
        "current": _believed(asked.solver, asked.solver.ask()),
        "asked": _believed(asked.solver, asked.solver.ask(change), change),
        "curve": [
            {"share": share} | _believed(asked.solver, found)
            for share, found in zip(SHARES, asked.solver.budgets(), strict=True)
        ],
    }
    if job.log is not None:
        answer["logged"] = _logged(job, asked.campaign, answer)
    write_whole(job.answer, json.dumps(answer, indent=1))
    return answer


def _believed(solver: WhatIf, answer: Answer, change: Change | None = None) -> dict[str, Any]:
    """An answer in JSON types, and what the model's held-out rows make of it, where they are known."""
    belief = solver.believe(answer, change)
    return plain(answer) | ({} if belief is None else {"believed": plain(belief)})


def _delivery(job: WhatifJob) -> dict[str, Any]:
    """Answer about a delivery, which has sizes and fees and no budget."""
    if (
        job.budget > 0
        or job.least_return >= 0
        or job.levels
        or job.limits
        or job.caps
        or job.groups
        or job.state
        or job.log
    ):
        raise InvalidInput("is a delivery: ask about sizes and fees, and leave the other terms out", field="campaign")
    sizes = {name: _amount(name, size) for name, size in job.sizes.items()}
    if wrong := [name for name, size in sizes.items() if size != int(size) or size < 0]:
        raise InvalidInput("must be a number of accounts", field=f"sizes.{wrong[0]}")
    shares = {name: _amount(name, fee) for name, fee in job.fees.items()}
    return PlaceQuestion.open(job.workspace).ask({name: int(size) for name, size in sizes.items()}, shares)


def _logged(job: WhatifJob, campaign: Campaign, found: Mapping[str, Any]) -> dict[str, Any]:
    """Estimate from the log, per request, what each answer's policy brings; ``refused`` says why there is none."""
    answers = [found["current"], found["asked"], *found["curve"]]
    assert job.log is not None
    prices = [
        answer["prices"] if answer["prices"].get(campaign.budget.name) is not None else None for answer in answers
    ]
    known = [price for price in prices if price is not None]
    hours = hours_of(job.mature_hours, campaign)
    found_at, nothing = at_prices(job.log, campaign, job.workspace, known, hours)
    estimates = iter(found_at)
    logged = [{"refused": "there is no price"} if price is None else _told(next(estimates)) for price in prices]
    if job.levels or job.caps or set(job.limits) - set(campaign.priced):
        logged[1] = {
            "refused": "the log is asked at prices of the campaign's budgets: leave levels, caps and groups out"
        }
    return {
        "current": logged[0],
        "asked": logged[1],
        "curve": logged[2:],
        "given_nothing": nothing,
    }


def _told(estimate: PolicyEstimate | str) -> dict[str, Any]:
    return {"refused": estimate} if isinstance(estimate, str) else dataclasses.asdict(estimate)
