"""Prices of several limits, located by partitions and solved exactly over a small active set."""
