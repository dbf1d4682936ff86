"""A candidate's predictions against the incumbent's, on the test rows of all sides."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.evaluation.statistics.clusters import row_clusters
from shadowprice.evaluation.statistics.intervals import Estimate, Interval, bootstrap
from shadowprice.graphs.partners import row_partners
from shadowprice.learning.propensity import judged_propensity
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.base import at_level, labels
from shadowprice.responses.weights import given_weights


def compare_prediction(
    data: TrainingSet, curves: Mapping[Side, Curves], incumbent: Mapping[Side, Curves], replications: int
) -> Estimate | None:
    """Change of the squared error from the incumbent to the candidate, as a share of the incumbent's.

    Rows are weighted by their inverse propensities, so that each level counts as in a trial that gives all of them
    equally often: a policy's own log says most about the level that it chose. Sides count alike.

    Args:
        data: the training set; the test rows are read.
        curves, incumbent: side → curves (J, n) of the test rows.
        replications: of the bootstrap, which draws accounts and partners.

    Returns:
        The change, negative where the candidate predicts better; None where a row has no propensity.
    """
    own, other, weight, account, partner, side_of = [], [], [], [], [], []
    for number, (side, mine) in enumerate(curves.items()):
        rows = data.rows[side]
        chance = judged_propensity(rows)
        if chance is None:
            return None
        test = rows["split"].to_numpy() == "test"
        frame = rows[test].reset_index(drop=True)
        level, y = labels(frame)
        own.append((y - at_level(mine, level)) ** 2)
        other.append((y - at_level(incumbent[side], level)) ** 2)
        weight.append(given_weights(frame) / chance[test])
        account.append(row_clusters(frame))
        known = row_partners(frame, side, data.snapshots)
        partner.append(account[-1] if known is None else known)
        side_of.append(np.full(y.size, number))
    error, before, place = np.concatenate(own), np.concatenate(other), np.concatenate(side_of)
    sides = [np.flatnonzero(place == number) for number in range(len(own))]

    def change(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        shares = [(drawn[:, at] @ error[at]) / (drawn[:, at] @ before[at]) - 1.0 for at in sides]
        return np.asarray(np.mean(shares, axis=0))

    crossed = any(not np.array_equal(who, by) for who, by in zip(account, partner, strict=True))
    interval = Interval(
        replications=replications,
        cluster=np.concatenate(account),
        partner=np.concatenate(partner) if crossed else None,
    )
    return bootstrap(change, np.concatenate(weight), interval)
