"""Measures that need a known truth, or that a product does not ask for."""
