"""Load a data set, check it, and write its canonical tables; a bad table fails before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from operations.common.disk import require_space
from operations.common.job import Job, option, writes
from shadowprice.currency import Currency
from shadowprice.datasets.inputs import input_files
from shadowprice.datasets.package import prepare
from shadowprice.datasets.registry import Dataset
from shadowprice.evidence.faults import refuse_faults
from shadowprice.tables import campaign_from_tables


@dataclass(frozen=True, kw_only=True)
class PrepareJob(Job):
    """Load and check a data set."""

    tables: Path = writes("folder of the tables, the split, the notes and, where known, the truth")
    dataset: str = option("world", "world, tables, mapping, o2o, thornton, promotion, funds or vouchers")
    data: str = option("", "folder of the files, or the mapping, for data sets that read files")
    seed: int = option(0, "of the data where generated, initialization and dropout")
    options: Mapping[str, Any] = option({}, "options of the data set, as JSON")


def run(job: PrepareJob) -> Mapping[str, str]:
    """Write the tables and return the notes of the data set.

    Raises:
        InvalidTable: the tables break a rule, their propensities do not fit their shares, or too many rows would be
            lost.
    """
    if job.data:
        # The tables, and what is sorted on the way.
        files = input_files(job.dataset, job.data, job.options)
        require_space(job.tables, 2 * sum(file.stat().st_size for file in files), job.name)
    return prepare(job.dataset, job.data, job.seed, job.tables, _check, job.options).notes


def _check(dataset: Dataset) -> Dataset:
    campaign, currency = campaign_from_tables(dataset.tables), Currency.of(dataset.currency)
    tables, _ = refuse_faults(dataset.tables, campaign, currency, dataset.split, dataset.confounders)
    return replace(dataset, tables=tables)
