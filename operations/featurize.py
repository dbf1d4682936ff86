"""Write a data set's features into Feast and read its training set back, point in time."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from feature_repo.columns import describe
from feature_repo.names import project_of
from feature_repo.offline import write_interactions, write_profiles
from feature_repo.store import Online, configured_online, create
from operations.common.disk import require_space, written
from operations.common.job import Job, option, reads, required, writes
from operations.common.snapshots import sum_interactions, sum_ties, take_snapshot
from operations.common.workspace import CAMPAIGN, FEATURES, GROUPS, TIES, read_campaign, read_columns
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.campaign.long_term import LongTerm
from shadowprice.checks import require
from shadowprice.curves import AMOUNT
from shadowprice.datasets.package import load_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.files import write_whole
from shadowprice.graphs.build import snapshot_times
from shadowprice.graphs.communities import communities
from shadowprice.graphs.snapshot import GraphSnapshot
from shadowprice.graphs.tie_sums import TieSums
from shadowprice.groups import Groups
from shadowprice.learning.labeling import context_of, inputs_of, write_labeled, write_serving
from shadowprice.learning.long_term import value_by_index
from shadowprice.learning.propensity import Weighting, check_weighting, weigh
from shadowprice.learning.sessions import session_set
from shadowprice.learning.training_set import file_of, remove_meta, write_meta
from shadowprice.limits.attributes import columns_file
from shadowprice.on_ray.parts import on_actors
from shadowprice.pacing.history import fit_traffic
from shadowprice.progress import Stages
from shadowprice.responses.inputs import snapshot_folder
from shadowprice.tables import Tables, campaign_from_tables
from shadowprice.tables.database import BATCH, parquet_parts, write_batches

SCRATCH = ".scratch"
"""Folder of the temporary files of a run."""
GROUP_ACCOUNTS, LEAST_GROUPS = 300, 100
"""Most accounts of a group, and least number of groups: larger ones cut fewer ties, and leave fewer units."""


@dataclass(frozen=True, kw_only=True)
class FeaturizeJob(Job):
    """Store profiles and interactions, join them to the labels as of each request, snapshot the graph.

    Of voucher sessions it builds the graphs of what was done around them in place of the snapshots.
    """

    tables: Path = reads("folder of the prepared tables")
    training: Path = writes("folder of labeled rows with their split, graph snapshots, and the accounts to serve")
    workspace: Path = required("folder that outlives the run; gets the feature store, the campaign and the traffic")
    weighting: str = option("none", "none, known or fitted: propensities that weight the labeled rows")
    campaign_fields: Mapping[str, Any] = option(
        {},
        "fields that replace those of the campaign table, as JSON: policy, exploration, alarm_exploration, "
        "exploration_weights, experiment, holdout, portfolio",
    )
    keep_campaign: bool = option(False, "use the workspace's campaign, which is served, and leave its file as it is")
    workers: int = option(0, "Ray actors that join the features, 2 at least; with fewer this process joins them")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.workers >= 0, "workers", "must be 0 (this process) or a number of Ray actors")
        check_weighting(self.weighting)


def run(job: FeaturizeJob, *, online: Online | None = None) -> Mapping[str, Any]:
    """Write the training set of a prepared data set.

    Args:
        job: paths and options.
        online: store for serving; Redis when ``SHADOWPRICE_REDIS`` is set, else sqlite.

    Returns:
        Rows per side and split, accounts, ties, snapshots, rows left out and effective rows, or sizes of the graphs.
    """
    dataset = load_dataset(job.tables)
    # Features, labeled rows and snapshots are three times the tables, and sums of interactions lie beside them.
    require_space(job.training, 4 * written(job.tables), job.name)
    if job.keep_campaign:
        campaign = read_campaign(job.workspace)
    else:
        campaign = campaign_from_tables(dataset.tables, dataset.currency).with_fields(job.campaign_fields)
    times = snapshot_times(dataset.tables)
    with on_actors(job.workers, job.training.resolve()), Stages("featurize", 5 + len(times)) as stage:
        return _featurize(job, dataset, campaign, times, online or configured_online(), stage)


def _featurize(
    job: FeaturizeJob, dataset: Dataset, campaign: Campaign, times: Sequence[datetime], online: Online, stage: Stages
) -> Mapping[str, Any]:
    workspace, tables = job.workspace, dataset.tables
    job.training.mkdir(parents=True, exist_ok=True)
    workspace.mkdir(parents=True, exist_ok=True)
    remove_meta(job.training)
    with scratch_folder(job.training) as scratch:
        stage("sum up interactions")
        sums = sum_ties(tables, times, workspace / TIES, scratch)
        files = [sum_interactions(tables, hours, scratch / f"{number}") for number, hours in enumerate(sums)]

        def aggregates() -> Iterator[pd.DataFrame]:
            return (part for path in chain(*files) for part in parquet_parts(path))

        stage("write features")
        columns = describe(tables.parts("account"), aggregates())
        store = create(workspace / FEATURES, columns, online, project_of(campaign))
        write_profiles(store, tables.parts("account"))
        write_interactions(store, aggregates())
    facts, served = LABELERS[dataset.about](job, dataset, campaign, sums, store, stage)
    fit_traffic(campaign, tables, served).save(workspace)
    for side in SIDES:
        _write_columns(tables, side, workspace / columns_file(side))
    read_columns(campaign, workspace)  # refuses a condition on a column that the accounts do not have
    if not job.keep_campaign:
        write_whole(workspace / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
    with tables.connect() as db:
        ((known,),) = db.sql("SELECT count(DISTINCT account_id) FROM account").fetchall()
    counts = {f"{side} accounts served": len(accounts) for side, accounts in served.items()}
    return facts | {"accounts": known} | counts


def _label_requests(
    job: FeaturizeJob, dataset: Dataset, campaign: Campaign, sums: Sequence[TieSums], store: Any, stage: Stages
) -> tuple[dict[str, Any], dict[Side, NDArray[np.str_]]]:
    """Write the training set of a campaign's requests; return what is in it and the accounts served of each side."""
    tables, times, how = dataset.tables, [part.at for part in sums], check_weighting(job.weighting)
    sides: list[Side] = list(campaign.sides)
    stage("label requests")
    facts: dict[str, Any] = {}
    context = {side: context_of(tables, side) for side in sides}
    for side in sides:
        facts |= write_labeled(dataset, side, context[side], times, file_of(job.training, "rows", side))
    snapshots = []
    for number, (ties, until) in enumerate(zip(sums, [*times[1:], None], strict=True)):
        stage(f"snapshot of {ties.at:%Y-%m-%d}")
        folder = snapshot_folder(job.training, number)
        take_snapshot(store, tables, ties, until).save(folder)
        snapshots.append(GraphSnapshot.load(folder))
    groups = job.workspace / GROUPS
    if campaign.experiment is not None and campaign.experiment.unit == "cluster" and not groups.exists():
        _group(snapshots[-1]).save(groups)
    stage("weigh rows")
    for side in sides:
        facts |= _weigh(job.training, side, len(campaign.terms(side).levels), how, snapshots)
    long_term: dict[str, Any] = {}
    if campaign.long_term is not None:
        long_term = _value(job.training, campaign.long_term, len(campaign.terms("customer").levels), snapshots)
        facts["customer values"] = f"{campaign.long_term.late}, predicted by an index of {long_term['rows']:,} rows"
    stage("write accounts to serve")
    served = {side: snapshots[-1].accounts_of(side) for side in sides}
    for side, accounts in served.items():
        write_serving(tables, side, accounts, snapshots[-1].at, file_of(job.training, "serving", side))
    inputs_of(tables, campaign, snapshots).save_others(job.training)
    write_meta(
        job.training,
        levels={side: campaign.terms(side).levels for side in sides},
        context=context,
        confounders={side: tuple(columns) for side, columns in dataset.confounders.items() if side in sides},
        offers={side: terms.offers for side, terms in campaign.sides.items() if terms.amounts},
        unordered=[side for side, terms in campaign.sides.items() if not terms.ordered],
        dataset=dataset.name,
        long_term=long_term,
    )
    return facts | {"ties": snapshots[-1].edges, "snapshots": len(snapshots)}, served


