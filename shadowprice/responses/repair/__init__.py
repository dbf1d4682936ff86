"""Curve repair: calibrated, monotone curves from any response model."""
