"""Effect of an arm for everybody, and that of an incentive on partners, from a log and the graph of ties."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shadowprice.arms import COMPANY, units_of
from shadowprice.campaign import SIDES, Side
from shadowprice.errors import InvalidInput
from shadowprice.evaluation.statistics.groups import codes
from shadowprice.experiments.columns import PERIOD
from shadowprice.experiments.effects import Effect
from shadowprice.experiments.exposure import PARTNERS, Exposed, effect_of_all, exposed, exposure_of
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
    unit, arms = _assigned(periods, graph, groups, held)
    sides = [end for end, side in enumerate(SIDES) if (rows["side"] == side).any()]
    of_side = np.any([graph.is_side[end] for end in sides], axis=0)
    ties = np.concatenate([np.stack([graph.edge_index[end], unit[graph.edge_index[1 - end]]]) for end in sides], axis=1)
    node = graph.find(rows["account_id"].to_numpy(dtype=object))
    entries = []
    for name in [option.name for option in periods[-1].experiment.arms if option.name != baseline]:
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


@dataclass(frozen=True)
class PassedOn:
    """Effect of the incentives of the accounts of a side on their partners.

    side    of the accounts that are given the incentives
    effect  value of an account of the other side, for a minor unit more that each of its partners is given
    reach   (N,), partners that an account of the graph is worth: the sum of its shares in the partners of each
    """

    side: Side
    effect: Effect
    reach: NDArray[np.float64]

    @property
    def counts(self) -> bool:
        """Return whether the interval of the effect leaves 0 out."""
        return self.effect.low > 0 or self.effect.high < 0

    @property
    def influence(self) -> NDArray[np.float64]:
        """Value (N,) for its partners of a minor unit that each account is given; 0 where the effect does not count.

        An estimate that just counts is more often too large than too small. The effect is shrunk to β·(1 − (h/β)²),
        with half the interval h: 0 where it begins to count, and β where it is certain.

        Source: Breiman (1995), the non-negative garrote.
        """
        if not self.counts:
            return np.zeros_like(self.reach)
        value, half = self.effect.value, 0.5 * (self.effect.high - self.effect.low)
        return np.asarray((value - half**2 / value) * self.reach)


def passed_on(
    rows: pd.DataFrame,
    periods: Sequence[Period],
    graph: GraphSnapshot,
    *,
    arm: str,
    baseline: str,
    groups: Groups | None = None,
    held: NDArray[np.bool_] | None = None,
    level: float = 0.95,
) -> list[PassedOn]:
    """Estimate the effect of a minor unit that partners are given, of each side whose accounts were given some.

    The arm of an account's partners is drawn, and what they are given follows from it. The estimate is the effect of
    the share of partners in the arm on the value of an account in the arm, over its effect on the incentives of a
    partner in the mean (Wald): their own differences do not matter. It adds up where each minor unit moves an account
    alike, whichever partner it is given to. A side whose incentives the arm does not raise has no entry.

    Args:
        rows: as of :func:`effects_for_all`, with the column incentive, minor units.
        arm: that is compared with the ``baseline``.
        level: of the intervals of both sides together (Bonferroni).

    The other arguments, and the errors, are those of :func:`effects_for_all`.

    O(periods · (N + E)).
    """
    unit, arms = _assigned(periods, graph, groups, held)
    node, nodes = graph.find(rows["account_id"].to_numpy(dtype=object)), unit.size
    level, entries = 1 - (1 - level) / len(SIDES), []
    for end, side in enumerate(SIDES):
        receiving, given = 1 - end, (rows["side"] == side).to_numpy()
        if not given.any() or not (rows["side"] == SIDES[receiving]).any() or not graph.edge_index.size:
            continue
        receiver, giver = graph.edge_index[receiving], graph.edge_index[end]
        tied = np.bincount(receiver, minlength=nodes)
        parts = []
        for period, own in zip(periods, arms, strict=True):
            kept = graph.is_side[receiving] & (tied > 0) & ((own == arm) | (own == baseline))
            if not all((own[kept] == one).any() for one in (arm, baseline)):
                continue
            mine = ((rows[PERIOD] == period.number) & (node >= 0)).to_numpy()
            granted = np.bincount(node[mine & given], rows["incentive"].to_numpy()[mine & given], minlength=nodes)
            value = np.bincount(node[mine & ~given], rows["value"].to_numpy()[mine & ~given], minlength=nodes)
            received = np.bincount(receiver, granted[giver], minlength=nodes) / np.maximum(tied, 1)
            share = exposure_of(graph.edge_index, own == arm, receiving)
            # The slope stays, and one value of all accounts leaves no rounding error that could count as an effect.
            value -= value[kept].mean()
            parts.append([exposed(y, own == arm, share, kept, PARTNERS) for y in (value, received)])
        if not parts:
            continue
        ties = np.stack([receiver, unit[giver]])
        moved, raised = (
            Exposed(sum(of.value for of in each), np.sum([of.influence for of in each], axis=0))
            for each in zip(*parts, strict=True)
        )
        if not effect_of_all([raised], unit, ties, level).low > 0:
            continue
        ratio = moved.value / raised.value
        error = (moved.influence - ratio * raised.influence) / raised.value
        reach = np.bincount(giver, 1.0 / tied[receiver], minlength=nodes).astype(np.float64)
        entries.append(PassedOn(side, effect_of_all([Exposed(ratio, error)], unit, ties, level), reach))
    return entries


class _Assigned(NamedTuple):
    """Code (N,) of the unit of each account of a graph, and its arm (N,) in each period."""

    unit: NDArray[np.intp]
    arms: list[NDArray[np.str_]]


def _assigned(
    periods: Sequence[Period], graph: GraphSnapshot, groups: Groups | None, held: NDArray[np.bool_] | None
) -> _Assigned:
    experiment = periods[-1].experiment
    if experiment.unit not in ("account", "cluster"):
        raise InvalidInput("must be account or cluster: other units are not in the graph", field="experiment.unit")
    units = units_of(experiment, graph.account_id.tolist(), (), (), groups)
    unit, _ = codes(np.asarray(units), field="groups")
    arms = [period.experiment.arm_of(units) for period in periods]
    return _Assigned(unit, arms if held is None else [np.where(held, COMPANY, arm) for arm in arms])
