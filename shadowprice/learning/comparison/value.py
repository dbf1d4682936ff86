"""A candidate's value against its rival's at the campaign's budget, from the test rows of all sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.solution import pick
from shadowprice.campaign import Campaign, Side
from shadowprice.checks import require_one_of
from shadowprice.curves import Curves
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.policy.frontier import RandomizedRows
from shadowprice.evaluation.policy.gate import Compared
from shadowprice.evaluation.policy.interim import at_equal_price
from shadowprice.evaluation.policy.joint import FlatLimit, Spending, at_budget
from shadowprice.evaluation.statistics.intervals import Interval
from shadowprice.groups import hashes
from shadowprice.learning.amounts import with_amounts
from shadowprice.learning.comparison.trials import side_requests, trials_of, value_and_cost
from shadowprice.learning.propensity import judged_propensity
from shadowprice.learning.training_set import TrainingSet
from shadowprice.limits import OUTCOME
from shadowprice.limits.coverage import Coverage
from shadowprice.pacing.budgets.caps import CapsAhead, counting_prices
from shadowprice.pacing.budgets.periods import whole_limit
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.spend import CapUse, SpendReport
from shadowprice.pacing.window import WindowSolution, able_accounts, solve_window
from shadowprice.policy import Choices
from shadowprice.responses.base import labels
from shadowprice.responses.sided import SidedModel

Looks = Literal["once", "every"]


@dataclass(frozen=True, eq=False)
class CampaignWindow:
    """Window of a campaign, whose budget a model is to spend.

    campaign  whose terms, budget and exploration are to be served
    requests  side → requests expected in the window; as many as test rows by default
    coverage  tells which budgets count a row, and what rules allow; None: the main budget alone
    traffic   tells how often accounts and partners ask, for the caps beside the coverage; None: caps are left out
    """

    campaign: Campaign
    requests: Mapping[Side, float] = field(default_factory=dict)
    coverage: Coverage | None = None
    traffic: Traffic | None = None


def compare_value(
    data: TrainingSet,
    curves: Mapping[Side, Curves],
    incumbent: Mapping[Side, Curves] | None,
    window: CampaignWindow,
    replications: int,
) -> Compared | str:
    """Compare the candidate with the incumbent, or with uniform dosing, on the test split.

    With a coverage either model decides as the service does: by the levels that rules allow the request, and by the
    prices of its further budgets beside that of the main one. The prices are those of the window on the model's own
    curves of the test rows. Uniform dosing keeps the rules and all these budgets.

    With a least return, that return on each unit of cost is taken off every value: no policy spends money that
    returns less.

    With traffic every policy also keeps the caps. The caps of a row's account and partner grant the incentive to a
    share of such requests in the window; the other requests get the level without incentive.

    Args:
        data: the training set.
        curves: of the candidate on the test rows; incumbent: likewise, None where there is none.
        window: of the campaign, with requests.
        replications: of the bootstrap.

    Returns:
        The comparison, with values in major units where the campaign's value is money; or the reason why there is
        none.
    """
    campaign, requests, coverage, traffic = window.campaign, window.requests, window.coverage, window.traffic
    able: dict[Side, NDArray[np.bool_]] = {}
    candidates = [curves] if incumbent is None else [curves, incumbent]
    if coverage is not None:
        candidates = [marked(coverage, data, sides) for sides in candidates]
        able = {side: able_accounts(curve) for side, curve in candidates[0].items()}
        candidates = [{side: curve.take(able[side]) for side, curve in one.items()} for one in candidates]
        if not all(curve.accounts for curve in candidates[0].values()):
            return "the rules allow no test row of a side an incentive"
    asked = {side: float(requests.get(side, 0.0)) * float(able[side].mean() if able else 1.0) for side in curves}
    trials = trials_of(data, campaign, candidates[0], able)
    if isinstance(trials, str):
        return trials
    caps: list[dict[Side, CapsAhead]] = [{}, {}]
    if coverage is not None and traffic is not None and campaign.limits.caps:
        caps = [caps_ahead(campaign, sides, requests, traffic) for sides in candidates]
    try:
        policies = [_policies(campaign, *pair, asked, coverage) for pair in zip(candidates, caps, strict=False)]
    except NotCertified as error:
        return f"the campaign has no price: {error}"
    comparison = at_budget(
        trials,
        policies[0],
        policies[1] if incumbent is not None else None,
        spending=Spending(
            requests=asked,
            budget=_limit(campaign, requests),
            exploration=campaign.exploration,
            weights={side: campaign.draw_weights(side) for side in asked},
            allowed={side: curve.allowed for side, curve in candidates[0].items() if curve.allowed is not None},
            # Grants depend on the levels that are chosen, not on the curves that choose them.
            granted={side: cap.share for side, cap in caps[0].items()},
            further=_flat_limits(campaign, data, trials, candidates[0], able) if coverage is not None else (),
        ),
        interval=Interval(replications=replications),
    )
    amounts = {name: getattr(comparison, name).times(campaign.told_in) for name in ("candidate", "rival", "difference")}
    return replace(comparison, price=campaign.told_in * (comparison.price + campaign.least_return), **amounts)


def compare_value_at_every_look(
    model: SidedModel,
    data: TrainingSet,
    curves: Mapping[Side, Curves],
    incumbent: Mapping[Side, Curves],
    window: CampaignWindow,
) -> Compared | str:
    """Compare both policies net of money at the price that the validation split gives the candidate.

    Price and bounds come from rows before the test split, so that they are fixed when the first of its rows is read.
    """
    campaign = window.campaign
    # The rule takes the whole price off: values stay as they are.
    plain = replace(campaign, least_return=0.0)
    known = set(curves) == {"customer"} and campaign.budget.form != "per_response"
    if not known or campaign.terms("customer").worth:
        return "an interim analysis needs a response and an allowance with bounds that are known beforehand"
    trials = trials_of(data, plain, curves, {})
    if isinstance(trials, str):
        return trials
    rows, terms = data.rows["customer"], campaign.terms("customer")
    before = rows[rows["split"] == "validation"].reset_index(drop=True)
    drawn = judged_propensity(rows)
    if before.empty or drawn is None:
        return "there are no earlier rows with propensities to take the price of money from"
    budget = campaign.budget
    try:
        solved = solve_window(
            campaign,
            with_amounts(data, model.curves(data.inputs, {"customer": before})),
            {"customer": float(window.requests["customer"])},
            budget.limit if budget.form == "total" else 0.0,
        )
        return at_equal_price(
            trials["customer"],
            value_and_cost(plain, "customer", curves["customer"]),
            value_and_cost(plain, "customer", incumbent["customer"]),
            price=float(solved.allocation.prices[0]),
            largest_value=terms.weight,
            largest_cost=float(max(terms.unit_costs)),
            least_propensity=float(drawn[rows["split"].to_numpy() != "test"].min()),
        )
    except NotCertified as error:
        return f"the campaign has no price: {error}"
    except InvalidInput as error:
        return f"the test rows are not as the earlier ones: {error}"


def check_looks(looks: str) -> None:
    """Raise :class:`InvalidInput` unless ``looks`` is one of :data:`Looks`."""
    require_one_of(looks, get_args(Looks), "looks")


def _limit(campaign: Campaign, requests: Mapping[Side, float]) -> float:
    """Net minor units that all expected requests may cost."""
    budget = campaign.budget
    if budget.form == "total":
        return float(budget.limit)
    return budget.limit * float(sum(requests.values())) if budget.form == "per_account" else 0.0


def marked(
    coverage: Coverage, data: TrainingSet, curves: Mapping[Side, Curves], split: str = "test"
) -> dict[Side, Curves]:
    """Return curves (J, N) of the rows of a split with the budgets that count each and the levels that rules allow."""
    rows = data.part(split)
    return {side: coverage.mark(side_requests(data, side, rows[side]), curve) for side, curve in curves.items()}


def caps_ahead(
    campaign: Campaign, curves: Mapping[Side, Curves], requests: Mapping[Side, float], traffic: Traffic
) -> dict[Side, CapsAhead]:
    """Caps over the whole window, of which nothing is used, on the owners of test rows that :func:`marked` returned."""
    spend = SpendReport(
        spent=0,
        responses={},
        requests={},
        caps={cap.name: CapUse.of({}, {}) for cap in campaign.limits.caps},
        observed_at=campaign.starts_at,
    )
    ahead_of = {}
    for side, curve in curves.items():
        assert curve.owners is not None
        who, pairs = traffic.accounts[side], traffic.pairs.get(side)
        shares = [_owner_shares(curve.owners[0], who.account_id.tolist(), who.activity)]
        if pairs is not None:
            shares.append(_owner_shares(curve.owners[1], pairs["partner_id"].tolist(), pairs["activity"].to_numpy()))
        else:
            shares.append(np.zeros(curve.accounts))
        ahead = np.full(campaign.hours, float(requests.get(side, 0.0)) / campaign.hours)
        ahead_of[side] = CapsAhead(campaign, side, curve, spend, ahead, 0, shares=np.stack(shares))
    return ahead_of


def _owner_shares(
    owner: NDArray[np.uint64], names: Sequence[str], requests: NDArray[np.number[Any]]
) -> NDArray[np.float64]:
    """Share of all requests of each owner (n,); one that did not ask lately has the share of one request."""
    known, place = np.unique(hashes(names), return_inverse=True)
    asked, total = np.bincount(place, requests.astype(np.float64)), float(requests.sum())
    at = np.minimum(np.searchsorted(known, owner), known.size - 1)
    return np.where(known[at] == owner, asked[at], 1.0) / total


def _policies(
    campaign: Campaign,
    curves: Mapping[Side, Curves],
    caps: Mapping[Side, CapsAhead],
    requests: Mapping[Side, float],
    coverage: Coverage | None,
) -> dict[Side, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Value and net cost (J, N) of each side that the main price decides by.

    Raises:
        NotCertified: the campaign has no price.
    """
    if coverage is None or not campaign.group_budgets:
        return {side: value_and_cost(campaign, side, curve) for side, curve in curves.items()}
    prices = solve_rows(campaign, curves, caps, requests).prices
    further = np.array([prices[name] for name in campaign.priced[1:]])
    net = {side: Choices.marked(campaign, side, curve).net_of(further) for side, curve in curves.items()}
    least = campaign.least_return
    return {side: (worth.value - least * worth.charges, worth.charges) for side, worth in net.items()}


