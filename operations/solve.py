"""Solve the price of the remaining budget or places, over what the feature store serves."""

from dataclasses import dataclass
from pathlib import Path

from feature_repo.online import read_price
from feature_repo.store import open_store
from operations.common.job import Job, option, reads, required, write_figures, writes
from operations.common.solver import Solver, executor_of
from operations.common.workspace import CANARY_PRICE, FEATURES, PRICE, PRICES, read_campaign
from shadowprice.allocation.executors import Executor
from shadowprice.campaign import Campaign
from shadowprice.errors import Conflict, InvalidInput, PriceRejected, ShadowpriceError
from shadowprice.files import write_whole
from shadowprice.pacing.budgets.kept import outcome_remarks
from shadowprice.pacing.canary import Canary
from shadowprice.pacing.places import COMPARED, DeliveryPlan, conversions
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.state import PricingState
from shadowprice.price import PriceRecord
from shadowprice.progress import Stages

FIGURES = ("tie_share", "gap", "violation", "spent", "remaining", "sample_rows")
"""Fields of a price record that are figures of the step, beside its prices and what the window is planned to spend."""


@dataclass(frozen=True, kw_only=True)
class SolveJob(Job):
    """Solve the price of the remaining budget or places; without a certificate it fails, and the last price stays."""

    price: Path = writes("folder of the price record, sealed and not yet published, and of a plan where there is one")
    figures: Path | None = writes("file of the price, the gap, the violation and the spend", optional=True)
    summary: Path | None = writes("Markdown page: the price, its reasons and the campaign's day so far", optional=True)
    workspace: Path = required("folder with campaign, model, features and prices")
    state: Path = reads("file of the measure job")
    tables: Path | None = reads("folder of the prepared tables, to set other methods beside a plan", optional=True)
    workers: int = option(0, "Ray actors that hold the accounts; 0 solves in this process")
    on_alarm: str = option(
        "", "pacer to price by while the watch alarms, such as constant or pi; empty: the campaign's"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers < 0:
            raise InvalidInput("must be 0 (this process) or a number of Ray actors", field="workers")


def run(job: SolveJob) -> PriceRecord:
    """Solve and write the price record.

    A moment that has its price already keeps it, and that record is written: publishing it again changes nothing, so a
    run that comes twice, or too soon for the pacer, succeeds.
    """
    with Stages("solve", 4) as stage, executor_of(job.workers) as executor:
        stage("read the state")
        state = PricingState.load(job.state)
        record, plan = _solve_state(job, state, executor, stage)
        stage("solve for the canary, if there is one")
        trial = _solve_canary(job, state, executor)
    job.price.mkdir(parents=True, exist_ok=True)
    write_whole(job.price / PRICE, record.to_json())
    if trial is not None:
        write_whole(job.price / CANARY_PRICE, trial.to_json())
    own = {f"price_{name}": value for name, value in record.prices.items()}
    own |= {name: float(getattr(record, name)) for name in FIGURES}
    own |= {"planned_spend": record.plan[-1]} if record.plan else {}
    if plan is not None:
        plan.save(job.price)
    write_figures(job.figures, own if plan is None else plan.figures)
    campaign = read_campaign(job.workspace)
    for remark in outcome_remarks(record, campaign):
        print(remark, flush=True)
    if job.summary is not None:
        write_whole(job.summary, _page(campaign, job, record) if plan is None else plan.markdown(campaign))
    return record


def _page(campaign: Campaign, job: SolveJob, record: PriceRecord) -> str:
    """The page of the campaign's prices up to this one."""
    from shadowprice.reports.prices import PriceHistory, day_page

    before = PriceHistory(PriceStore(job.workspace / PRICES), campaign.name).records()
    return day_page(campaign, [*(earlier for earlier in before if earlier.version < record.version), record])


def _solve_state(
    job: SolveJob, state: PricingState, executor: Executor | None, stage: Stages
) -> tuple[PriceRecord, DeliveryPlan | None]:
    """The next price of a workspace with its plan, or the newest where the moment has its price already."""
    workspace = job.workspace
    stage("read the model and its accounts")
    solver = Solver(workspace, job.on_alarm)
    _restore_price(workspace, solver)
    stage("solve the price")
    try:
        solved = solver.solve(state, executor=executor)
    except Conflict as settled:
        newest = PriceStore(workspace / PRICES).latest(read_campaign(workspace).name, verified_only=True)
        if newest is None:
            raise
        print(f"nothing to solve: {settled}", flush=True)
        return newest, None
    plan = solved.plan
    if plan is not None and job.tables is not None:
        # A re-solve needs no tables.
        from shadowprice.datasets.package import load_dataset

        plan = plan.beside(COMPARED, conversions(load_dataset(job.tables).tables, len(plan.segments)))
    return solved.record, plan


def _restore_price(workspace: Path, solver: Solver) -> None:
    """Write the newest price back where the price store was lost, or is older than its copy in the feature store."""
    try:
        copy = read_price(open_store(workspace / FEATURES), solver.campaign.name)
    except PriceRejected as error:
        print(f"no copy of the price to compare with: {error}", flush=True)
        return
    if copy is not None and solver.prices.restore(copy):
        lacked = f"{workspace / PRICES} lacked price version {copy.version} of {copy.campaign!r}"
        print(f"{lacked}: it is restored from the feature store, and the next price goes on from it", flush=True)


def _solve_canary(job: SolveJob, state: PricingState, executor: Executor | None) -> PriceRecord | None:
    """The next price of the canary, as if it decided for everybody; None without a canary or where it has none.

    Both models are priced so, and each decides for its share of the requests: together they spend the budget. A fault
    of the canary's price never stops that of the served model.
    """
    try:
        canary = Canary.read(job.workspace, read_campaign(job.workspace).name)
        if canary is None:
            return None
        solver = Solver(job.workspace, canary=canary.model_version)
        return solver.solve(state, executor=executor).record
    except (ShadowpriceError, OSError) as error:
        print(f"no new price of the canary: {error}", flush=True)
        return None
