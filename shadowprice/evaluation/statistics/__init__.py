"""Metrics as weighted statistics, and their intervals."""
