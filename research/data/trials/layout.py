"""Layout of the file of a public trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One data set's files and columns.

    source      its name and paper: what to search for
    files       file names, the first is looked for when a folder is given, → whether its levels were drawn at random
    treatment   column of the arm
    arms        what the column holds, in the order of the levels
    value       column of a row's value; cost, of its cost, or None where the file has none
    binary      outcome columns that are 0 or 1
    numbers     feature columns that are numbers; categories, that are text
    cost_note   what the cost stands for
    """

    source: str
    files: Mapping[str, bool]
    treatment: str
    arms: Sequence[str]
    value: str
    cost: str | None
    numbers: Sequence[str]
    binary: Sequence[str]
    categories: Sequence[str] = field(default=())
    cost_note: str = "the level"


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"f{k}" for k in range(count))


LAYOUTS = {
    "criteo": Layout(
        source="Criteo-uplift v2.1: Diemert, Betlei, Renaudin and Amini, 'A Large Scale Benchmark for Uplift Modeling' "
        "(AdKDD 2018); licence CC BY-NC-SA 4.0, not to be passed on",
        files={"criteo-research-uplift-v2.1.csv.gz": True, "criteo-research-uplift-v2.1.csv": True},
        treatment="treatment",
        arms=("0", "1"),
        value="conversion",
        cost="visit",
        numbers=numbered(12),
        binary=("conversion", "visit"),
        cost_note="a visit, as in DFCL (KDD 2024)",
    ),
    "hillstrom": Layout(
        source="Kevin Hillstrom's MineThatData e-mail challenge (2008)",
        files={"Kevin_Hillstrom_MineThatData_E-MailAnalytics_DataMiningChallenge_2008.03.20.csv": True},
        treatment="segment",
        arms=("No E-Mail", "Mens E-Mail", "Womens E-Mail"),
        value="spend",
        cost=None,
        numbers=("recency", "history", "mens", "womens", "newbie"),
        categories=("zip_code", "channel"),
        binary=(),
    ),
    "mt_lift": Layout(
        source="MT-LIFT: Huang et al., 'Entire Chain Uplift Modeling with Context-Enhanced Learning for Intelligent "
        "Marketing' (Meituan, WWW 2024)",
        files={"train.csv": True, "test.csv": True},
        treatment="treatment",
        arms=("0", "1", "2", "3", "4"),
        value="conversion",
        cost="click",
        numbers=numbered(99),
        binary=("click", "conversion"),
        cost_note="a click; the coupons' amounts are not in the file",
    ),
    "lazada": Layout(
        source="Lazada's voucher data: Zhong et al., 'DESCN: Deep Entire Space Cross Networks for Individual Treatment "
        "Effect Estimation' (KDD 2022)",
        files={"full_testset.csv": True, "full_trainset.csv": False},
        treatment="is_treat",
        arms=("0", "1"),
        value="label",
        cost=None,
        numbers=numbered(83),
        binary=("label",),
    ),
}
"""A new one is an entry here."""
