"""Load a data set, check it, and write its canonical tables; a bad table fails before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations.common.job import Job, option, writes
from operations.common.kind import VOUCHERS
from shadowprice.datasets.package import prepare
from shadowprice.learning.vouchers import prepare as prepare_vouchers


@dataclass(frozen=True, kw_only=True)
class PrepareJob(Job):
    """Load and check a data set."""

    tables: Path = writes("folder of the tables, the split, the notes and, where known, the truth")
    dataset: str = option("world", "world, tables, mapping, o2o, thornton, promotion, funds or vouchers")
    data: str = option("", "folder of the files, or the mapping, for data sets that read files")
    seed: int = option(0, "of the data where generated, initialisation and dropout")
    options: Mapping[str, Any] = option({}, "options of the data set, as JSON")
    test_from: str = option("", "first instant of the test, for voucher sessions from files")


def run(job: PrepareJob) -> Mapping[str, str]:
    """Write the tables and return the notes of the data set."""
    if job.dataset == VOUCHERS:
        return prepare_vouchers(job.tables, job.data, job.test_from, job.seed, job.options).notes
    return prepare(job.dataset, job.data, job.seed, job.tables, **job.options).notes
