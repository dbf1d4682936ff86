"""The papers' tables and figures, each with the page that answers it and a status that follows from the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from research.summary import Comparison

REPRODUCED, IN_KIND, NOT_REPRODUCED = "reproduced", "reproduced in kind", "not reproduced"
PRIVATE = "the paper's data are not public"


@dataclass(frozen=True)
class Exhibit:
    """One table or figure of a paper.

    paper, number  as the paper numbers it
    claim          the result that the paper shows there
    page           the page of results that measures it, or None
    reason         why nothing measures it, or why a page reproduces it in kind alone
    own_data       whether the page uses the paper's own data or generator
    needs          comparisons of that page that the claim needs to be better; its primary one where there are none
    worse          comparisons that it needs to be worse
    """

    paper: str
    number: str
    claim: str
    page: str | None
    reason: str
    own_data: bool = False
    needs: tuple[Comparison, ...] = ()
    worse: tuple[Comparison, ...] = ()

    def status(self, pages: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
        """Return the status and its one reason, from the verdicts of the pages that are there."""
        if self.page is None:
            return NOT_REPRODUCED, self.reason
        if self.page not in pages:
            return NOT_REPRODUCED, "the page has not been measured"
        found = _comparisons(pages[self.page])
        wanted = dict.fromkeys(self.worse, "worse") | dict.fromkeys(self.needs, "better")
        wanted = wanted or {next(iter(found)): "better"}
        missed = [found[pair]["sentence"] for pair, verdict in wanted.items() if found[pair]["verdict"] != verdict]
        if missed:
            return NOT_REPRODUCED, "; ".join(missed)
        if self.own_data:
            return REPRODUCED, "; ".join(found[pair]["sentence"] for pair in wanted)
        return IN_KIND, self.reason


def _comparisons(page: Mapping[str, Any]) -> dict[Comparison, Mapping[str, Any]]:
    """Comparison → its record on a page, the primary one first."""
    return {(each["column"], each["row"], each["other"]): each for each in (page["primary"], *page["differences"])}


OURS = "hazard on sgc2 (ours)"
MAIN, BY_REQUESTS = "loss, %: eq. 17–20, 24", "budgets by requests"
OVER_TRUTH = "MSE over the truth's"
SIMULATED = "simulated data"
LONG, ONE, NONE = "history of 2 and more", "history of 1", "history of 0"
LARGEST, EXACT = "heuristic, 200,000 users", "exact, 200,000 users"


def _raises(row: str, other: str) -> tuple[str, tuple[Comparison, ...], tuple[Comparison, ...]]:
    """Claim that an arm of S2's table 3 raises the amount, and its comparison."""
    return f"{row} raises the amount over {other}", (("TAPMD", row, other),), ()


