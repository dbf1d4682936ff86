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


def _simulated(
    paper: str, number: str, page: str, claim: str, *better: Comparison, worse: tuple[Comparison, ...] = ()
) -> Exhibit:
    """Exhibit that a page answers on simulated data."""
    return Exhibit(paper, number, claim, page, SIMULATED, needs=better, worse=worse)


def _against(column: str, row: str, *others: str) -> tuple[Comparison, ...]:
    """Compare one row with each of the others."""
    return tuple((column, row, other) for other in others)


def _raises(number: int, row: str, other: str) -> Exhibit:
    """Exhibit of two arms of S2's table 3, of which the first raises the amount."""
    claim = f"{row} raises the amount over {other}"
    return _simulated("S2", f"table 3, P{number}", "s2_table3", claim, ("TAPMD", row, other))


EXHIBITS: Sequence[Exhibit] = (
    Exhibit("S0", "table 1", "size of Alipay's data", None, PRIVATE),
    _simulated(
        *("S0", "table 2", "s0_methods", "a graph encoder, here `sgc2`, predicts better than DNN-H and DNN"),
        *_against("AUC_c", OURS, "DNN-H", "DNN"),
    ),
    _simulated(
        *("S0", "table 3", "s0_change_points", "hazard regression predicts better than Cox, SBBM and DSSM-c"),
        *_against("AUC_c", OURS, "Cox", "SBBM", "DSSM-c"),
    ),
    Exhibit("S0", "tables 4 and 5", "payments online", None, "there is no online traffic here"),
    _simulated("S0", "sections 1 and 4", "s0_joint", "joint training and one budget beat separate ones"),
    _simulated(
        *("S0", "sections 1 and 4", "s0_joint", "of these, joint training"),
        (MAIN, f"joint training, {BY_REQUESTS}", f"separate training, {BY_REQUESTS}"),
    ),
    _simulated(
        *("S0", "sections 1 and 4", "s0_joint", "of these, one budget"),
        (MAIN, "joint training, one budget", f"joint training, {BY_REQUESTS}"),
    ),
    Exhibit("S0", "figure 3a", "merchants' and customers' responses are correlated", None, "no page measures it"),
    _simulated("S0", "figures 3b and 5", "s0_levels", "response and hazard by level, with change points"),
    _simulated("S0", "figure 4", "s0_sensitivity", "uplift rises with sensitivity, more steeply than with DNN-H"),
    Exhibit("S1", "table 2", "DIPN's allocation on features of (2, 2, 2) values", "s1_table2", "", own_data=True),
    Exhibit("S1", "table 3", "DIPN's allocation on features of (3, 5, 7) values", "s1_table3", "", own_data=True),
    Exhibit(
        *("S1", "figure 3", "IPS corrects DIPN under a biased assignment", "s1_figure3"),
        "the strength of the bias is not the paper's",
    ),
    Exhibit("S1", "table 4", "offline comparison on production data", None, PRIVATE),
    Exhibit("S1", "table 5", "comparison online", None, "there is no online traffic here"),
    _simulated(
        *("S2", "table 1", "s2_table1", "ESDPM predicts better than MTL-ZILN, ESMM and MTL-MSE on LCT-D"),
        *_against(OVER_TRUTH, "ESDPM", "MTL-ZILN", "ESMM", "MTL-MSE"),
    ),
    Exhibit(
        *("S2", "table 2", "ESDPM predicts better on LCT-W", None), f"{PRIVATE}; one simulated delivery stands for both"
    ),
    _simulated(
        *("S2", "table 3, P1", "s2_table3", "the heuristic raises conversions and lowers the amount, by ESMM"),
        ("CPMD", "ESMM, heuristic", "ESMM, manual"),
        worse=(("TAPMD", "ESMM, heuristic", "ESMM, manual"),),
    ),
    _raises(2, "ESDPM-NCG, heuristic", "ESMM, heuristic"),
    _raises(3, "ESDPM-NCG, heuristic", "ESMM, manual"),
    _raises(4, "ESDPM, heuristic", "ESDPM-NCG, heuristic"),
    Exhibit(
        *("S2", "figure 5", "hits in conversions and amount", None), f"{PRIVATE}; the JSON of s2_table1 has THC and THA"
    ),
    _simulated("S2", "figure 6", "s2_figure6", "the heuristic earns more than manual priority"),
    _simulated(
        *("S2", "figure 6", "s2_figure6", "the heuristic is faster than an exact plan"),
        ("time over exact", "heuristic, 200,000 users", "exact, 200,000 users"),
    ),
    _simulated(
        *(
            "S3",
            "table 3",
            "s3_table3",
            "DMBGN predicts redemption better than DIN and than the mean of item embeddings",
        ),
        *_against("AUC, A", "DMBGN", "DIN", "AvgPooling"),
    ),
    _simulated(
        *("S3", "table 3", "s3_order", "the same, where the order of behavior matters"),
        *(pair for region in "ABC" for pair in _against(f"AUC, {region}", "DMBGN", "DIN", "AvgPooling")),
    ),
    _simulated(
        *("S3", "table 4", "s3_table3", "behavior after collection adds to that before it"),
        ("AUC, A", "DMBGN", "pre-collection only"),
    ),
    _simulated(
        *("S3", "figure 4", "s3_figure4", "AUC rises with the length of the history, after a dip at one"),
        *_against("AUC, DMBGN", "history of 2 and more", "history of 0", "history of 1"),
    ),
    _simulated(
        *("S4", "its comparison", "end_to_end"),
        "training through the budget, with a control variate, beats two stages without one",
        ("misspecified", "end to end", "two-stage (S-learner)"),
    ),
    _simulated(
        *("S4", "its comparison", "end_to_end"),
        "training through the budget beats two stages on the same residual outcomes",
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
