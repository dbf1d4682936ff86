"""S1's Table 2: its synthetic promotion with features of (2,2,2) values."""

from __future__ import annotations

from functools import partial

from benchmarks.reproduce.table import Primary, Table
from benchmarks.reproduce.tables.s1.promotion import COMPARE, DATA, FEWER, reading, run

TABLE = Table(
    title="Response models on a synthetic promotion, features of (2, 2, 2) values",
    source="Table 2 of S1 (DIPN, KDD 2021)",
    data=DATA,
    run=partial(run, (2, 2, 2)),
    reading=reading,
    published={
        "DNN": {
            "logloss": 0.5713,
            "AUC": 0.6976,
            "RPR": 0.153,
            "EPR": 0,
            "MLSS": 0.003,
            "future response": 0.743,
            "future cost": 11.0,
        },
        "Lattice": {
            "logloss": 0.5772,
            "AUC": 0.6931,
            "RPR": 0,
            "EPR": 0.048,
            "MLSS": 0.007,
            "future response": 0.71,
            "future cost": 11.7,
        },
        "DIPN": {
            "logloss": 0.577,
            "AUC": 0.6967,
            "RPR": 0,
            "EPR": 0.001,
            "MLSS": 0.006,
            "future response": 0.759,
            "future cost": 11.0,
        },
    },
    # The paper shows a difference of 0.016.
    primary=Primary("future response", "DIPN", "DNN", effect=0.005, spread=0.0036),
    compare=COMPARE,
    fewer_is_better=FEWER,
)
