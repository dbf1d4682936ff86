"""Flat policy in place of a model that the gate refused, ready to be served."""

import shlex
import time
from dataclasses import replace
from pathlib import Path

from operations.common.job import run_here
from operations.common.workspace import read_campaign
from operations.evaluate import EvaluateJob
from operations.register import RegisterJob
from operations.train import TrainJob
from pipelines.local import run
from serving.local.policy import shares_in_words
from shadowprice.campaign import FLAT
from shadowprice.errors import ShadowpriceError
from shadowprice.reports.data import ReportData
from shadowprice.reports.stored import store_report
from shadowprice.responses.inputs import about_in

FOLDER = "flat"
"""Folder of what is made, in the pipeline folder of a run."""


def refusal(folder: Path, training_run: Path, found: ReportData, seed: int) -> str:
    """Make the refused run ready to serve the flat policy, write its page, and return in words what can be done.

    Args:
        folder: of the run.
        training_run: folder of the training pipeline in it.
        found: evaluation of the refused model.
        seed: of the run.
    """
    assert found.gate is not None
    verdict = f"the model did not pass the gate and is not served: {'; '.join(found.gate.reasons)}"
    way = _way(folder, training_run, seed)
    name = found.title if found.campaign is None else f"Campaign {found.campaign.name}"
    notes = (*([way[0].upper() + way[1:] + "."] if way else []), *found.notes)
    page = store_report(replace(found, title=name, notes=notes), folder)
    return f"{verdict}; what would mend it: {page}{f'; {way}' if way else ''}"


def _way(folder: Path, training_run: Path, seed: int) -> str:
    """Register and price the flat policy; return how it is served, or why it could not be made."""
    training, tables = training_run / "featurize" / "training", training_run / "prepare" / "tables"
    if about_in(training) or read_campaign(folder).policy == FLAT:
        return ""
    started, place = time.perf_counter(), folder / "pipeline" / FOLDER
    evaluation, page = place / "evaluation", place / "page"
    try:
        run_here(TrainJob(training=training, model=place / "model", recipe=FLAT, seed=seed, workers=0))
        judged = EvaluateJob(
            model=place / "model",
            training=training,
            tables=tables,
            workspace=folder,
            evaluation=evaluation,
            page=page,
            summary=place / "summary",
        )
        if not run_here(judged):
            return f"the flat policy is not served either: {page}"
        run_here(
            RegisterJob(
                model=place / "model",
                workspace=folder,
                evaluation=evaluation,
                instead_of=training_run / "train" / "model",
                refusal=training_run / "evaluate" / "evaluation",
            )
        )
        run("resolve", folder / "pipeline", {"workspace": str(folder)})
    except ShadowpriceError as error:
        return f"the flat policy cannot be served: {error}"
    print(f"  flat policy in {time.perf_counter() - started:.1f} s", flush=True)
    return (
        f"until then `shadowprice serve {shlex.quote(str(folder))}` serves the flat policy ({shares_in_words(folder)})"
    )
