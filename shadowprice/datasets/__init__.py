"""Data sets as canonical tables: a generated world, real coupons, a randomized trial, or your own folder."""

from shadowprice.datasets.registry import Dataset, load, names
from shadowprice.datasets.split import Split

__all__ = ["Dataset", "Split", "load", "names"]
