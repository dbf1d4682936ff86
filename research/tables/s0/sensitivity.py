"""S0's figure 4: uplift by fifths of rising sensitivity, with the graph and with interaction aggregates instead."""

from dataclasses import replace
from typing import cast

import numpy as np

from benchmarks.world.training_set import training_set
from research.measures.sensitivity import uplift_by_sensitivity
from research.table import Primary, Rows, Summary, Table
from research.tables.s0.comparison import WORLD, size
from research.trained import config
from shadowprice.evaluation.statistics.intervals import Interval
from shadowprice.learning.recipes import recipe
from shadowprice.responses.joint.model import JointModel, JointSpec
from shadowprice.responses.layers.heads import LogitHead

GRAPH, HISTORY, RANDOM = "sensitivity on the graph", "sensitivity on DNN-H", "sensitivity at random"
FIFTHS = [f"uplift of fifth {number}, pp" for number in range(1, 6)]
STEEPNESS, SPREAD = "fifth 5 − fifth 1, pp", "sensitivity of fifth 5 − fifth 1"


def run(seed: int, quick: bool) -> Rows:
    _, data = training_set("world", seed, **size(quick))
    customers = data.part("test")["customer"]
    train, seen = data.part("train"), data.seen_by("train", "validation").snapshots
    sensitivity: dict[str, np.ndarray] = {}
    for name, base in ((GRAPH, "joint_gnn"), (HISTORY, "joint_dnn_h")):
        own = cast(JointSpec, recipe(base, data))
        spec = replace(own, layers={**own.layers, "customer": "gradient_logit"}, layer_options={})
        model = JointModel.prepare(spec, seen, train, seed)
        model.fit(seen, train, data.part("validation"), config(seed, quick, 60))
        embedding = model.embed(data.inputs, {"customer": customers})
        sensitivity[name] = cast(LogitHead, model.heads(embedding)["customer"]).sensitivity(embedding["customer"])
    account, row_of = np.unique(customers["account_id"].to_numpy(dtype=str), return_inverse=True)
    sensitivity[RANDOM] = np.random.default_rng([seed, 2]).random(account.size)[row_of]
    rows: dict[str, dict[str, float]] = {}
    for name, values in sensitivity.items():
        found = uplift_by_sensitivity(
            customers["response"],
            customers["level"],
            values,
            levels=len(data.levels["customer"]),
            account=customers["account_id"].to_numpy(dtype=str),
            interval=Interval(replications=2),
        )
        uplift = [100 * each.value for each in (*found.uplift, found.steepness)]
        rows[name] = dict(zip([*FIFTHS, STEEPNESS], uplift, strict=True))
        if name != RANDOM:
            rows[name][SPREAD] = float(found.sensitivity[-1] - found.sensitivity[0])
    return rows


def reading(found: Summary) -> str:
    return (
        "Uplift is the redemption at high incentives (100 to 200 cents) less that at low ones (20 to 80). "
        + "; ".join(found.finding(STEEPNESS, name, RANDOM) for name in (GRAPH, HISTORY))
        + "."
    )


TABLE = Table(
    title="Uplift by sensitivity",
    source="S0, figure 4, in kind; the paper prints no figures",
    data=f"the {WORLD}. Sensitivity at random is a control",
    run=run,
    primary=Primary(STEEPNESS, GRAPH, HISTORY, effect=5.0, spread=4.0),
    compare=[(STEEPNESS, GRAPH, RANDOM), (STEEPNESS, HISTORY, RANDOM)],
    reading=reading,
)
