"""A guaranteed delivery at full size: from the tables of users, payments and behaviour to the audited plan on disk."""

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.cells import Cells
from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.datasets.funds import STARTS, FundOptions, Funds, draw
from shadowprice.graphs.build import build_snapshot
from shadowprice.pacing.places import COMPARED, PLAN, plan_delivery
from shadowprice.responses import make
from shadowprice.responses.funds.delivered import SIDE, TOLERANCE, DeliveryModel
from shadowprice.responses.funds.model import FundModel
from shadowprice.responses.inputs import Inputs
from shadowprice.responses.joint.inputs import with_features
from shadowprice.responses.layers.heads import allowed_by
from shadowprice.responses.training import TrainingConfig

FUNDS = 8
LEARNT_FROM = 1000
"""Users whose deliveries the model is fitted to; it is inductive, and its time does not count."""
THREADS = 2
"""Limit the threads of torch, because the prediction runs its parts side by side."""
TABLES = ("users", "merchants", "edges", "behaviours")


class Clock:
    """Seconds and processor seconds of each part, in order."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.processor: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall[name] = time.perf_counter() - wall
        self.processor[name] = time.process_time() - processor


def fitted() -> FundModel:
    """ESDPM on a small delivery of its own, with as many merchants to a user as the large one."""
    drawn = draw(FundOptions(users=LEARNT_FROM, merchants=LEARNT_FROM // 10, funds=FUNDS), seed=1)
    model = make(
        "esdpm",
        levels=range(FUNDS),
        inputs=Inputs(snapshots=[drawn.graph()], behaviours=drawn.behaviours(), offers=drawn.offers),
        training=TrainingConfig(learning_rate=5e-3, epochs=3, batch_rows=1024),
    )
    assert isinstance(model, FundModel)
    return model.fit(with_features(drawn.frame(), [drawn.graph()], SIDE))


def campaign_of(drawn: Funds) -> Campaign:
    segments = tuple(
        Segment(name=f"fund-{j}", demand=int(demand), risk_level=int(risk))
        for j, (demand, risk) in enumerate(zip(drawn.demand, drawn.risk_level, strict=True))
    )
    return Campaign(
        name="funds",
        sides={SIDE: Terms(levels=tuple(range(FUNDS)), cost_basis="on_grant", segments=segments)},
        budget=Budget(name="none", limit=0),
        starts_at=STARTS,
        gap_limit=1e-9,
    )


def written(users: int, folder: Path) -> Campaign:
    """The tables of a drawn delivery as parquet files, and its campaign."""
    drawn = draw(FundOptions(users=users, merchants=users // 10, funds=FUNDS, deliveries=1), seed=0)
    for name, table in zip(TABLES, (drawn.users, drawn.merchants, drawn.edges, drawn.behaviours()), strict=True):
        table.to_parquet(folder / f"{name}.parquet", index=False)
    return campaign_of(drawn)


def measured(users: int) -> dict[str, Any]:
    """Seconds of each part, and what the plan is worth looking at for."""
    torch.set_num_threads(THREADS)
    model, clock = fitted(), Clock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        campaign = written(users, folder)
        began, processor = time.perf_counter(), time.process_time()
        with clock.part("read"):
            account, merchants, edges, behaviours = (pd.read_parquet(folder / f"{table}.parquet") for table in TABLES)
        with clock.part("graph"):
            own = account.drop(columns="risk_tolerance").assign(side=SIDE)
            nodes = pd.concat([own, merchants.assign(side="merchant")], ignore_index=True)
            snapshot = build_snapshot(nodes, edges, STARTS)
        with clock.part("behaviour"):
            model.given = inputs = Inputs(snapshots=[snapshot], behaviours=behaviours)
            model.history()
        with clock.part("predict"):
            served = DeliveryModel({SIDE: model})
            served.segments = campaign.terms(SIDE).segments
            asked = account[["account_id", TOLERANCE]].assign(snapshot_at=snapshot.at.timestamp())
            stored = served.embed(inputs, {SIDE: asked})
            head = served.heads(stored)[SIDE]
            value, allowed = head.response(stored[SIDE]), allowed_by(head, stored[SIDE])
            assert allowed is not None
        with clock.part("plan"):
            ids = account["account_id"].to_numpy(dtype=str)
            plan = plan_delivery(ids, value, allowed, campaign, model_version="benchmark").beside(COMPARED)
        with clock.part("write"):
            plan.table().to_parquet(folder / PLAN, index=False)
        wall, processor = time.perf_counter() - began, time.process_time() - processor
        kept = pd.read_parquet(folder / PLAN)
        found = plan.report()
    assert found["audit"]["sound"]
    assert kept["segment"].value_counts().to_dict() == {each["name"]: each["demand"] for each in found["segments"]}
    assert not plan.audit.ineligible.size
    return {
        "users": users,
        "funds": FUNDS,
        "events": len(behaviours),
        "edges": snapshot.edges,
        "seconds": wall,
        "processor": processor,
        "wall_parts": clock.wall,
        "parts": clock.processor,
        "gap": plan.plan.gap,
        "ineligible": int(plan.audit.ineligible.size),
        "methods": found["methods"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(cells: Cells, *, quick: bool = False) -> dict[str, Any]:
    """Seconds on the clock and of the processor."""
    sizes = (2_000, 10_000) if quick else (10_000, 100_000, 1_000_000)
    return {"delivery": [cells.of(f"{users} users", partial(measured, users)) for users in sizes]}
