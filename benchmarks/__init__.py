"""Benchmarks: each module measures one thing against its peers in one run."""
