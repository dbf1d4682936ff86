"""Pacers on simulated days of spending, and the delivery of a fund."""
