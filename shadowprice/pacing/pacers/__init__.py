"""Ways of pacing a budget through its window, by name.

``hourly`` solves the rest of the window at every hour, ``closing`` also every five minutes of the last
hour, ``rolling`` every five minutes throughout; ``mirror_descent`` corrects the hourly price in between
by dual mirror descent; ``pi`` steers one first price by how far the spend is from its plan; ``static``
keeps the first price; ``constant`` renews the newest. ``hindsight`` knows the window's requests: it is what the
others are measured against.
"""

from shadowprice.pacing.pacers.base import BEFORE, Pacer, scheduled_slot
from shadowprice.pacing.pacers.registry import make_pacer, pacer_names
from shadowprice.pacing.resolve import CampaignState

__all__ = ["BEFORE", "CampaignState", "Pacer", "make_pacer", "pacer_names", "scheduled_slot"]