def _label_sessions(
    job: FeaturizeJob, dataset: Dataset, campaign: Campaign, _sums: Sequence[TieSums], _store: Any, stage: Stages
) -> tuple[dict[str, Any], dict[Side, NDArray[np.str_]]]:
    """Write the training set of voucher sessions, as :func:`_label_requests` does that of requests."""
    require(job.weighting == "none", "weighting", "must be none: models of sessions weight no rows")
    grouped = campaign.experiment is not None and campaign.experiment.unit == "cluster"
    require(not grouped, "campaign_fields.experiment.unit", "must not be cluster: sessions have no ties between people")
    stage("label sessions")
    data = session_set(dataset)
    data.save(job.training)
    rows, log = data.rows["customer"], data.inputs.sessions
    assert log is not None
    facts: dict[str, Any] = {f"sessions {name}": int(count) for name, count in rows["split"].value_counts().items()}
    facts |= {"nodes": int(log.graphs.row.size), "vouchers": len(log.offered)}
    return facts, {side: frame["account_id"].to_numpy(dtype=str) for side, frame in data.serving.items()}


LABELERS = {"": _label_requests, "sessions": _label_sessions}
"""Writer of a training set by the input that its rows are about (:attr:`Dataset.about`)."""


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """An empty folder inside, on the same disk; one that a killed run left is removed."""
    scratch = folder / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def _write_columns(tables: Tables, side: Side, path: Path) -> None:
    """Write the newest columns of the accounts of a side, which conditions of budgets and rules read."""
    draft = path.with_suffix(".new")
    with tables.connect() as db:
        names = [name for name in db.sql("SELECT * FROM account LIMIT 0").columns if name.startswith(("c_", "x_"))]
        chosen = ", ".join(f'"{name}"' for name in ["account_id", *names])
        newest = db.sql(f"""
            SELECT {chosen} FROM account WHERE side = '{side}'
            QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY snapshot_ts DESC) = 1""")
        write_batches(draft, newest.to_arrow_reader(BATCH))
    draft.replace(path)


