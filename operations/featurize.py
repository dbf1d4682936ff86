"""Write a data set's features into Feast and read its training set back, point in time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from feature_repo.columns import describe
from feature_repo.names import project_of
from feature_repo.offline import training_frame, write_interactions, write_profiles
from feature_repo.store import Online, configured_online, create
from operations.job import Job, option, reads, required, writes
from operations.kind import CAMPAIGN as CAMPAIGN_KIND
from operations.kind import DELIVERY, VOUCHERS
from operations.workspace import CAMPAIGN, FEATURES
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.datasets.package import kind_of, load_dataset
from shadowprice.datasets.registry import Dataset
from shadowprice.errors import InvalidInput
from shadowprice.files import write_whole
from shadowprice.graphs.aggregates import interactions
from shadowprice.graphs.snapshot import GraphSnapshot, build_snapshot
from shadowprice.learning.propensity import check_weighting, weigh
from shadowprice.learning.training_set import TrainingSet, snapshot_times
from shadowprice.learning.vouchers import build
from shadowprice.pacing.history import fit_traffic
from shadowprice.progress import Stages
from shadowprice.responses.joint.inputs import with_features
from shadowprice.tables import Tables, campaign_from_tables, labelled


@dataclass(frozen=True, kw_only=True)
class FeaturizeJob(Job):
    """Store profiles and interactions, join them to the labels as of each request, snapshot the graph.

    Of voucher sessions it builds the graphs of what was done around them, and stores no feature.
    """

    tables: Path = reads("folder of the prepared tables")
    training: Path = writes("folder of labelled rows with their split, graph snapshots, and the accounts to serve")
    workspace: Path = required("folder that outlives the run; gets the feature store, the campaign and the traffic")
    weighting: str = option("none", "none, known or fitted: propensities whose inverse weights the labelled rows")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_weighting(self.weighting)


def run(job: FeaturizeJob, *, online: Online | None = None) -> Mapping[str, Any]:
    """Write the training set of a prepared data set.

    Args:
        job: paths and options.
        online: store for serving; Redis when ``SHADOWPRICE_REDIS`` is set, else sqlite.

    Returns:
        Rows per side and split, accounts, ties, snapshots, rows left out and effective rows, or sizes of the graphs.
    """
    if kind_of(job.tables) == VOUCHERS:
        return build(job.tables, job.training)
    dataset = load_dataset(job.tables)
    campaign = campaign_from_tables(dataset.tables)
    times = snapshot_times(dataset.tables.account["snapshot_ts"])
    with Stages("featurize", 4 + len(times)) as stage:
        return _featurize(job, dataset, campaign, times, online or configured_online(), stage)


def _featurize(
    job: FeaturizeJob, dataset: Dataset, campaign: Campaign, times: Sequence[datetime], online: Online, stage: Stages
) -> Mapping[str, Any]:
    workspace, how, tables = job.workspace, check_weighting(job.weighting), dataset.tables
    stage("sum up interactions")
    aggregates = pd.concat([interactions(tables.edge, tables.account, at) for at in times], ignore_index=True)
    stage("write features")
    workspace.mkdir(parents=True, exist_ok=True)
    store = create(workspace / FEATURES, describe(tables.account, aggregates), online, project_of(campaign))
    write_profiles(store, tables.account)
    write_interactions(store, aggregates)
    stage("label requests")
    rows, context, facts = _labelled(dataset, campaign, times)
    requests = _requests(tables, campaign)
    snapshots = []
    for at, until in zip(times, [*times[1:], None], strict=True):
        stage(f"snapshot of {at:%Y-%m-%d}")
        snapshots.append(_snapshot(store, tables, at, until, requests))
    stage("weigh and write rows")
    for side, found in rows.items():
        levels = len(campaign.terms(side).levels)
        weights = weigh(with_features(found, snapshots, side) if how == "fitted" else found, levels, how)
        rows[side] = found.assign(weight=1.0)
        if weights is not None:
            rows[side] = rows[side].assign(balancing_weight=weights.values)
        facts |= {} if weights is None else {f"{side} weights": f"{how} propensities: {weights}"}
    serving = {side: _serving(requests[side], snapshots[-1], side) for side in rows}
    training = TrainingSet(
        rows=rows,
        serving=serving,
        snapshots=snapshots,
        levels={side: campaign.terms(side).levels for side in rows},
        context=context,
        confounders={side: tuple(columns) for side, columns in dataset.confounders.items() if side in rows},
        dataset=dataset.name,
        kind=DELIVERY if any(terms.segments for terms in campaign.sides.values()) else CAMPAIGN_KIND,
    )
    training.save(job.training)
    served = {side: frame["account_id"] for side, frame in serving.items()}
    fit_traffic(campaign, tables.exposure, served).save(workspace)
    write_whole(workspace / CAMPAIGN, json.dumps(campaign.to_dict(), indent=1))
    return facts | {
        "accounts": int(tables.account["account_id"].nunique()),
        "ties": snapshots[-1].edges,
        "snapshots": len(snapshots),
        **{f"{side} accounts served": len(frame) for side, frame in serving.items()},
    }


def _labelled(
    dataset: Dataset, campaign: Campaign, times: Sequence[datetime]
) -> tuple[dict[Side, pd.DataFrame], dict[Side, tuple[str, ...]], dict[str, Any]]:
    """Rows with their split, columns of context that have values, and counts, by side."""
    tables = dataset.tables
    rows: dict[Side, pd.DataFrame] = {}
    context: dict[Side, tuple[str, ...]] = {}
    facts: dict[str, Any] = {}
    for side in campaign.sides:
        found = labelled(tables, side)
        if found.empty:
            raise InvalidInput(
                f"side {side!r} has offers but no mature outcome to learn from; add outcomes or leave its offers out",
                field="outcome",
            )
        context[side] = tuple(c for c in found.columns if c.startswith(("x_", "c_")) and found[c].notna().any())
        found["split"] = dataset.split.assign(found)
        found = found.drop(columns=[c for c in found.columns if c.startswith(("x_", "c_")) and c not in context[side]])
        found["snapshot_at"] = seconds(found["decided_at"])
        known = _profiled(tables, side, found, times)
        facts[f"{side} rows without a profile at the time"] = int((~known).sum())
        found = found[known].reset_index(drop=True)
        if found.empty:
            raise InvalidInput(
                f"no request of side {side!r} has a profile of its account from before; account.snapshot_ts must not "
                "be later than exposure.decided_at",
                field="account.snapshot_ts",
            )
        rows[side] = found
        facts |= {f"{side} {split} rows": int((found["split"] == split).sum()) for split in found["split"].unique()}
    return rows, context, facts


def seconds(times: pd.Series[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Unix seconds of UTC times."""
    return np.asarray(times.dt.as_unit("us").astype(np.int64).to_numpy() / 1e6, dtype=np.float64)


