"""Response models: what every account is expected to do at every incentive level."""

from shadowprice.responses.registry import load, make, names

__all__ = ["load", "make", "names"]
