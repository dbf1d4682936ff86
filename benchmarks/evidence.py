"""``python -m benchmarks.evidence``: how often the evidence of a generated trial is right.

For each shape of :mod:`benchmarks.trials` it draws trials without an effect, with about the real one, and with three
times that, and prints how often each verdict is given and how often the intervals cover the truth.
"""

import sys
from collections import Counter
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.trials import Shape, TrialFiles, draw
from shadowprice.command.options import main_of
from shadowprice.evaluation.statistics.intervals import Estimate
from shadowprice.evaluation.statistics.level_means import LevelMeans
from shadowprice.evaluation.uplift.comparisons import side_evidence
from shadowprice.evaluation.uplift.evidence import SideEvidence
from shadowprice.evaluation.uplift.shares import shares

SHAPES: tuple[Shape, ...] = ("bonus", "gift", "email")
EFFECTS = (0.0, 1.0, 3.0)
MINOR = 100
"""Minor units in a major one."""
EMAIL = 10
"""Minor units of an e-mail that is sent."""


def incentives_of(trial: TrialFiles) -> NDArray[np.int64]:
    """Amounts of the levels in minor units, (J,); each e-mail costs the same."""
    if trial.levels:
        return np.array([round(MINOR * level) for level in trial.levels])
    return np.array([0] + [EMAIL] * (trial.shares.size - 1))


def evidence_in(trial: TrialFiles) -> SideEvidence:
    """Evidence of a drawn trial; an amount is paid on response, an e-mail in any case."""
    incentives = incentives_of(trial)
    return side_evidence(
        "customer",
        incentives,
        LevelMeans(trial.level, incentives.size),
        trial.response,
        incentives[trial.level] * (trial.response if trial.levels else 1),
        shares(trial.level, trial.shares[trial.level], incentives.size),
        ordered=bool(trial.levels),
    )


def covered(trial: TrialFiles, found: SideEvidence) -> dict[str, list[bool]]:
    """Name of an interval → whether it covers the true value, for each level.

    A ratio whose denominator may be 0 has no bounds, so it covers every value.
    """
    mean, incentives = trial.truth.mean(axis=1), incentives_of(trial)
    hits: dict[str, list[bool]] = {"difference": [], "relative": [], "cost of one extra": []}
    for level in found.levels[1:]:
        rise = mean[level.level] - mean[0]
        hits["difference"].append(_holds(level.difference, rise))
        hits["relative"].append(level.relative is None or _holds(level.relative, rise / mean[0]))
        open_ = level.difference is not None and level.difference.low <= 0 <= level.difference.high
        if rise > 0:
            paid = incentives[level.level] * (mean[level.level] if trial.levels else 1.0)
            hits["cost of one extra"].append(open_ or _holds(level.cost_each, paid / rise))
    return hits


def _holds(found: Estimate | None, truth: float) -> bool:
    return found is not None and found.low <= truth <= found.high


def compare(
    shapes: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(SHAPES)}; all by default")] = None,
    draws: Annotated[int, typer.Option(help="trials of each shape and effect")] = 200,
    accounts: Annotated[int, typer.Option(help="of each trial; 0: those of the real one")] = 0,
) -> None:
    """Count how often the evidence of a generated trial is right."""
    print("| trial | effect | not identified | identified | wrong way | difference | relative | cost of one extra |")
    print("|---|---|---|---|---|---|---|---|")
    for shape in (each for each in SHAPES if not shapes or each in shapes):
        for effect in EFFECTS:
            verdicts, hits = Counter[str](), dict[str, list[bool]]()
            for seed in range(draws):
                trial = draw(shape, seed=seed, accounts=accounts, effect=effect)
                found = evidence_in(trial)
                verdicts[found.verdict] += 1
                for name, each in covered(trial, found).items():
                    hits.setdefault(name, []).extend(each)
            rates = [verdicts[name] / draws for name in ("not identified", "identified", "wrong way")]
            cover = [f"{np.mean(hit):.1%} of {len(hit)}" if hit else "–" for hit in hits.values()]
            print(f"| {shape} | {effect:g} | {' | '.join(f'{rate:.1%}' for rate in rates)} | {' | '.join(cover)} |")


main = main_of(compare, "python -m benchmarks.evidence")

if __name__ == "__main__":
    sys.exit(main())