def _profiled(tables: Tables, side: Side, rows: pd.DataFrame, times: Sequence[datetime]) -> NDArray[np.bool_]:
    """bool (n,): rows whose account had a profile by the snapshot that they see."""
    own = tables.account[tables.account["side"] == side]
    first = pd.Series(seconds(own["snapshot_ts"]), index=own["account_id"]).groupby(level=0).min()
    instants = np.array([at.timestamp() for at in times])
    seen = np.searchsorted(instants, rows["snapshot_at"], side="right") - 1
    taken = np.where(seen >= 0, instants[np.maximum(seen, 0)], -np.inf)
    return np.asarray(rows["account_id"].map(first).to_numpy(dtype=np.float64) <= taken)


def _requests(tables: Tables, campaign: Campaign) -> dict[Side, pd.DataFrame]:
    """side → every request ever made, in order of time."""
    ordered = tables.exposure.sort_values("decided_at", kind="stable")
    return {side: ordered[ordered["side"] == side] for side in campaign.sides}


def _snapshot(
    store: Any, tables: Tables, at: datetime, until: datetime | None, requests: dict[Side, pd.DataFrame]
) -> GraphSnapshot:
    """The graph at ``at``: accounts profiled then, tied by then, or asking before the next snapshot.

    A tie to an account that has no profile yet is left out: there is nothing to read at its end.
    """
    profiles = tables.account[tables.account["snapshot_ts"] <= at]
    ties = tables.edge[tables.edge["ts"] <= at]
    for column, side in (("src", "customer"), ("dst", "merchant")):
        ties = ties[ties[column].isin(profiles.loc[profiles["side"] == side, "account_id"])]
    parts = []
    for side in SIDES:
        own = profiles[profiles["side"] == side]
        wanted = [own.loc[own["snapshot_ts"] == own["snapshot_ts"].max(), "account_id"]]
        wanted.append(ties["src" if side == "customer" else "dst"])
        for other, frame in requests.items():
            asked = frame[(frame["decided_at"] >= at) & ((frame["decided_at"] < until) if until else True)]
            wanted.append(asked["account_id"] if other == side else asked["partner_id"].dropna())
        accounts = np.intersect1d(pd.concat(wanted).astype(str).unique(), own["account_id"].astype(str).unique())
        if accounts.size == 0:
            continue
        moment = pd.DataFrame({"account_id": accounts, "decided_at": pd.Timestamp(at)})
        features = training_frame(store, moment, side).drop(columns="snapshot_at")
        parts.append(pd.concat([moment[["account_id"]].assign(side=side), features], axis=1))
    return build_snapshot(pd.concat(parts, ignore_index=True), ties, at)


def _serving(requests: pd.DataFrame, snapshot: GraphSnapshot, side: Side) -> pd.DataFrame:
    """The current request of every account of the last snapshot: its latest, or one without context."""
    accounts = snapshot.account_id[snapshot.is_side[SIDES.index(side)]]
    latest = requests.drop_duplicates("account_id", keep="last").set_index("account_id").reindex(accounts)
    latest.index.name = "account_id"
    served = latest.reset_index()
    columns = [c for c in served.columns if c.startswith(("x_", "c_"))]
    return served[["account_id", "partner_id", *columns]].assign(snapshot_at=snapshot.at.timestamp())
