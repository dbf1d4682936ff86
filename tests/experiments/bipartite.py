"""Random graph of customers and merchants, on which experiments with spill-over are drawn."""

from datetime import UTC, datetime

import numpy as np

from shadowprice.graphs.snapshot import GraphSnapshot

CUSTOMERS, MERCHANTS, TIES = 600, 200, 4


def graph(random: np.random.Generator) -> GraphSnapshot:
    nodes = CUSTOMERS + MERCHANTS
    customer = np.repeat(np.arange(CUSTOMERS), TIES)
    merchant = CUSTOMERS + random.integers(0, MERCHANTS, customer.size)
    edges = np.unique(np.stack([customer, merchant]), axis=1)
    is_side = np.arange(nodes) < CUSTOMERS
    return GraphSnapshot(
        account_id=np.array([f"a{each:04d}" for each in range(nodes)]),
        is_side=np.stack([is_side, ~is_side]),
        names={"customer": (), "merchant": ()},
        features={side: np.zeros((nodes, 0), dtype=np.float32) for side in ("customer", "merchant")},
        edge_index=edges,
        edge_names=(),
        edge_features=np.zeros((edges.shape[1], 0), dtype=np.float32),
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )
