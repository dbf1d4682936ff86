"""Answer what a campaign would bring under other terms, over the stored population of its model."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from operations.common.accounts import read_accounts
from operations.common.delivery_whatif import PlaceQuestion
from operations.common.job import Job, option, reads, required, writes
from operations.common.maturity import hours_of, maturity
from operations.common.to_come import requests_to_come
from operations.common.workspace import MODEL, POPULATION, read_campaign, read_columns, watch_alarms
from operations.measure import before_start
from operations.offpolicy import at_prices
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.experiments.logged_policy import PolicyEstimate
from shadowprice.files import write_whole
from shadowprice.learning.bundle import POSTERIOR, read_meta
from shadowprice.limits.attributes import read_attributes
from shadowprice.limits.conditions import Condition, Reading, columns_of
from shadowprice.pacing.budgets.caps import CapsAhead, counting_prices
from shadowprice.pacing.budgets.in_hand import (
    expected_cost_of_holds,
    in_hand_of_budgets,
    remaining_budget,
    shares_of_budgets,
)
from shadowprice.pacing.budgets.periods import bending, parts_of
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.population import SideAccounts, read_population
from shadowprice.pacing.questions import Answer, Belief, Change, GroupLimit, InHand
from shadowprice.pacing.state import PricingState
from shadowprice.pacing.what_if import SAMPLE_ROWS, SHARES, WhatIf
from shadowprice.pacing.window import solve_window
from shadowprice.responses.layers.heads import curves_of, load_heads
from shadowprice.responses.posterior import CurvePosterior


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


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """A campaign that can be asked about.

    population  side → accounts, in the order of the solver's curves; one for each partner where limits read it
    workspace   folder with the columns of the accounts, for groups by a condition
    """

    campaign: Campaign
    population: Mapping[Side, SideAccounts]
    solver: WhatIf
    workspace: Path = Path()

    def members(self, name: str, table: Path | None, seconds: float = math.inf) -> dict[Side, NDArray[np.bool_]]:
        """side → bool (N,), the accounts of a side, of a group in the table, or without a table of a condition.

        ``seconds`` bounds the evaluation of a condition on one side.
        """
        if name in self.population:
            return {side: np.full(len(accounts.account_id), side == name) for side, accounts in self.population.items()}
        if table is None:
            condition = Condition(name, f"limits.{name} (neither a side nor in a table of groups)")
            inside_of = self._where(condition, seconds)
        else:
            rows = read_accounts(table, ("account_id", "group"))
            inside = pa.array(rows["account_id"][rows["group"] == name], pa.string())
            inside_of = {
                side: np.asarray(pc.is_in(accounts.account_id, value_set=inside))
                for side, accounts in self.population.items()
            }
        if not any(mask.any() for mask in inside_of.values()):
            raise InvalidInput(f"no account of the model is in group {name!r}", field="limits")
        return inside_of

    def _where(self, condition: Condition, seconds: float) -> dict[Side, NDArray[np.bool_]]:
        """side → bool (N,), the accounts of which a condition over their own columns holds; none without a value."""
        if other := [noun for noun, _ in condition.reads if noun not in ("account", "side")]:
            raise InvalidInput(f"may read account and side, not {other[0]}", field="limits")
        names, masks, faults = columns_of([condition], "account"), {}, []
        for side, asked_accounts in self.population.items():
            accounts = asked_accounts.account_id.to_pylist()
            values: dict[Reading, list[Any]] = {("side", ""): [side] * len(accounts)}
            try:
                table = read_attributes(self.workspace, side, names) if names else None
            except InvalidInput as error:
                faults.append(error)
                masks[side] = np.zeros(len(accounts), dtype=np.bool_)
                continue
            empty = [("account", name) for name in names if table is not None and table.empty(name)]
            if condition.needs(empty, side):
                masks[side] = np.zeros(len(accounts), dtype=np.bool_)
                continue
            values |= {("account", name): table.read(name, accounts) for name in names if table is not None}
            masks[side] = condition.holds(values, len(accounts), seconds)
        if len(faults) == len(masks):
            raise faults[0]
        return masks


def open_what_if(
    workspace: Path, state: Path | None = None, rows: int = SAMPLE_ROWS, campaign: Campaign | None = None
) -> Question:
    """Open the population of a workspace for questions about the whole window, or about the rest of it.

    ``campaign`` has other terms than that of the workspace, and the same levels; another window has the traffic of the
    same hours of the day, and as many requests as it expects where it says so.

    Raises:
        NotFound: the model has no stored population.
        InvalidInput: the campaign is a delivery.
    """
    campaign = campaign or read_campaign(workspace)
    if any(terms.segments for terms in campaign.sides.values()):
        raise InvalidInput("is a delivery: it has segments of exact sizes and no budget to ask about", field="campaign")
    model = (workspace / MODEL).resolve()
    meta = read_meta(model)
    version, heads = str(meta["model_version"]), load_heads(model)
    population = read_population(workspace / POPULATION / version, heads)
    now = before_start(campaign, Traffic.load(workspace)) if state is None else PricingState.load(state)
    campaign = campaign.moved_by(now.spend.moved)
    now = dataclasses.replace(now, spend=dataclasses.replace(now.spend, moved=0))
    ahead = {side: float(np.sum(now.remaining.get(side, 0.0))) for side in campaign.sides}
    if watch_alarms(workspace, campaign.name, version):
        campaign = campaign.in_doubt()

    def unknown(side: Side, account_id: NDArray[np.str_], partner_id: object = None, context: object = None) -> Curves:
        del partner_id, context
        default = heads[side].default_embedding[None]
        return curves_of(heads[side], default).take(np.zeros(account_id.size))

    coverage = campaign.coverage(read_columns(campaign, workspace))
    asked = requests_to_come(campaign, workspace, coverage, population, now, unknown)
    asked = {side: accounts for side, accounts in asked.items() if side in population and ahead[side] > 0}
    if not asked:
        raise NotFound(
            f"{POPULATION}/{version} holds no account of which a request is expected; register the model again"
        )
    slot = max(math.floor(now.at), -1)
    held = expected_cost_of_holds(
        campaign, {side: accounts.curves for side, accounts in asked.items()}, now.spend, None
    )
    own = shares_of_budgets(campaign, now.spend)
    everybody = {side: accounts.curves for side, accounts in population.items()}
    in_hand = in_hand_of_budgets(campaign, now.spend, held, everybody)
    parts, budgets = parts_of(campaign, {side: now.remaining[side] for side in asked}, slot, in_hand, own, now.at)
    budgets = bending(budgets, now.spend)
    expected = {side: ahead[side] for side in asked}
    left = remaining_budget(campaign, now.spend) - sum(held.values()) - campaign.set_aside(now.spend.late)
    caps = {
        side: CapsAhead(campaign, side, accounts.curves, now.spend, now.remaining[side], slot, now.at)
        for side, accounts in asked.items()
    }
    counted = counting_prices(caps, {}, lambda few: solve_window(campaign, few, expected, left, parts, budgets).prices)
    curves = {side: cap.curves(counted) for side, cap in caps.items()}
    names = {
        side: accounts.account_id.combine_chunks()
        for side, accounts in asked.items()
        if coverage.reads_partner(side) or coverage.context_names(side)
    }
    limit = campaign.budget.limit if campaign.budget.form == "total" else 0.0
    # Late redemptions are paid out of the reserve, which the question sets aside as a whole.
    late = campaign.late_reserve - campaign.set_aside(now.spend.late)
    spent = limit - remaining_budget(campaign, now.spend) + sum(held.values()) - late
    solver = WhatIf(
        campaign,
        curves,
        expected,
        InHand(parts=parts, budgets=budgets, shares=own, spent=spent),
        account_of={side: name.dictionary_encode().indices.to_numpy() for side, name in names.items()},
        rows=rows,
        posterior={side: CurvePosterior.from_dict(law) for side, law in meta.get(POSTERIOR, {}).items()},
    )
    return Question(campaign, asked, solver, workspace)


def plain(answer: Answer | Belief) -> dict[str, Any]:
    """An answer in JSON types; what is not finite is None."""
    return {name: _finite(value) for name, value in dataclasses.asdict(answer).items()}


def _finite(each: Any) -> Any:
    if isinstance(each, Mapping):
        return {name: _finite(value) for name, value in each.items()}
    return None if isinstance(each, float) and not math.isfinite(each) else each


def _side(name: str, campaign: Campaign) -> Side:
    campaign.terms(side := cast(Side, name))
    return side


def _amount(name: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidInput(f"must be a number of minor units, got {given!r}", field=name)
    return float(given)
