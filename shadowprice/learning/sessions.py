"""Training sets of voucher sessions: labeled sessions, the latest one of every person, and the log they belong to."""

import numpy as np

from shadowprice.datasets.registry import Dataset
from shadowprice.datasets.vouchers import latest_sessions, sessions_of
from shadowprice.graphs.leaks import check_known, check_past, check_split, check_target
from shadowprice.graphs.sessions import SessionLog, session_ends
from shadowprice.learning.training_set import TrainingSet
from shadowprice.responses.inputs import Inputs


def session_set(dataset: Dataset) -> TrainingSet:
    """Build the graphs of the sessions and refuse what leaks. O(behaviours log behaviours).

    Everybody is served the curve of their latest session over the vouchers on offer (decision record 5).
    """
    data = sessions_of(dataset)
    log, part = SessionLog.build(data.tables), data.part()
    check_split(log, part)
    check_known(log, part == "train", data.test_from)
    everyone = np.arange(log.graphs.sessions)
    check_target(log, everyone, log.graphs.targets(everyone))
    # Pre-training reads the graphs of all sessions, not only of those in a history.
    check_past(log, session_ends(data.tables.session), everyone[:, None])
    rows, session = log.requests().assign(split=part), log.tables.session
    rows["share"] = rows.groupby("level")["account_id"].transform("size") / len(rows)
    serving = log.requests(latest_sessions(session)).drop(columns=["level", "response"])
    return TrainingSet(
        rows={"customer": rows},
        serving={"customer": serving},
        inputs=Inputs(sessions=log),
        levels={"customer": log.levels},
        context={"customer": ()},
        offers={"customer": log.offered},
        unordered=("customer",),
        dataset=dataset.name,
    )
