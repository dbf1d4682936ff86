"""Benchmarks by name: ``python -m benchmarks NAME`` runs the module's ``run`` and writes ``results/NAME.json``."""

BENCHMARKS: dict[str, str] = {
    "allocation": "benchmarks.allocation.engine",
    "demands": "benchmarks.allocation.demands",
    "executors": "benchmarks.allocation.executors",
    "dual": "benchmarks.allocation.dual",
    "ledger_replicas": "benchmarks.service.replicas",
    "serving": "benchmarks.service.predictor",
    "latency": "benchmarks.service.latency",
    "capacity": "benchmarks.service.capacity",
    "pacing": "benchmarks.pacing.days",
    "delivery": "benchmarks.pacing.delivery",
    "portfolio": "benchmarks.pacing.portfolio",
    "hostile": "benchmarks.service.hostile",
    "scale": "benchmarks.scale",
}
"""Name → module with a ``run``."""

ON_REQUEST = frozenset({"portfolio", "scale", "ledger_replicas", "latency"})
"""Benchmarks that run only when they are named."""
