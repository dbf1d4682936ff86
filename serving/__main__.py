"""``python -m serving``: run the predictor of one campaign."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from threading import Thread

from serving.bundle import Bundle, load_bundle
from serving.config import Config, read_campaign
from serving.features import Features, open_reader
from serving.ledger.guard import ledger_token
from serving.ledger_client import Authoriser
from serving.logs import quiet_logs
from serving.metrics import PredictorMetrics
from serving.model import CampaignModel
from serving.predictor import Predictor
from serving.price_watcher import PriceWatcher
from serving.rest import PredictorServer
from shadowprice.campaign import Campaign
from shadowprice.errors import ShadowpriceError, Unavailable
from shadowprice.pacing.price_store import PriceStore

logger = logging.getLogger("serving")
RETRY_SECONDS = 0.5


def main() -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    quiet_logs()
    config = Config.parse(sys.argv[1:], os.environ)
    try:
        campaign = read_campaign(config.campaign_file)
        bundle = load_bundle(config.model_dir, campaign)
        ledger = Authoriser(config.ledger_url, campaign.name, ledger_token(os.environ))
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    model = CampaignModel(campaign.name, config.max_instances)
    server = PredictorServer(model, config.host, config.http_port)
    warm_up = Thread(target=_warm_up, args=(config, campaign, bundle, ledger, model), name="warm-up", daemon=True)
    warm_up.start()
    server.run()
    return 0


def _warm_up(config: Config, campaign: Campaign, bundle: Bundle, ledger: Authoriser, model: CampaignModel) -> None:
    """Wait for everything the model needs, run it once, and declare it ready."""
    metrics = PredictorMetrics(campaign)
    watcher = PriceWatcher(
        PriceStore(config.prices_dir),
        campaign.name,
        campaign.budget.name,
        on_swap=metrics.price_in_force,
        on_rejected=metrics.price_rejected,
        poll_seconds=config.poll_seconds,
    )
    watcher.start()
    predictor: Predictor | None = None
    complaint = ""
    while not model.ready:
        try:
            if predictor is None:
                reader = open_reader(config.features_dir, bundle.model_version)
                features = Features(reader, {side: head.default_embedding for side, head in bundle.heads.items()})
                predictor = Predictor(
                    campaign=campaign,
                    heads=bundle.heads,
                    model_version=bundle.model_version,
                    features=features,
                    prices=watcher,
                    ledger=ledger,
                    metrics=metrics,
                    authorisation_required=config.authorise == "required",
                )
            predictor.warm_up()
            if watcher.current is None:
                raise Unavailable(f"there is no price of {campaign.name!r} in {config.prices_dir} yet")
            if predictor.authorisation_required:
                ledger.check()
        except Exception as error:  # whatever is missing may still come; say it once and wait
            if str(error) != complaint:
                complaint = str(error)
                logger.warning("not ready: %s", complaint, exc_info=not isinstance(error, ShadowpriceError))
            time.sleep(RETRY_SECONDS)
            continue
        # What is alive now stays: without this, each full collection walks all of Feast and KServe.
        gc.collect()
        gc.freeze()
        model.become_ready(predictor)
        logger.info("ready to decide for campaign %s with model %s", campaign.name, bundle.model_version)


if __name__ == "__main__":
    sys.exit(main())
