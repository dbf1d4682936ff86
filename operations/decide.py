"""Decide a list of accounts at once, over exactly these accounts, and authorize each in the ledger."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from operations.common.job import Job, option, reads, required, write_figures, writes
from operations.common.ledger_calls import BulkAuthorizer
from operations.common.ledger_reads import read_cap_use, read_hard_stop
from operations.common.solver import Solver, executor_of
from operations.common.workspace import LISTS, ORIGIN, read_groups
from operations.measure import nothing_spent
from shadowprice.campaign import NAME, NAME_RULE, Campaign
from shadowprice.documents import read_json
from shadowprice.errors import Conflict, InvalidInput, NotCertified
from shadowprice.files import lock_file, sha256, whole_file, write_whole
from shadowprice.limits.coverage import SideRequests
from shadowprice.lists.accounts import read_listed
from shadowprice.lists.answered import answered, items_of
from shadowprice.lists.money import InHand
from shadowprice.lists.parts import SideList
from shadowprice.lists.rows import PLAN
from shadowprice.lists.solve import AccountList
from shadowprice.lists.summary import Origin, Summary
from shadowprice.lists.table import SCHEMA, check_format, list_file
from shadowprice.pacing.budgets.in_hand import expected_cost_of_holds, in_hand_of_budgets, remaining_budget
from shadowprice.pacing.spend import MetricsSpend
from shadowprice.price import PriceRecord
from shadowprice.progress import Stages

PLANNED = "plan.parquet"
BLOCK = 16
"""Parts of a plan that are in memory together and go to the ledger in the order of their request ids.

Near ids are near in the ledger's file, so that one page takes many rows of a commit."""


@dataclass(frozen=True, kw_only=True)
class DecideJob(Job):
    """Decide each account of a list and write the list.

    The price is solved over exactly these accounts, so that the list uses the money in hand. A list that was
    interrupted goes on where it stopped. The same list gives the same file and costs nothing.
    """

    accounts: Path = reads("CSV or parquet file with a column account_id, and side where the campaign has both")
    out: Path = writes("file of the list: CSV by its extension, else parquet")
    summary: Path | None = writes("Markdown page: offers, money, price, and who gets nothing and why", optional=True)
    figures: Path | None = writes("file of the same as numbers", optional=True)
    workspace: Path = required("folder with campaign, model and population")
    list_name: str = option(
        "", "name of the list, which has one decision for each account; empty: that of the file of accounts"
    )
    ledger_url: str = option("", "address of the ledger; empty: the list is a plan, and nothing is authorized")
    budget: int = option(-1, "most minor units that the list may use; -1: all that is left")
    workers: int = option(0, "Ray actors that hold the accounts; 0 solves in this process")


def run(job: DecideJob) -> dict[str, float]:
    """Decide, authorize and write.

    Returns:
        Figures of the list by name.

    Raises:
        InvalidInput: the file of accounts is not as described, or the campaign cannot be decided by lists.
        Conflict: the list was decided over other accounts, or another process decides it.
        NotCertified: no price may be used, or the campaign's window is closed.
        Unavailable: the ledger or the online store does not answer; run the job again.
    """
    check_format(job.out, "out")
    name = job.list_name or job.accounts.stem
    if not re.fullmatch(NAME, name):
        raise InvalidInput(NAME_RULE, field="list_name")
    if job.budget < -1:
        raise InvalidInput("must be a number of minor units, or -1 for all that is left", field="budget")
    with Stages("decide", 4 if job.ledger_url else 3) as stage:
        summary = _authorized(job, name, stage) if job.ledger_url else _planned(job, name, stage)
    if job.summary is not None:
        write_whole(job.summary, summary.markdown())
    figures = summary.figures()
    write_figures(job.figures, figures)
    return figures


def _planned(job: DecideJob, name: str, stage: Stages) -> Summary:
    """Write the list without a ledger."""
    accounts, origin, solver = _solved(job, name, stage)
    stage("decide and write")
    summary = Summary(solver.campaign, origin)
    with list_file(job.out) as write:
        for rows in accounts.rows(origin.record):
            listed = rows.select(SCHEMA.names)
            summary.add(listed)
            write(listed)
    return summary


def _authorized(job: DecideJob, name: str, stage: Stages) -> Summary:
    """Keep the plan in the workspace, authorize it part by part, and write the list of the ledger's answers."""
    folder, digest = job.workspace / LISTS / name, sha256(job.accounts)
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_file(folder / ".lock")
    if lock is None:
        raise Conflict(f"another process decides list {name!r}")
    with open(lock):
        if not (folder / ORIGIN).exists():
            accounts, origin, solver = _solved(job, name, stage)
            _check_window(solver.campaign)
            stage("decide")
            with whole_file(folder / PLANNED, durable=True) as draft, pq.ParquetWriter(draft, PLAN) as writer:
                for rows in accounts.rows(origin.record):
                    writer.write_table(rows)
            kept = asdict(origin) | {"record": json.loads(origin.record.to_json()), "digest": digest}
            kept["campaign"] = solver.campaign.to_dict()
            write_whole(folder / ORIGIN, json.dumps(kept), durable=True)
        kept = read_json(folder / ORIGIN)
        if kept.pop("digest") != digest:
            raise Conflict(
                f"list {name!r} was decided over another file of accounts on {kept['record']['solved_at']}; "
                "choose another name for a new list"
            )
        campaign = Campaign.from_dict(kept.pop("campaign"))
        origin = Origin(**kept | {"record": PriceRecord.from_json(json.dumps(kept["record"]))})
        stage("authorize")
        summary = Summary(campaign, origin)
        with list_file(job.out) as write:
            for rows in _answers(job, campaign, origin.record, folder):
                summary.add(rows)
                write(rows)
    return summary


