"""Write the front page of the results: each page's primary verdict, and the status of each paper's tables."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from research.papers import by_paper
from research.summary import beside
from shadowprice.files import write_whole

INDEX = "README.md"
INTRODUCTION = """`make reproduce` measures these pages; with `QUICK=1` at small sizes, not to be quoted. The \
verdict is that of the primary comparison, named before it was measured; Holm's method adjusts the others. A \
difference that is significant says better or worse. Figures are means ± half their 95 % t interval over seeds from \
100 on; settings were chosen on other seeds. A page states the difference that its seeds detect with 90 % power, and \
shows the rows, columns and comparisons that its words need. The JSON beside it has all of them, each seed, and time \
and date of the measurement.

All data but the coupons of `o2o` are simulated: values and payments are those of the known truth, at equal true \
cost. The attainable gain is that of the optimum over the best flat mixture of levels."""
WORLD = """Pages of S0 use the generator `world` with 2,000 customers and 500 merchants, 8 trial rows an account, 7 \
ties, noise 0.8, influence 1 and 30 minor units an account, split by account, unless they state otherwise. The \
encoder is `sgc2`, not equation 1's `gcn2` ([s0_graph](s0_graph.md)). Curve error is the root mean squared distance \
to the true curves of held-out customers."""


def write_index(folder: Path, names: Iterable[str]) -> None:
    """Write ``README.md`` from the JSON of those pages of ``names`` that are there, in that order."""
    names = list(names)
    pages = {name: json.loads(path.read_text()) for name in names if (path := folder / f"{name}.json").is_file()}
    quick = any(page["quick"] for page in pages.values())
    lines = [
        "# Results" + (" of quick mode: not to be quoted" if quick else ""),
        "",
        INTRODUCTION,
        "",
        "| page | primary comparison | verdict |",
        "|---|---|---|",
        *(_row(name, page) for name, page in pages.items()),
        "",
        *_missing([name for name in names if name not in pages]),
        "## By paper",
        "",
        "An exhibit is reproduced when the comparisons that its claim needs are significant on the paper's own data or "
        "generator, and reproduced in kind on other data. A page has the reason of its status. "
        "S0: incentives for both sides of Alipay's payments; S1: DIPN (KDD 2021); S2: EOCA; S3: DMBGN (KDD 2021); "
        "S4: training through the budget.",
        "",
        *by_paper(pages),
        "",
        "## The world of S0",
        "",
        WORLD,
        "",
        f"{len(pages)} pages, {sum(page['seconds'] for page in pages.values()) / 60:.0f} minutes in all, on machines "
        "that also did other work.",
        "",
    ]
    write_whole(folder / INDEX, "\n".join(lines))


def _missing(names: list[str]) -> list[str]:
    """Return a paragraph that lists the tables whose code has changed since they were measured, or were never."""
    return [f"Not measured on today's code: {', '.join(names)}.", ""] if names else []


def _row(name: str, page: dict[str, Any]) -> str:
    compared, verdict = "", ""
    if primary := page.get("primary"):
        compared = f"{primary['row']} against {beside(primary['row'], primary['other'])} on {primary['column']}"
        verdict = primary["verdict"]
    cells = [f"[{name}]({name}.md)", compared, verdict]
    return "| " + " | ".join(cells) + " |"
