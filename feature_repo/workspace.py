"""A run's folder: what lies where, read with nothing loaded that only training needs."""

from __future__ import annotations

import json
from pathlib import Path

from shadowprice.campaign import Campaign

FEATURES = "features"
MODEL = "model"
"""The link to the newest model."""
CAMPAIGN = "campaign.json"


def read_campaign(workspace: Path) -> Campaign:
    """The campaign of a workspace."""
    return Campaign.from_dict(json.loads((workspace / CAMPAIGN).read_text()))
