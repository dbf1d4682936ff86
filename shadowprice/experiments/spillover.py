"""Effect of an arm for everybody, from a log and the graph of who trades with whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from shadowprice.arms import Experiment, units_of
from shadowprice.campaign import SIDES
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.exposure import effect_of_all, exposure_of
from shadowprice.graphs.communities import communities
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.groups import Groups

DEPENDENT = 300
"""Most accounts of a group of neighbours whose errors may depend on each other."""


@dataclass(frozen=True)
class ForAll:
    """Difference per request between everybody in an arm and nobody in it.

    value     of the responses
    cost      minor units
    requests  that the estimate is from
    """

    arm: str
    value: Effect
    cost: Effect
    requests: int


def effects_for_all(
    rows: pd.DataFrame,
    experiment: Experiment,
    graph: GraphSnapshot,
    *,
    baseline: str,
    groups: Groups | None = None,
    level: float = 0.95,
) -> list[ForAll]:
    """Estimate the effect of each arm for everybody, where the arms of partners matter too.

    Every account of the graph has its arm by the hash, whether it asked or not, so the share of an account's partners
    in an arm is known. :func:`~shadowprice.experiments.exposure.effect_of_all` says what is assumed. Errors may depend
    on each other within the groups that were assigned, or else within groups of neighbours.

    Args:
        rows: one for each request whose outcome is known: account_id, side, arm, value, cost.
        experiment: by accounts or clusters, as it is now.
        graph: of the time before the campaign.
        baseline: arm that the others are compared with.
        groups: that an experiment by clusters assigned.
        level: of the intervals.

    Raises:
        InvalidInput: an experiment of another unit, clusters without groups, an arm without requests of accounts that
            the graph knows, or shares that follow from the own arm.

    O(E + N) for the graph, and the search for groups of neighbours.
    """
    if experiment.unit not in ("account", "cluster"):
        raise InvalidInput("must be account or cluster: other units are not in the graph", field="experiment.unit")
    names = graph.account_id.tolist()
    units = units_of(experiment, names, (), (), groups)
    arm_of = experiment.arm_of(units)
    if experiment.unit == "cluster":
        near, _ = codes(np.asarray(units), field="groups")
    else:
        near = communities(graph.edge_index, graph.nodes, DEPENDENT)
    node = graph.find(rows["account_id"].to_numpy(dtype=object))
    known, arm = node >= 0, rows["arm"].astype(str).to_numpy()
    side = rows["side"].astype(str).to_numpy()
    found = []
    for name in [each.name for each in experiment.arms if each.name != baseline]:
        treated = arm_of == name
        share = np.zeros(len(rows))
        for end, of in enumerate(SIDES):
            mine = known & (side == of)
            share[mine] = exposure_of(graph.edge_index, treated, end)[node[mine]]
        kept = known & ((arm == name) | (arm == baseline))
        if not (arm[kept] == name).any():
            continue
        own, exposure, unit = arm[kept] == name, share[kept], near[node[kept]]
        value, cost = (
            effect_of_all(rows[column].to_numpy(dtype=np.float64)[kept], own, exposure, unit, level)
            for column in ("value", "cost")
        )
        found.append(ForAll(name, value, cost, int(kept.sum())))
    return found
