"""Settings of the predictor: the command line first, then the environment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from serving.http.limits import MAX_ITEMS
from serving.predictor.features import ReaderName
from serving.settings import Settings, setting


@dataclass(frozen=True, kw_only=True)
class Config(Settings, program="serving.predictor"):
    """The decision service of one campaign.

    ``model_dir`` is a bundle or a link to the newest; earlier ones are found in models/<version> beside it.
    """

    campaign_file: Path = setting("campaign as JSON")
    model_dir: Path = setting("folder with model.json and heads.safetensors")
    features_dir: Path = setting("Feast repository with the online store's configuration")
    prices_dir: Path = setting("root of the price store")
    ledger_url: str = setting("address of the ledger")
    authorise: Literal["required", "optional"] = setting(
        "required: no answer without the ledger; optional: answer without it, degraded", "required"
    )
    host: str = setting("address to listen on", "127.0.0.1")
    http_port: int = setting("port to listen on", 8080)
    max_instances: int = setting("most requests in one call", MAX_ITEMS, positive=True)
    poll_seconds: float = setting("how often the price store is looked at", 0.5, positive=True)
    grpc_port: int = setting("port to listen on for gRPC; 0: none", 0)
    feature_reader: ReaderName = setting(
        "sdk: any online store, through Feast; packed: Redis, without Feast; auto: packed where the store is Redis",
        "auto",
    )
    cache_seconds: float = setting("how long an embedding is used without asking the store", 5.0)
    feature_max_age_seconds: float = setting("an older embedding counts as unknown", math.inf, positive=True)
    request_seconds: float = setting("for a body to arrive, and for an answer", 10.0, positive=True)
    window: Literal["on", "off"] = setting(
        "on: no incentive outside the campaign's window; off: decide at any time, to replay a past campaign", "on"
    )
    token_file: Path | None = setting("file with the bearer tokens callers must present; empty: none is needed", None)
    calls_per_second: float = setting("most calls of each caller; 0: no limit", 0.0)
    amount_per_hour: float = setting("minor units authorized for each caller at most; 0: no limit", 0.0)
