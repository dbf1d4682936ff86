"""A question of other terms as JSON, and the solver that answers it."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from operations.common.accounts import read_accounts
from operations.common.to_come import requests_to_come
from operations.common.workspace import MODEL, POPULATION, read_campaign, read_columns, watch_alarms
from operations.measure import before_start
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotFound
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
from shadowprice.pacing.questions import Answer, Belief, InHand
from shadowprice.pacing.state import PricingState
from shadowprice.pacing.what_if import SAMPLE_ROWS, WhatIf
from shadowprice.pacing.window import solve_window
from shadowprice.responses.layers.heads import curves_of, load_heads
from shadowprice.responses.posterior import CurvePosterior


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
