"""S3's Table 3: AUC, log loss and RelaImpr of the models in regions A, B and C, with controls in region A."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from research.table import Primary, Rows, Summary, Table
from research.tables.s3.vouchers import (
    CROSSED,
    MODELS,
    SESSIONS,
    STRENGTH,
    TEST_DAYS,
    describe,
    draw,
    judge,
    measured,
    retold,
    true_ones,
)
from shadowprice.datasets.vouchers import Region, VoucherData, generate

DESTROYED = "AUC, A, history destroyed"
NOTHING = "AUC, A, nothing to match"
NO_PAST = "DMBGN without a past"
FLAT = f"LR, {CROSSED}"
TRUTH, WITHOUT_HABIT, PROFILE = "true probability", "what the graph shows of it", "what profile and voucher show of it"
BASE, BEFORE_ONLY = "DNN", "pre-collection only"

PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "LR": ((0.7491, 0.4385), (0.7805, 0.3712), (0.7565, 0.3202)),
    "GBDT": ((0.7538, 0.4215), (0.7924, 0.3610), (0.7982, 0.2933)),
    "DNN": ((0.7739, 0.4156), (0.8142, 0.3478), (0.8078, 0.2966)),
    "WDL": ((0.7752, 0.4145), (0.8188, 0.3452), (0.8110, 0.2948)),
    "DIN": ((0.7912, 0.4021), (0.8417, 0.3248), (0.8485, 0.2692)),
    "AvgPooling": ((0.7961, 0.3975), (0.8430, 0.3238), (0.8497, 0.2681)),
    "Pretrained": ((0.8012, 0.3954), (0.8444, 0.3217), (0.8530, 0.2658)),
    "DMBGN": ((0.8034, 0.3921), (0.8486, 0.3184), (0.8591, 0.2614)),
    "pre-collection only": ((0.8014, 0.3937), (0.8479, 0.3191), (0.8557, 0.2639)),
}
"""AUC and log loss in regions A, B and C."""


def run(seed: int, quick: bool) -> Rows:
    """Return every model in every region, and in region A what history, graph and match are worth."""
    found: dict[str, dict[str, float]] = {}
    for region in SESSIONS:
        data, log, train, test = draw(seed, quick, region)
        rows = [row for row in MODELS if region == "A" or row != BEFORE_ONLY]
        judged = {row: measured(row, log, train, test, seed) for row in rows}
        if region == "A":
            # Every session has a person of its own, and so no past to attend to.
            session = data.tables.session
            judged[NO_PAST] = retold(seed, data, session=session.assign(user_id=session["session_id"]))
        judged[TRUTH] = judge(test, true_ones(data, test))
        for row, values in judged.items():
            cells = found.setdefault(row, {})
            cells |= {f"{name}, {region}": value for name, value in values.items()}
            if row in MODELS:
                cells[f"RelaImpr, {region}"] = improvement(values["AUC"], judged[BASE]["AUC"])
        if region == "A":
            for row, match in ((WITHOUT_HABIT, STRENGTH), (PROFILE, 0.0)):
                found[row] = {"AUC, A": judge(test, attainable(seed, data, test, match))["AUC"]}
    # Destroying a history changes neither sessions nor labels: without a past the figure is the same.
    for row in (BASE, NO_PAST):
        found[row][DESTROYED] = found[row]["AUC, A"]
    for column, drawn, rows in (
        (DESTROYED, draw(seed, quick, history="destroyed"), ["DIN", "DMBGN"]),
        (NOTHING, draw(seed, quick, match=0.0, habit=0.0), ["DNN", "DMBGN"]),
    ):
        _, log, train, test = drawn
        for row in rows:
            found[row][column] = measured(row, log, train, test, seed)["AUC"]
    return found


def attainable(seed: int, data: VoucherData, test: pd.DataFrame, match: float) -> np.ndarray:
    """Return the true probabilities of the test with habit, and perhaps the match, left out of the logit.

    People, sessions and vouchers are the same: no ranking that does not read the terms left out can be better.
    """
    sessions = len(data.tables.session)
    known = generate(seed=seed, region="A", sessions=sessions, test_days=TEST_DAYS, match=match, habit=0.0)
    return true_ones(known, test)


def improvement(auc: float, base: float) -> float:
    """RelaImpr in percent: ((AUC − 0.5) / (AUC of the base − 0.5) − 1) · 100."""
    return 100 * ((auc - 0.5) / (base - 0.5) - 1)


def published() -> dict[str, dict[str, float]]:
    return {
        row: {
            column: value
            for region, (auc, logloss), (base, _) in zip(SESSIONS, values, PUBLISHED[BASE], strict=True)
            for column, value in (
                (f"AUC, {region}", auc),
                (f"logloss, {region}", logloss),
                (f"RelaImpr, {region}", round(improvement(auc, base), 2)),
            )
        }
        for row, values in PUBLISHED.items()
    }


def compared(region: Region) -> list[tuple[str, str, str]]:
    """Return the comparisons of one region but the primary one."""
    auc = f"AUC, {region}"
    others = [] if region == "A" else [(auc, "DMBGN", "DIN")]
    return [*others, (auc, "DIN", "DNN"), (auc, "DMBGN", "AvgPooling"), (auc, "DMBGN", FLAT)]


def reading(found: Summary) -> str:
    flat, average = (found.finding("AUC, A", "DMBGN", other) for other in (FLAT, "AvgPooling"))
    why = ""
    if found.verdict("AUC, A", "DMBGN", FLAT) == "worse":
        why = (
            ": the simulated logit is linear in the share of the voucher's category in the cart, so counts hold all "
            "information of the target's graph"
        )
    return f"{flat}{why}. {average}. Values do not compare with the paper's, whose data are not public."


TABLE = Table(
    title="Redemption of vouchers, by model and region",
    source="table 3 of S3",
    data=describe(*SESSIONS),
    run=run,
    reading=reading,
    published=published(),
    primary=Primary("AUC, A", "DMBGN", "DIN", effect=0.02, spread=0.016),
    compare=[
        *compared("A"),
        ("AUC, A", "DMBGN", f"GBDT, {CROSSED}"),
        ("AUC, A", "DMBGN", "Pretrained"),
        ("AUC, A", "DMBGN", "pre-collection only"),
        ("AUC, A", "DMBGN", NO_PAST),
        *compared("B"),
        *compared("C"),
        (DESTROYED, "DIN", "DNN"),
        (DESTROYED, "DMBGN", NO_PAST),
        (NOTHING, "DMBGN", "DNN"),
    ],
    fewer_is_better=[f"logloss, {region}" for region in SESSIONS],
    also=("AUC, B", "AUC, C", NO_PAST, ("AUC, A", "DMBGN", NO_PAST)),
)
