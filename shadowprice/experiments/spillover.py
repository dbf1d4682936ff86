"""Effect of an arm for everybody, from a log and the graph of ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.arms import COMPANY, units_of
from shadowprice.campaign import SIDES
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.columns import PERIOD
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.exposure import effect_of_all, exposed, exposure_of
from shadowprice.experiments.periods import Period
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.groups import Groups


@dataclass(frozen=True)
class ForAll:
    """Difference per account of the graph between everybody in an arm and nobody in it.

    value     of the responses
    cost      minor units
    accounts  of the graph in the two arms, asked or not
    """

    arm: str
    value: Effect
    cost: Effect
    accounts: int


def effects_for_all(
    rows: pd.DataFrame,
    periods: Sequence[Period],
    graph: GraphSnapshot,
    *,
    baseline: str,
    groups: Groups | None = None,
    held: NDArray[np.bool_] | None = None,
    level: float = 0.95,
) -> list[ForAll]:
    """Estimate the effect of each arm for everybody, where the arms of partners matter too.

    Every account of the graph has its arm by the hash, whether it asked or not, so the share of an account's partners
    in an arm is known, and an account that never asked counts as no response.
    :func:`~shadowprice.experiments.exposure.exposed` states what is assumed.

    Args:
        rows: one for each request whose outcome is known: account_id, side, value, cost and period.
        periods: of an experiment by accounts or clusters.
        graph: of the time before the campaign.
        baseline: arm that the others are compared with.
        groups: that an experiment by clusters assigned.
        held: (N,), accounts of the graph in the holdout of the company, which no arm treats; None: there are none.
        level: of the intervals.

    Raises:
        InvalidInput: an experiment of another unit, clusters without groups, or shares that follow from the own arm.

    O(periods · (N + E)).
    """
    experiment = periods[-1].experiment
    if experiment.unit not in ("account", "cluster"):
        raise InvalidInput("must be account or cluster: other units are not in the graph", field="experiment.unit")
    units = units_of(experiment, graph.account_id.tolist(), (), (), groups)
    unit, _ = codes(np.asarray(units), field="groups")
    sides = [end for end, side in enumerate(SIDES) if (rows["side"] == side).any()]
    of_side = np.any([graph.is_side[end] for end in sides], axis=0)
    ties = np.concatenate([np.stack([graph.edge_index[end], unit[graph.edge_index[1 - end]]]) for end in sides], axis=1)
    node = graph.find(rows["account_id"].to_numpy(dtype=object))
    arms = [period.experiment.arm_of(units) for period in periods]
    if held is not None:
        arms = [np.where(held, COMPANY, arm) for arm in arms]
    entries = []
    for name in [option.name for option in experiment.arms if option.name != baseline]:
        shared = [at for at, arm in enumerate(arms) if all((arm[of_side] == one).any() for one in (name, baseline))]
        if not shared:
            continue
        kept = [of_side & ((arm == name) | (arm == baseline)) for arm in arms]
        effects: dict[str, Effect] = {}
        for column in ("value", "cost"):
            parts = []
            for at in shared:
                mine = ((rows[PERIOD] == periods[at].number) & (node >= 0)).to_numpy()
                sums = np.bincount(node[mine], rows[column].to_numpy(dtype=np.float64)[mine], minlength=unit.size)
                treated = arms[at] == name
                share = np.max([exposure_of(graph.edge_index, treated, end) for end in sides], axis=0)
                parts.append(exposed(sums, treated, share, kept[at]))
            effects[column] = effect_of_all(parts, unit, ties, level)
        entries.append(ForAll(name, effects["value"], effects["cost"], int(kept[shared[-1]].sum())))
    return entries