def solve_rows(
    campaign: Campaign, curves: Mapping[Side, Curves], caps: Mapping[Side, CapsAhead], requests: Mapping[Side, float]
) -> WindowSolution:
    """Solve the whole window over the curves of some rows that :func:`marked` returned, with caps of their owners.

    Raises:
        NotCertified: the campaign has no price.
    """
    limit = campaign.budget.limit if campaign.budget.form == "total" else 0.0
    if caps:
        counted = counting_prices(caps, {}, lambda few: solve_window(campaign, few, requests, limit).prices)
        curves = {side: caps[side].curves(counted) if side in caps else curve for side, curve in curves.items()}
    return solve_window(campaign, curves, requests, limit)


def _flat_limits(
    campaign: Campaign,
    data: TrainingSet,
    trials: Mapping[Side, RandomizedRows],
    curves: Mapping[Side, Curves],
    able: Mapping[Side, NDArray[np.bool_]],
) -> list[FlatLimit]:
    """Further budgets of the campaign, with the amounts that test rows took of each and that the curves expect."""
    tests = {side: data.part("test")[side] for side in trials}
    tests = {side: test[able[side]] if side in able else test for side, test in tests.items()}
    limits = []
    for place, budget in enumerate(campaign.group_budgets):
        rows = {}
        for side, trial in trials.items():
            terms, (level, y), own = campaign.terms(side), labels(tests[side]), curves[side]
            assert own.bits is not None
            inside = own.bits >> np.uint32(place) & np.uint32(1)
            paid = terms.paid(level, y, tests[side].get("paid"))
            expected = campaign.net_cost(side, own.response, budget, own.amounts, own.guards)
            if budget.outcome and OUTCOME + budget.outcome in tests[side]:
                seen = tests[side][OUTCOME + budget.outcome].to_numpy(dtype=np.float64)
                paid = np.where(np.isfinite(seen), seen, pick(expected, level))
            elif budget.outcome:
                paid = np.zeros(level.size)
            if budget.form == "per_account":
                paid, expected = paid - budget.limit, expected - budget.limit
            elif budget.form == "per_response":
                paid = paid - budget.limit * terms.measure(y)
            rows[side] = replace(trial, cost=inside * paid, expected_cost=inside * expected)
        limits.append(FlatLimit(rows, whole_limit(campaign, budget), budget.sense == "at_least"))
    return limits
