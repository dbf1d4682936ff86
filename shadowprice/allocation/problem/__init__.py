"""Allocation problem: values, limits, solution and certificate."""