EXHIBITS: Sequence[Exhibit] = (
    Exhibit("S0", "table 1", "size of Alipay's data", None, PRIVATE),
    Exhibit(
        "S0",
        "table 2",
        "a graph encoder, here `sgc2`, predicts better than DNN-H and DNN",
        "s0_methods",
        SIMULATED,
        needs=(("AUC_c", OURS, "DNN-H"), ("AUC_c", OURS, "DNN")),
    ),
    Exhibit(
        "S0",
        "table 3",
        "hazard regression predicts better than Cox, SBBM and DSSM-c",
        "s0_change_points",
        SIMULATED,
        needs=tuple(("AUC_c", OURS, other) for other in ("Cox", "SBBM", "DSSM-c")),
    ),
    Exhibit("S0", "tables 4 and 5", "payments online", None, "there is no online traffic here"),
    Exhibit("S0", "sections 1 and 4", "joint training and one budget beat separate ones", "s0_joint", SIMULATED),
    *(
        Exhibit("S0", "sections 1 and 4", claim, "s0_joint", SIMULATED, needs=((MAIN, *pair),))
        for claim, pair in (
            ("of these, joint training", (f"joint training, {BY_REQUESTS}", f"separate training, {BY_REQUESTS}")),
            ("of these, one budget", ("joint training, one budget", f"joint training, {BY_REQUESTS}")),
        )
    ),
    Exhibit("S0", "figure 3a", "merchants' and customers' responses are correlated", None, "no page measures it"),
    Exhibit("S0", "figures 3b and 5", "response and hazard by level, with change points", "s0_levels", SIMULATED),
    Exhibit(
        "S0", "figure 4", "uplift rises with sensitivity, more steeply than with DNN-H", "s0_sensitivity", SIMULATED
    ),
    Exhibit("S1", "table 2", "DIPN's allocation on features of (2, 2, 2) values", "s1_table2", "", own_data=True),
    Exhibit("S1", "table 3", "DIPN's allocation on features of (3, 5, 7) values", "s1_table3", "", own_data=True),
    Exhibit(
        "S1",
        "figure 3",
        "IPS corrects DIPN under a biased assignment",
        "s1_figure3",
        "the strength of the bias is not the paper's",
    ),
    Exhibit("S1", "table 4", "offline comparison on production data", None, PRIVATE),
    Exhibit("S1", "table 5", "comparison online", None, "there is no online traffic here"),
    Exhibit(
        "S2",
        "table 1",
        "ESDPM predicts better than MTL-ZILN, ESMM and MTL-MSE on LCT-D",
        "s2_table1",
        SIMULATED,
        needs=tuple((OVER_TRUTH, "ESDPM", other) for other in ("MTL-ZILN", "ESMM", "MTL-MSE")),
    ),
    Exhibit(
        "S2", "table 2", "ESDPM predicts better on LCT-W", None, f"{PRIVATE}; one simulated delivery stands for both"
    ),
    *(
        Exhibit("S2", f"table 3, P{number}", claim, "s2_table3", SIMULATED, needs=needs, worse=worse)
        for number, (claim, needs, worse) in enumerate(
            (
                (
                    "the heuristic raises conversions and lowers the amount, by ESMM",
                    (("CPMD", "ESMM, heuristic", "ESMM, manual"),),
                    (("TAPMD", "ESMM, heuristic", "ESMM, manual"),),
                ),
                _raises("ESDPM-NCG, heuristic", "ESMM, heuristic"),
                _raises("ESDPM-NCG, heuristic", "ESMM, manual"),
                _raises("ESDPM, heuristic", "ESDPM-NCG, heuristic"),
            ),
            1,
        )
    ),
    Exhibit(
        "S2", "figure 5", "hits in conversions and amount", None, f"{PRIVATE}; the JSON of s2_table1 has THC and THA"
    ),
    Exhibit("S2", "figure 6", "the heuristic earns more than manual priority", "s2_figure6", SIMULATED),
    Exhibit(
        "S2",
        "figure 6",
        "the heuristic is faster than an exact plan",
        "s2_figure6",
        SIMULATED,
        needs=(("time over exact", LARGEST, EXACT),),
    ),
    Exhibit(
        "S3",
        "table 3",
        "DMBGN predicts redemption better than DIN and than the mean of item embeddings",
        "s3_table3",
        SIMULATED,
        needs=(("AUC, A", "DMBGN", "DIN"), ("AUC, A", "DMBGN", "AvgPooling")),
    ),
    Exhibit(
        "S3",
        "table 3",
        "the same, where the order of behavior matters",
        "s3_order",
        SIMULATED,
        needs=tuple((f"AUC, {region}", "DMBGN", other) for region in "ABC" for other in ("DIN", "AvgPooling")),
    ),
    Exhibit(
        "S3",
        "table 4",
        "behavior after collection adds to that before it",
        "s3_table3",
        SIMULATED,
        needs=(("AUC, A", "DMBGN", "pre-collection only"),),
    ),
    Exhibit(
        "S3",
        "figure 4",
        "AUC rises with the length of the history, after a dip at one",
        "s3_figure4",
        SIMULATED,
        needs=(("AUC, DMBGN", LONG, NONE), ("AUC, DMBGN", LONG, ONE)),
    ),
    Exhibit(
        "S4",
        "its comparison",
        "training through the budget, with a control variate, beats two stages without one",
        "end_to_end",
        SIMULATED,
        needs=(("misspecified", "end to end", "two-stage (S-learner)"),),
    ),
    Exhibit(
        "S4",
        "its comparison",
        "training through the budget beats two stages on the same residual outcomes",
        "end_to_end",
        SIMULATED,
    ),
)


def by_paper(pages: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table: every exhibit with its status, and the reason where no page has it."""
    lines = ["| exhibit | claim | status |", "|---|---|---|"]
    for exhibit in EXHIBITS:
        status, reason = exhibit.status(pages)
        missed = status == NOT_REPRODUCED
        name = f"{exhibit.paper}, {exhibit.number}"
        name = f"[{name}]({exhibit.page}.md)" if exhibit.page in pages else name
        told = status if reason == SIMULATED or (missed and exhibit.page in pages) else f"{status}: {reason}"
        lines.append(f"| {name} | {exhibit.claim} | {told} |")
    return lines