def _answers(job: DecideJob, campaign: Campaign, record: PriceRecord, folder: Path) -> Iterator[pa.Table]:
    """Yield blocks of a list as the ledger answered them; a part that is kept already is not asked again."""
    versions = {"model_version": record.model_version, "price_version": record.version}
    message = {"campaign": campaign.name, **versions}
    with BulkAuthorizer(job.ledger_url, message) as ledger, pq.ParquetFile(folder / PLANNED) as planned:
        for first in range(0, planned.num_row_groups, BLOCK):
            numbers = range(first, min(first + BLOCK, planned.num_row_groups))
            rows = planned.read_row_groups(numbers).combine_chunks()
            order = pc.sort_indices(rows["request_id"]).to_numpy()
            parts = [folder / f"answers-{number:05}.parquet" for number in numbers]
            for part, places in zip(parts, np.array_split(order, len(parts)), strict=True):
                if not part.exists():
                    _check_window(campaign)
                    asked = rows.take(pa.array(places))
                    decisions = ledger.authorize(items_of(campaign, asked))
                    with whole_file(part, durable=True) as draft:
                        pq.write_table(answered(campaign, asked, decisions), draft)
            yield pa.concat_tables(map(pq.read_table, parts)).combine_chunks().take(pa.array(np.argsort(order)))


def _solved(job: DecideJob, name: str, stage: Stages) -> tuple[AccountList, Origin, Solver]:
    """Solve the price of the list."""
    stage("read the accounts and their curves")
    solver = Solver(job.workspace)
    campaign, now = solver.campaign, datetime.now(UTC)
    listed = read_listed(job.accounts, list(campaign.sides))
    sides = {side: SideList(names, *solver.listed(side, names)) for side, names in listed.account_id.items()}
    coverage = solver.coverage(SideRequests(side, names.to_pylist()) for side, names in listed.account_id.items())
    money = _in_hand(job, solver, now)
    groups = read_groups(campaign, job.workspace)
    accounts = AccountList(campaign, coverage, name, sides, money, now, groups, solver.spend)
    stage("solve the price")
    with executor_of(job.workers) as executor:
        # A second has one list; prices of the campaign's window have small numbers.
        record = accounts.solve(int(now.timestamp()), solver.model_version, executor)
    unknown = sum(int((~mine.known).sum()) for mine in sides.values())
    counts = {"repeated": listed.repeated, "unknown": unknown}
    counts["judged"] = sum(own.rows for own in solver.spend.values())
    ratio = accounts.ratio.low, accounts.ratio.high
    origin = Origin(name=name, record=record, by_hold=accounts.by_hold, asked=job.budget, ratio=ratio, **counts)
    return accounts, origin, solver


def _in_hand(job: DecideJob, solver: Solver, now: datetime) -> InHand:
    """Money that is neither spent nor held, by the ledger; all of it without one."""
    campaign = solver.campaign
    if not job.ledger_url:
        spend, hard_stop, newest = nothing_spent(campaign), False, None
    else:
        spend = MetricsSpend((f"{job.ledger_url.rstrip('/')}/metrics",)).read(campaign.name)
        spend = replace(spend, caps=read_cap_use(job.ledger_url, campaign, now))
        hard_stop = read_hard_stop(job.ledger_url, campaign.name)
        newest = None if hard_stop else solver.prices.latest(campaign.name, verified_only=True)
    held = expected_cost_of_holds(campaign, solver.samples, spend, newest)
    left = remaining_budget(campaign, spend) - sum(held.values()) - campaign.set_aside(spend.late)
    if job.budget >= 0:
        if campaign.budget.form != "total":
            raise InvalidInput("needs a campaign with a total; a mean has no amount to use", field="budget")
        left = min(left, float(job.budget))
    of_budgets = in_hand_of_budgets(campaign, spend, held, solver.samples)
    return InHand(left, of_budgets, spend.caps, hard_stop, spend.spent)


def _check_window(campaign: Campaign) -> None:
    now = datetime.now(UTC)
    if not campaign.starts_at <= now < campaign.ends_at:
        raise NotCertified(
            f"the window of campaign {campaign.name!r} is from {campaign.starts_at.isoformat()} to "
            f"{campaign.ends_at.isoformat()}; outside of it nothing is authorized: leave the ledger out for a plan"
        )
