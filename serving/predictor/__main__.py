"""``python -m serving.predictor``: run the predictor of one campaign, or of several."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Thread

from prometheus_client import REGISTRY

from operations.common.workspace import read_campaign, read_columns, read_groups
from serving.http.access import Access, check_exposed
from serving.http.limits import SWITCH_SECONDS
from serving.http.logs import quiet_logs
from serving.http.probes import Probes, probing
from serving.http.tokens import Tokens, ledger_tokens
from serving.predictor.api.rest import Around, PredictorServer, decisions
from serving.predictor.bundle import Bundle
from serving.predictor.config import Config, Workspace
from serving.predictor.features import Features, open_reader
from serving.predictor.ledger.client import Authorizer
from serving.predictor.metrics import PredictorMetrics
from serving.predictor.model import CampaignModel
from serving.predictor.models import Models
from serving.predictor.predictor import Predictor
from serving.predictor.price_watcher import PriceWatcher
from serving.predictor.starting import check_models
from shadowprice.campaign import Campaign, Side
from shadowprice.errors import InvalidInput, NotFound, ShadowpriceError, Unavailable
from shadowprice.groups import Groups
from shadowprice.lifeline import end_with_parent
from shadowprice.limits.attributes import Attributes
from shadowprice.pacing.price_store import PriceStore
from shadowprice.responses.layers.tower import stored_defaults

logger = logging.getLogger("serving")
RETRY_SECONDS = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    sys.setswitchinterval(SWITCH_SECONDS)
    config = Config.parse(arguments)
    try:
        tokens = Tokens.of(config.token_file)
        check_exposed(config.host, tokens)
        kinds = _kinds(config)
        served = [_Served.of(config, workspace, kinds) for workspace in config.workspaces()]
        if len(served) == 1:
            (only,) = served
            check_models(only.workspace.model_dir, only.campaign, PriceStore(only.workspace.prices_dir))
        server = PredictorServer(
            [entry.model for entry in served],
            config.host,
            config.http_port,
            config.grpc_port or None,
            access=Access(decisions, tokens, config.calls_per_second, config.amount_per_hour),
            seconds=config.request_seconds,
            name=config.model_name,
            around=kinds.around,
        )
        for entry in served:
            Thread(target=_warm_up, args=(config, entry), name=f"warm-up {entry.campaign.name}", daemon=True).start()
        with probing(config.host, config.probe_port, Probes(server.beat, server.check_ready, REGISTRY)):
            server.run()
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


@dataclass(frozen=True)
class _Kinds:
    """Classes of the parts, and what all calls pass; those of traces where they are on."""

    model: type[CampaignModel] = CampaignModel
    predictor: type[Predictor] = Predictor
    metrics: Callable[[Campaign], PredictorMetrics] = PredictorMetrics
    around: Around | None = None


def _kinds(config: Config) -> _Kinds:
    if config.traces == "off":
        return _Kinds()
    from serving.predictor import tracing

    metrics = partial(tracing.TracedMetrics, provider=tracing.open_provider())
    around = Around(tracing.TracedApplication, (tracing.TracedCalls(),))
    return _Kinds(tracing.TracedModel, tracing.TracedPredictor, metrics, around)


@dataclass(frozen=True)
class _Served:
    """One campaign of the process."""

    workspace: Workspace
    campaign: Campaign
    groups: Groups | None
    attributes: Mapping[Side, Attributes]
    ledger: Authorizer
    model: CampaignModel
    metrics: PredictorMetrics
    kinds: _Kinds

    @classmethod
    def of(cls, config: Config, workspace: Workspace, kinds: _Kinds) -> _Served:
        campaign = read_campaign(workspace.campaign_file)
        groups = read_groups(campaign, workspace.campaign_file)
        attributes = read_columns(campaign, workspace.campaign_file)
        ledger = Authorizer(config.ledger_url, campaign.name, ledger_tokens(os.environ))
        model = kinds.model(campaign.name, config.max_instances)
        # Here and not in the threads, which would make the same families at once.
        return cls(workspace, campaign, groups, attributes, ledger, model, kinds.metrics(campaign), kinds)


def _warm_up(config: Config, served: _Served) -> None:
    """Wait for everything a model needs, run it once, and declare it ready."""
    workspace, campaign, ledger, model = served.workspace, served.campaign, served.ledger, served.model
    metrics = served.metrics

    def open_features(bundle: Bundle) -> Features:
        default = stored_defaults(bundle.heads, bundle.towers)
        widths = {side: vector.size for side, vector in default.items()}
        return Features(
            open_reader(workspace.features_dir, bundle.model_version, config.feature_reader, widths),
            default,
            bundle.encoders,
            bundle.towers,
            cache_seconds=config.cache_seconds,
            max_age_seconds=config.feature_max_age_seconds,
        )

    models = Models(workspace.model_dir, campaign, open_features)
    watcher = PriceWatcher(
        PriceStore(workspace.prices_dir),
        campaign,
        load_model=models.load,
        metrics=metrics,
        poll_seconds=config.poll_seconds,
        workspace=workspace.model_dir.parent,
    )
    predictor = served.kinds.predictor(
        campaign=campaign,
        source=watcher,
        ledger=ledger,
        metrics=metrics,
        authorization_required=config.authorize == "required",
        window=config.window == "on",
        groups=served.groups,
        attributes=served.attributes,
    )
    watching = False
    complaint = ""
    while not model.ready:
        try:
            if not watching:
                _warm_newest(models)
                watcher.start()
                watching = True
            if watcher.current is None:
                raise Unavailable(f"there is no price of {campaign.name!r} in {workspace.prices_dir} yet")
            if predictor.authorization_required:
                ledger.check({side: terms.unit_costs for side, terms in campaign.sides.items()})
        except Exception as error:  # whatever is missing may still come; say it once and wait
            model.waits = True
            if str(error) != complaint:
                complaint = str(error)
                logger.warning("not ready: %s", complaint, exc_info=not isinstance(error, ShadowpriceError))
            time.sleep(RETRY_SECONDS)
            continue
        # What is alive now stays: without this, each full collection walks all of Feast and KServe.
        gc.collect()
        gc.freeze()
        model.become_ready(predictor)
        logger.info("ready to decide for campaign %s", campaign.name)


def _warm_newest(models: Models) -> None:
    """Load the newest model so that the first price finds it warm; the active price may need another model."""
    try:
        models.newest()
    except (InvalidInput, NotFound) as error:
        logger.warning("the newest model may not be used: %s", error)


if __name__ == "__main__":
    sys.exit(main())
