"""Age at which the outcome of a decision is final: a field of all jobs that read the decision log."""

from typing import Any

from operations.common.job import option
from shadowprice.campaign import Campaign

BY_CAMPAIGN = -1


def maturity() -> Any:
    """Return the field ``mature_hours`` of a job."""
    return option(
        BY_CAMPAIGN, "age at which a decision without an outcome counts as no response; -1: when its money is released"
    )


def hours_of(given: int, campaign: Campaign) -> float:
    """Return the hours that a job's ``mature_hours`` stands for."""
    return campaign.authorization_ttl_hours if given == BY_CAMPAIGN else float(given)
