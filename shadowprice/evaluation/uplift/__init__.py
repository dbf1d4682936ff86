"""Metrics of incremental response: rankings, slopes, and the trial that would identify an effect."""
