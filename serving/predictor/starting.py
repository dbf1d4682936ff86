"""Check of the models and prices before a service starts."""

import logging
from pathlib import Path

from serving.predictor.bundle import find_bundle, load_bundle
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.pacing.price_store import PriceStore

logger = logging.getLogger("serving")


def check_models(pointer: Path, campaign: Campaign, prices: PriceStore) -> None:
    """Make sure that the newest model may be used, or that of some sound price; logs where it is the second.

    Raises:
        InvalidInput, NotFound: what is wrong with the newest model, where no other can take its place.
    """
    try:
        load_bundle(pointer, campaign)
    except (InvalidInput, NotFound) as error:
        tried: set[str] = set()
        for record in prices.sound(campaign.name):
            if record.model_version not in tried and _whole(pointer, record.model_version, campaign):
                logger.error(
                    "the newest model may not be used: %s; price version %d has model %s, which may",
                    error,
                    record.version,
                    record.model_version,
                )
                return
            tried.add(record.model_version)
        raise


def _whole(pointer: Path, version: str, campaign: Campaign) -> bool:
    try:
        load_bundle(find_bundle(pointer, version), campaign)
    except (InvalidInput, NotFound) as error:
        logger.warning("model %s may not be used either: %s", version, error)
        return False
    return True
