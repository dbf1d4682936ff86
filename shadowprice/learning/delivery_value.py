"""Value of a delivery's plan by held-out deliveries, against other ways to fill the same segments (S2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shadowprice.allocation.exact_sizes import METHODS, Plan, solve_demands
from shadowprice.campaign import Segment, demands, fees
from shadowprice.checks import require
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, NotCertified
from shadowprice.evaluation.policy.gate import CAMPAIGN, Check, GateResult
from shadowprice.evaluation.policy.mending import mend
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.means import mean
from shadowprice.evaluation.uplift.long_term import written
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.responses.layers.heads import load_heads, rule_of
from shadowprice.responses.sided import DELIVERED_SIDE

RANDOM = "random eligible placing"
RIVALS = ("greedy", "priority")
"""Methods beside the plan that place accounts by the same predictions."""
DRAWS = 20
"""Random placings whose mean is the chance of each segment."""


@dataclass(frozen=True, eq=False)
class PlanValue:
    """Value of a plan by held-out deliveries, minor units an account.

    rows       held-out deliveries; accounts, those with one
    predicted  mean value of the plan by the model's own predictions
    value      of the plan
    gain       name of another placing → value of the plan less that of the placing, on the same deliveries
    """

    rows: int
    accounts: int
    predicted: float
    value: Estimate
    gain: Mapping[str, Estimate]

    @property
    def figures(self) -> dict[str, float]:
        """One number for each figure."""
        gains = {f"gain_over_{name.replace(' ', '_')}": gain.value for name, gain in self.gain.items()}
        return {"value": self.value.value, "predicted": self.predicted, **gains}

    def facts(self, currency: Currency) -> dict[str, str | int | float]:
        """Figures with their intervals, for a reader."""
        return {
            "value of the plan, measured": written(self.value, currency),
            "value of the plan, predicted": currency.write(self.predicted),
            **{f"plan less {name}": written(gain, currency) for name, gain in self.gain.items()},
            "held-out deliveries": self.rows,
        }

    def gate(self, currency: Currency) -> GateResult:
        """Require that the plan is shown to bring more than random eligible placing; report the other rivals."""
        checks = []
        for name, gain in self.gain.items():
            text = (
                f"{written(gain, currency)} an account, plan {written(self.value, currency)}, {self.rows:,} deliveries"
            )
            passed, needed = gain.low > 0, mend("value", gain, 0.0, self.rows)
            meaning = "The plan must bring more than the placing that it replaces, beyond chance."
            rule = f"value of the plan on held-out deliveries above that of {name} by its lower bound"
            checks.append(Check(CAMPAIGN, rule, text, passed, name == RANDOM, meaning, "" if passed else needed))
        return GateResult(all(check.passed or not check.required for check in checks), tuple(checks))


def plan_value(
    account_id: NDArray[np.str_],
    value: NDArray[np.float32],
    allowed: NDArray[np.bool_],
    segments: Sequence[Segment],
    held_out: pd.DataFrame,
    learned: pd.DataFrame,
    seed: int = 0,
) -> PlanValue:
    """Judge the plan that predictions lead to.

    Every method fills the same segments with all accounts. A held-out delivery of account i in segment a with
    propensity p counts for a method that places i in a with chance π: π / p · (y − m_a) + Σ_j π_j · m_j, where m_j is
    the mean amount of segment j among the learned rows. The estimate has no bias if the propensities are right,
    whatever m is; the interval is over accounts.

    Args:
        account_id: N accounts.
        value: (J, N), predictions, minor units; allowed: (J, N), segments that each account may enter.
        segments: J segments.
        held_out: deliveries that no model has learned from: account_id, level, propensity, amount (else response).
        learned: the same of other accounts, for means and conversion rates.
        seed: of the random placings.

    Raises:
        InvalidInput: deliveries without a propensity.
        NotCertified: there is no plan.
    """
    rows = held_out[held_out["account_id"].isin(account_id)]
    level, propensity = rows["level"].to_numpy(dtype=np.int64), rows["propensity"].to_numpy(dtype=np.float64)
    require(len(rows), "split", "there is no held-out delivery of an account that is placed; give another split")
    logged = "must be the logged chance of every delivery; without it no other plan can be judged"
    require(bool((propensity > 0).all()), "exposure.propensity", logged)
    amount, share = "amount" if "amount" in rows else "response", fees(segments)
    value = (value * share[:, None]).astype(np.float32)
    by_level = learned.groupby("level")
    means = share * by_level[amount].mean().reindex(range(len(segments)), fill_value=0.0).fillna(0.0).to_numpy()
    rate = by_level["response"].mean().reindex(range(len(segments)), fill_value=0.0).fillna(0.0).to_numpy()
    sizes = demands(segments)
    plan = solve_demands(value, sizes, allowed)
    if plan.shortage is not None:
        raise NotCertified(plan.shortage.named([segment.name for segment in segments]))
    random = np.random.default_rng(seed)
    drawn = [solve_demands(random.random(value.shape, dtype=np.float32), sizes, allowed) for _ in range(DRAWS)]
    others = {name: [METHODS[name](value, sizes, allowed, **_more(name, rate))] for name in RIVALS}
    at = pd.Index(account_id).get_indexer(pd.Index(rows["account_id"]))
    excess = share[level] * rows[amount].to_numpy(dtype=np.float64) - means[level]

    def score(plans: Sequence[Plan]) -> NDArray[np.float64]:
        placed = np.stack([candidate.segment[at] for candidate in plans]).astype(np.int64)
        chance = (placed == level).mean(axis=0)
        return np.asarray(chance / propensity * excess + means[placed].mean(axis=0))

    account = rows["account_id"].to_numpy(dtype=str)
    own, rivals = score([plan]), {RANDOM: drawn, **others}
    return PlanValue(
        rows=len(rows),
        accounts=int(np.unique(account).size),
        predicted=plan.objective / account_id.size,
        value=mean(own, cluster=account),
        gain={name: mean(own - score(plans), cluster=account) for name, plans in rivals.items()},
    )


def read_values(bundle: Path) -> tuple[NDArray[np.str_], NDArray[np.float32], NDArray[np.bool_]]:
    """Accounts (N,), value of each segment for them (J, N), and whether they may enter it (J, N), as a bundle has them.

    Raises:
        InvalidInput: the bundle is not one of a delivery.
    """
    head = load_heads(bundle).get(DELIVERED_SIDE)
    rule = None if head is None else rule_of(head)
    if head is None or rule is None:
        raise InvalidInput("is not the bundle of a delivery; train with the delivery pipeline", field=str(bundle))
    table = pq.read_table(bundle / EMBEDDINGS, columns=["account_id", "embedding"])
    account_id = table["account_id"].to_numpy().astype(str)
    stored = table["embedding"].combine_chunks().flatten().to_numpy().reshape(account_id.size, -1)
    return account_id, head.response(stored), rule(stored)


def _more(name: str, rate: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    return {"conversion": rate} if name == "priority" else {}
