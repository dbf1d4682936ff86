"""S3's Tables 3 and 4: who redeems a voucher, by model, and with the history destroyed."""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.summary import Summary
from benchmarks.reproduce.table import Rows, Table
from benchmarks.reproduce.tables.s3_vouchers import DATA, MODELS, STRENGTH, draw, fit, judge, respond
from shadowprice.graphs.sessions import SessionLog
from shadowprice.tables import SessionTables

DESTROYED = "AUC, history destroyed"
NOTHING = "AUC, nothing to match"
WITHOUT_HISTORY = ("DNN", "DIN", "AvgPooling", "DMBGN")
WITHOUT_MATCH = ("DNN", "DIN", "DMBGN")
NO_PAST = "DMBGN without a past"
TRUTH, WITHOUT_HABIT, PROFILE = "true probability", "what the graph shows of it", "what profile and voucher show of it"

PAIRS = [
    ("AUC", "DMBGN", "DIN"),
    ("AUC", "DIN", "DNN"),
    ("AUC", "DMBGN", "AvgPooling"),
    ("AUC", "DMBGN", "Pretrained"),
    ("AUC", "DMBGN", "pre-collection only"),
    ("AUC", "DMBGN", "graphs anew in 40 % of steps"),
    ("AUC", "DMBGN", NO_PAST),
    (DESTROYED, "DIN", "DNN"),
    (DESTROYED, "DMBGN", "AvgPooling"),
    (DESTROYED, "DMBGN", NO_PAST),
    (NOTHING, "DMBGN", "DNN"),
    (NOTHING, "DIN", "DNN"),
]


def run(seed: int, quick: bool) -> Rows:
    """Every model on the sessions of one seed; those that tell what history is worth where it was destroyed; and those
    that tell what graphs are worth where redemption depends neither on what lies in the cart nor on taste."""
    data, log, train, test = draw(seed, quick)
    found = {row: judge(test, respond(fit(row, log, train, seed), test)) for row in MODELS}
    # The same people, sessions and vouchers with the terms of the logit left out: what is left ranks as well as
    # anything can that does not see them.
    for row, match, habit in ((TRUTH, 1.0, 1.0), (WITHOUT_HABIT, 1.0, 0.0), (PROFILE, 0.0, 0.0)):
        true, *_ = draw(seed, quick, match=match * STRENGTH, habit=habit * STRENGTH)
        assert true.truth is not None
        p = true.truth[data.part() == "test"][np.arange(len(test)), test["level"]]
        found[row] = judge(test, p) if row == TRUTH else {"AUC": judge(test, p)["AUC"]}
    # Everybody a person of his own: the same sessions, the same network, and no past to attend to.
    session = data.tables.session
    alone = SessionLog.build(SessionTables(session.assign(user_id=session["session_id"]), data.tables.behaviour))
    part = data.part()
    asked = alone.requests(part == "test")
    found[NO_PAST] = judge(asked, respond(fit("DMBGN", alone, alone.requests(part == "train"), seed), asked))
    # Destroying a history changes neither sessions nor labels: without a past the figure is the same.
    found[NO_PAST][DESTROYED] = found[NO_PAST]["AUC"]
    for column, rows, drawn in (
        (DESTROYED, WITHOUT_HISTORY, draw(seed, quick, "destroyed")),
        (NOTHING, WITHOUT_MATCH, draw(seed, quick, match=0.0, habit=0.0)),
    ):
        _, log, train, test = drawn
        for row in rows:
            found[row][column] = judge(test, respond(fit(row, log, train, seed), test))["AUC"]
    return found


def reading(found: Summary) -> str:
    """What was found, better or not."""
    told = " ".join(found.sentence(*pair) + "." for pair in PAIRS)
    top, graph, profile = (found.cell(row, "AUC").value for row in (TRUTH, WITHOUT_HABIT, PROFILE))
    return (
        f"The probabilities that labels were drawn from reach {top:.3f}, without habit {graph:.3f}, and what profile "
        f"and voucher show of them {profile:.3f}. {told} Heights do not compare with the paper's: its data are not "
        "public."
    )


TABLE = Table(
    title="Redemption of vouchers, by model",
    source="Tables 3 and 4 of S3 (DMBGN, KDD 2021), region A",
    data=DATA,
    run=run,
    reading=reading,
    published={
        "LR": {"AUC": 0.7491, "logloss": 0.4385},
        "GBDT": {"AUC": 0.7538, "logloss": 0.4215},
        "DNN": {"AUC": 0.7739, "logloss": 0.4156},
        "WDL": {"AUC": 0.7752, "logloss": 0.4145},
        "DIN": {"AUC": 0.7912, "logloss": 0.4021},
        "AvgPooling": {"AUC": 0.7961, "logloss": 0.3975},
        "Pretrained": {"AUC": 0.8012, "logloss": 0.3954},
        "DMBGN": {"AUC": 0.8034, "logloss": 0.3921},
        "pre-collection only": {"AUC": 0.8014, "logloss": 0.3937},
    },
    compare=PAIRS,
    fewer_is_better=["logloss"],
)
