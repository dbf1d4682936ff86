"""Every table that ``make reproduce`` measures. A new one is a file in ``tables/`` and a line here."""

from __future__ import annotations

TABLES: dict[str, str] = {
    "attainable_gain": "benchmarks.reproduce.tables.attainable_gain",
    "curve_repair": "benchmarks.reproduce.tables.curve_repair",
    "off_policy": "benchmarks.reproduce.tables.off_policy",
    "o2o": "benchmarks.reproduce.tables.o2o",
    "s0_methods": "benchmarks.reproduce.tables.s0_methods",
    "s0_change_points": "benchmarks.reproduce.tables.s0_change_points",
    "s0_joint": "benchmarks.reproduce.tables.s0_joint",
    "s0_graph": "benchmarks.reproduce.tables.s0_graph",
    "s0_information": "benchmarks.reproduce.tables.s0_information",
    "s0_size": "benchmarks.reproduce.tables.s0_size",
    "s0_levels": "benchmarks.reproduce.tables.s0_levels",
    "s0_sensitivity": "benchmarks.reproduce.tables.s0_sensitivity",
    "o2o_graph": "benchmarks.reproduce.tables.o2o_graph",
    "end_to_end": "benchmarks.reproduce.tables.end_to_end",
    "bi_level": "benchmarks.reproduce.tables.bi_level",
    "s1_table2": "benchmarks.reproduce.tables.s1_table2",
    "s1_table3": "benchmarks.reproduce.tables.s1_table3",
    "s1_figure3": "benchmarks.reproduce.tables.s1_figure3",
    "s3_table3": "benchmarks.reproduce.tables.s3_table3",
    "s3_figure4": "benchmarks.reproduce.tables.s3_figure4",
    "s2_table1": "benchmarks.reproduce.tables.s2_table1",
    "s2_table3": "benchmarks.reproduce.tables.s2_table3",
    "s2_wishes": "benchmarks.reproduce.tables.s2_wishes",
    "s2_losses": "benchmarks.reproduce.tables.s2_losses",
    "s2_figure6": "benchmarks.reproduce.tables.s2_figure6",
}
"""Name → module with a ``TABLE``."""