def _group(snapshot: GraphSnapshot) -> Groups:
    """Groups of neighbors, at most :data:`GROUP_ACCOUNTS` in each, and fewer where there are few accounts."""
    most = min(GROUP_ACCOUNTS, max(snapshot.nodes // LEAST_GROUPS, 1))
    return Groups.of(snapshot.account_id.tolist(), communities(snapshot.edge_index, snapshot.nodes, most))


def _weigh(folder: Path, side: Side, levels: int, how: Weighting, snapshots: Sequence[GraphSnapshot]) -> dict[str, str]:
    """Add balancing weights to the rows of a side; all of them are read where they are weighted."""
    if how == "none":
        return {}
    path = file_of(folder, "rows", side)
    rows = pd.read_parquet(path)
    weights = weigh(_with_features(rows, snapshots, side) if how == "fitted" else rows, levels, how)
    if weights is None:
        return {}
    rows.assign(balancing_weight=weights.values).to_parquet(path, index=False)
    return {f"{side} weights": f"{how} propensities: {weights}"}


def _with_features(rows: pd.DataFrame, snapshots: Sequence[GraphSnapshot], side: Side) -> pd.DataFrame:
    """Rows with the features of their accounts."""
    # Imported here: torch comes with it, which no other part of this step needs.
    from shadowprice.responses.joint.inputs import with_features

    return with_features(rows, snapshots, side)


def _value(folder: Path, plan: LongTerm, levels: int, snapshots: Sequence[GraphSnapshot]) -> dict[str, Any]:
    """Give the responses of customers their long-term value by a surrogate index, in place of amounts."""
    path = file_of(folder, "rows", "customer")
    rows = pd.read_parquet(path)
    value, found = value_by_index(rows, _with_features(rows, snapshots, "customer"), plan, levels)
    rows.assign(**{AMOUNT: value}).to_parquet(path, index=False)
    return found.to_dict()
