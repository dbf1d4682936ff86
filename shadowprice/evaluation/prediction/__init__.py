"""Metrics of predictions: discrimination, calibration, shape of curves, likelihood."""
