"""Choices of a campaign that have names."""

from typing import Literal

Policy = Literal["personal", "flat"]
"""Way to decide: by the response of each account, or with the same chances for every account of a side."""
FLAT: Policy = "flat"

Objective = Literal["responses", "value", "margin"]
"""Sum that a campaign maximizes: weighted responses, or minor units of value or margin that they are worth."""
RESPONSES: Objective = "responses"
