"""Store the curves of voucher sessions, as any model is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from operations.common.job import Job, reads, writes
from shadowprice.learning.vouchers import store_curves


@dataclass(frozen=True, kw_only=True)
class CurvesJob(Job):
    """Store the response of every person's latest session to every voucher on offer.

    A model of sessions reads graphs, which no service has at decision time.
    """

    tables: Path = reads("folder of the prepared sessions")
    training: Path = reads("folder of the graphs")
    model: Path = reads("folder of the trained model")
    bundle: Path = writes("folder of heads, stored curves and description, for a server without torch")


def run(job: CurvesJob) -> str:
    """Write the bundle and return its version."""
    return store_curves(job.tables, job.training, job.model, job.bundle, {})
