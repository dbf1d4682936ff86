"""A guaranteed delivery at full size: from the table of what funds are worth to the audited plan on disk."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from shadowprice.campaign import Budget, Campaign, Segment, Terms
from shadowprice.datasets.funds import FundOptions, draw
from shadowprice.encoders.base import WIDTH
from shadowprice.learning.bundle import EMBEDDINGS
from shadowprice.learning.delivery import NO_TOLERANCE, risk_levels
from shadowprice.learning.delivery_plan import PLAN, plan_delivery, read_values
from shadowprice.responses.heads import DeliveryHead, save_heads

FUNDS = 8


def written(users: int, folder: Path) -> Campaign:
    """A bundle as the pipeline leaves it, with the true values of a drawn delivery, and its campaign."""
    drawn = draw(FundOptions(users=users, funds=FUNDS, deliveries=1), seed=0)
    stored = np.zeros((users, WIDTH), dtype=np.float32)
    stored[:, :FUNDS] = drawn.value.T
    stored[:, FUNDS] = drawn.users["risk_tolerance"]
    segments = tuple(
        Segment(name=f"fund-{j}", demand=int(drawn.demand[j]), risk_level=int(drawn.risk_level[j]))
        for j in range(FUNDS)
    )
    default = stored.mean(axis=0)
    default[FUNDS] = NO_TOLERANCE
    head = DeliveryHead(levels=np.arange(FUNDS), default_embedding=default, risk_level=risk_levels(segments))
    save_heads({"customer": head}, folder)
    (folder / "model.json").write_text(json.dumps({"model_version": "benchmark"}))
    table = pa.table(
        {
            "account_id": drawn.users["account_id"].to_numpy(dtype=object),
            "side": np.full(users, "customer", dtype=object),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(stored.ravel()), WIDTH).cast(
                pa.list_(pa.float32())
            ),
        }
    )
    pyarrow.parquet.write_table(table, folder / EMBEDDINGS)
    return Campaign(
        name="funds",
        sides={"customer": Terms(levels=tuple(range(FUNDS)), cost_basis="on_grant", segments=segments)},
        budget=Budget(name="none", limit=0),
        starts_at=pd.Timestamp("2026-04-01", tz="UTC").to_pydatetime(),
        gap_limit=1e-9,
    )


def measured(users: int) -> dict[str, Any]:
    """Seconds of each part: read the table, plan with every method beside the exact one and audit, write the plan."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        campaign = written(users, folder)
        began, cpu = time.perf_counter(), time.process_time()
        account_id, value, tolerance = read_values(folder)
        read = time.process_time() - cpu
        plan = plan_delivery(account_id, value, tolerance, campaign, model_version="benchmark")
        planned = time.process_time() - cpu - read
        plan.table().to_parquet(folder / PLAN, index=False)
        seconds, wall = time.process_time() - cpu, time.perf_counter() - began
        found = plan.report()
        kept = pd.read_parquet(folder / PLAN)
    assert found["audit"]["sound"]
    assert kept["segment"].value_counts().to_dict() == {each["name"]: each["demand"] for each in found["segments"]}
    return {
        "users": users,
        "funds": FUNDS,
        "cpu_seconds": seconds,
        "wall_seconds": wall,
        "read_seconds": read,
        "plan_seconds": planned,
        "write_seconds": seconds - read - planned,
        "gap": plan.plan.gap,
        "ineligible": found["audit"]["ineligible"],
        "methods": found["methods"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(quick: bool) -> dict[str, Any]:
    """Processor seconds of one thread and seconds on the clock."""
    rows = []
    print(
        f"{'users':>10} {'cpu s':>8} {'wall s':>8} {'read':>7} {'plan':>7} {'write':>7} {'gap':>9} {'ineligible':>10}"
    )
    for users in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000):
        row = measured(users)
        rows.append(row)
        parts = " ".join(f"{row[part]:7.2f}" for part in ("read_seconds", "plan_seconds", "write_seconds"))
        print(
            f"{users:>10,} {row['cpu_seconds']:8.2f} {row['wall_seconds']:8.2f} {parts} {row['gap']:9.1e} "
            f"{row['ineligible']:>10}"
        )
        for each in row["methods"]:
            print(f"{'':>10} {each['method']:>18}: {each['seconds']:.3f} s, {each['of_exact']:.4f} of exact")
    return {"delivery": rows}
