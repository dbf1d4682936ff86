"""Turn the served log of a campaign into rows to train on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from operations.common.accounts import read_outcomes
from operations.common.job import Job, option, reads, required, write_figures, writes
from operations.common.maturity import hours_of, maturity
from operations.common.workspace import log_of, read_campaign
from shadowprice.campaign import SIDES
from shadowprice.datasets.package import load_dataset, save_dataset
from shadowprice.datasets.session_requests import with_served
from shadowprice.datasets.split import Split
from shadowprice.errors import InvalidInput
from shadowprice.pacing.decision_log.harvest import READ, harvest
from shadowprice.pacing.decision_log.served import read_log
from shadowprice.tables import Tables, validate_tables


@dataclass(frozen=True, kw_only=True)
class HarvestJob(Job):
    """Add the decisions that were served, with their final outcomes, to the tables of a data set.

    The tables pass the same checks as a user's. The whole log is read each time: an outcome that came late, and a
    correction, change the rows of the next harvest. Rows of the data set with the same request id are replaced.

    A split by time moves on with the newest decision, so that served rows become training rows: the newest ones, of as
    long as validation and test were, are kept for validation and test. Voucher sessions get the served requests as
    sessions.
    """

    tables: Path = reads("folder of the prepared tables of the campaign")
    workspace: Path = required("folder with the campaign that was served")
    log: Path | None = option(None, "folder of the decision log; that of a run on one machine if left out")
    harvested: Path = writes("folder of the tables with the served rows")
    figures: Path | None = writes("file of the numbers of rows", optional=True)
    mature_hours: int = maturity()
    outcomes: str = option(
        "", "parquet file with request_id and outcomes x_… that the ledger lacks, such as later windows"
    )
    recent_days: int = option(0, "days before the newest served decision whose rows are kept; 0: all rows")


def run(job: HarvestJob) -> dict[str, int]:
    """Write the tables and return the numbers of rows.

    Raises:
        NotFound: no log or no tables.
        InvalidInput: an incentive that no offer, or more than one offer, of its side has; several logs and none named;
            recent days that keep no training row.
        InvalidTable: the log has no decisions, or the rows break a rule of the tables.
    """
    campaign, dataset = read_campaign(job.workspace), load_dataset(job.tables)
    hours = hours_of(job.mature_hours, campaign)
    log = read_log(job.log or log_of(job.workspace), columns=READ)
    harvested = harvest(log, campaign, dataset.tables.offer, hours)
    exposure, strangers = _of_known(dataset.tables, harvested.exposure)
    split, old = dataset.split, set[str]()
    if len(exposure):
        last = max(part["decided_at"].max() for part in dataset.tables.parts("exposure"))
        split = split.later(max(exposure["decided_at"].max() - last, timedelta()))
    if job.recent_days and len(exposure):
        since = exposure["decided_at"].max() - timedelta(days=job.recent_days)
        _check_recent(split, since, exposure["decided_at"].max())
        exposure = exposure[exposure["decided_at"] >= since].reset_index(drop=True)
        parts = dataset.tables.parts("exposure")
        old = {name for part in parts for name in part.loc[part["decided_at"] < since, "request_id"]}
    outcome = harvested.outcome[harvested.outcome["request_id"].isin(exposure["request_id"])]
    if job.outcomes and len(outcome):
        more = read_outcomes(Path(job.outcomes), outcome["request_id"])
        outcome = outcome.assign(**{str(name): more[name].to_numpy() for name in more})
    served = set(exposure["request_id"])
    sources = {name: dataset.tables.parts(name) for name in dataset.tables.sources}
    sources["exposure"] = _joined(dataset.tables, "exposure", served | old, exposure)
    sources["outcome"] = _joined(dataset.tables, "outcome", served | old, outcome)
    counts = {
        "served rows": len(exposure),
        "rows of the company's holdout": harvested.held,
        "open rows": harvested.open,
        "rows given nothing": harvested.nothing,
        "rows of the data set that are too old": len(old),
        "rows of accounts without a profile": strangers,
    }
    notes = {**dataset.notes, "served": f"{len(exposure):,} requests of the decision log"}
    sessions = dataset.sessions and with_served(dataset.sessions, exposure, outcome, harvested.behaviour, hours, old)
    new = replace(dataset, tables=validate_tables(sources), sessions=sessions, split=split, notes=notes)
    save_dataset(new, job.harvested)
    write_figures(job.figures, counts)
    return counts


def _check_recent(split: Split, since: pd.Timestamp, newest: pd.Timestamp) -> None:
    """Refuse recent days that a split by time gives to validation and test alone."""
    earliest = pd.DataFrame({"account_id": [""], "decided_at": [since]})
    if split.validation_from is not None and split.assign(earliest)[0] != "train":
        days = (newest - pd.Timestamp(split.validation_from)) / pd.Timedelta(days=1)
        purged = f", and labels take {split.label_delay_days:g} days" if split.purge else ""
        raise InvalidInput(
            f"keeps no training row: validation begins {days:.1f} days before the newest decision{purged}; name more",
            field="recent_days",
        )


def _of_known(tables: Tables, exposure: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Return the rows of accounts that the tables know, and how many are left out; unknown partners become none.

    A request of an account without a profile has no features; a partner without one counts as none.
    """
    if exposure.empty:
        return exposure, 0
    other = exposure["side"].map(dict(zip(SIDES, reversed(SIDES), strict=True)))
    asked = pd.concat([exposure["account_id"], exposure["partner_id"].dropna()])
    with tables.connect() as db:
        db.register("asked", pa.table({"account_id": pa.array(asked.unique(), pa.string())}))
        pairs = db.sql("SELECT DISTINCT account_id, side FROM account SEMI JOIN asked USING (account_id)").fetchall()
    known = set(pairs)
    own = [pair in known for pair in zip(exposure["account_id"], exposure["side"], strict=True)]
    named = np.array([pair in known for pair in zip(exposure["partner_id"], other, strict=True)], dtype=np.bool_)
    rows = exposure.assign(partner_id=exposure["partner_id"].where(named, None))[own].reset_index(drop=True)
    return rows, len(exposure) - len(rows)


def _joined(tables: Tables, name: str, left_out: set[str], rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Rows of a table that are not left out, then those that were served; all with the columns of both."""
    names = list(dict.fromkeys((*tables.columns(name), *rows.columns)))
    for part in tables.parts(name):
        yield _with_columns(part[~part["request_id"].isin(left_out)], names)
    if len(rows):
        yield _with_columns(rows, names)


def _with_columns(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Rows with all columns; those that they lack are empty."""
    missing = {name: np.nan if name.startswith("x_") else None for name in names if name not in rows}
    return rows.assign(**missing)[names]
