"""Prices of the accounts of a list whose level the price chooses, beside those that explore or are held out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.executors import Executor
from shadowprice.allocation.sources.rows import Part, Row
from shadowprice.campaign import Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import NotCertified
from shadowprice.lists.money import InHand
from shadowprice.pacing.budgets.certificate import certify
from shadowprice.pacing.window import least_cost, solve_window


@dataclass
class Fixed:
    """Accounts that the price does not choose for: what they take of each priced budget, their value and cost."""

    taken: NDArray[np.float64]
    value: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class Solved:
    """Prices of the accounts that are free, minor units (K,) of each priced budget for them, and what they use."""

    prices: dict[str, float]
    limits: NDArray[np.float64]
    tie_share: float = 0.0
    spend: float = 0.0
    primal: float = 0.0
    dual: float = 0.0
    gap: float = 0.0
    violation: float = 0.0


def solve_free(
    campaign: Campaign,
    money: InHand,
    free: Mapping[Side, Curves],
    taken: NDArray[np.float64],
    ratio: float = 1.0,
    executor: Executor | None = None,
) -> Solved:
    """Solve the prices of the accounts that are free.

    Args:
        campaign: as the budget counts its costs.
        money: in hand.
        free: side → curves of the accounts.
        taken: (K,), expected minor units that the other accounts take of each priced budget.
        ratio: minor units paid per minor unit that the curves expect; the money is divided by it.
        executor: who holds the accounts; None for this process.

    Raises:
        NotCertified: the money does not pay for the other accounts, or for the cheapest levels of these, or gap or
            violation exceed the campaign's limits.
    """
    prices, left = dict.fromkeys(campaign.priced, 0.0), money.left - ratio * float(taken[0])
    if campaign.budget.form == "total" and left < 0:
        raise NotCertified(
            f"{money.left:.0f} minor units are left, and the accounts that explore or are held out take "
            f"{ratio * taken[0]:.0f}; raise the budget, or lower exploration or a share"
        )
    rows = [
        Row(own.name, own, money.of_budgets.get(own.name, 0.0) / (1.0 if own.outcome else ratio) - float(used))
        for own, used in zip(campaign.group_budgets, taken[1:], strict=True)
    ]
    caps = [row.in_hand if row.budget.sense == "at_most" else np.inf for row in rows]
    limits = np.array([left / ratio, *caps])
    if not free:
        return Solved(prices, limits)
    ahead = {side: float(curves.accounts) for side, curves in free.items()}
    parts = [Part(dict.fromkeys(free, 1.0), {row.name: place for place, row in enumerate(rows)})]
    # Among these accounts nobody explores or has an arm.
    plain = replace(campaign.without_arms(), limits=replace(campaign.limits, budgets=campaign.group_budgets))
    solution = solve_window(plain, free, ahead, left / ratio, parts, rows, executor=executor)
    solved = solution.allocation
    certify(campaign, solved, left, lambda: ratio * least_cost(plain, free, ahead))
    return Solved(
        prices={name: solution.prices[name] for name in campaign.priced},
        limits=limits,
        tie_share=solved.tie_share,
        spend=float(solved.spend[0]),
        primal=solution.primal,
        dual=solution.dual,
        gap=solved.gap,
        violation=solved.violation,
    )
