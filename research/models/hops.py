"""Encoder ``sgc2`` with narrower hops."""

from shadowprice.encoders.registry import ENCODERS
from shadowprice.encoders.sgc2 import Sgc2Encoder


class Sgc2NarrowEncoder(Sgc2Encoder):
    """Hops of 2 numbers, as many as the accounts of ``world`` have traits."""

    width = 2


def register() -> str:
    """Make the encoder known to recipes, and return the name of its recipe."""
    ENCODERS["sgc2_narrow"] = f"{__name__}:{Sgc2NarrowEncoder.__name__}"
    return "joint_sgc2_narrow"
