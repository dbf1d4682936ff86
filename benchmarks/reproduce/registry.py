"""Tables that ``make reproduce`` measures. A new one is a file in a room of ``tables/`` and a line here."""

from __future__ import annotations

TABLES: dict[str, str] = {
    "attainable_gain": "benchmarks.reproduce.tables.attainable_gain",
    "cold_start": "benchmarks.reproduce.tables.cold_start",
    "context": "benchmarks.reproduce.tables.context",
    "several_budgets": "benchmarks.reproduce.tables.several_budgets",
    "curve_repair": "benchmarks.reproduce.tables.curve_repair",
    "off_policy": "benchmarks.reproduce.tables.off_policy",
    "headline": "benchmarks.reproduce.tables.headline",
    "interference": "benchmarks.reproduce.tables.interference",
    "watch": "benchmarks.reproduce.tables.watch",
    "o2o": "benchmarks.reproduce.tables.o2o",
    "s0_methods": "benchmarks.reproduce.tables.s0.methods",
    "s0_change_points": "benchmarks.reproduce.tables.s0.change_points",
    "s0_joint": "benchmarks.reproduce.tables.s0.joint",
    "s0_graph": "benchmarks.reproduce.tables.s0.graph",
    "s0_information": "benchmarks.reproduce.tables.s0.information",
    "s0_size": "benchmarks.reproduce.tables.s0.size",
    "s0_large": "benchmarks.reproduce.tables.s0.large",
    "s0_levels": "benchmarks.reproduce.tables.s0.levels",
    "s0_sensitivity": "benchmarks.reproduce.tables.s0.sensitivity",
    "o2o_graph": "benchmarks.reproduce.tables.o2o_graph",
    "end_to_end": "benchmarks.reproduce.tables.s4.end_to_end",
    "bi_level": "benchmarks.reproduce.tables.s4.bi_level",
    "s1_table2": "benchmarks.reproduce.tables.s1.table2",
    "s1_table3": "benchmarks.reproduce.tables.s1.table3",
    "s1_figure3": "benchmarks.reproduce.tables.s1.figure3",
    "s3_table3": "benchmarks.reproduce.tables.s3.table3",
    "s3_figure4": "benchmarks.reproduce.tables.s3.figure4",
    "s2_table1": "benchmarks.reproduce.tables.s2.table1",
    "s2_table3": "benchmarks.reproduce.tables.s2.table3",
    "s2_wishes": "benchmarks.reproduce.tables.s2.censored",
    "s2_losses": "benchmarks.reproduce.tables.s2.losses",
    "s2_figure6": "benchmarks.reproduce.tables.s2.figure6",
}
"""Name → module with a ``TABLE``."""
