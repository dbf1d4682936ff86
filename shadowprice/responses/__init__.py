"""Response models: the expected response of every account at every incentive level."""

from shadowprice.responses.registry import load, make, names

__all__ = ["load", "make", "names"]
