"""Settings of the predictor: the command line first, then the environment."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from serving.http.limits import MAX_ITEMS
from serving.predictor.features import ReaderName
from serving.settings import add_setting


@dataclass(frozen=True, kw_only=True)
class Config:
    """Configuration of the predictor.

    campaign_file   JSON of :meth:`shadowprice.campaign.Campaign.to_dict`
    model_dir       model bundle, or a link to the newest: model.json and heads.safetensors; earlier ones are
                    found in models/<version> beside it
    features_dir    Feast repository with the online store's configuration
    prices_dir      root of the price store
    ledger_url      address of the ledger
    authorise       ``required``: no answer without the ledger; ``optional``: answer without it, degraded
    host, http_port where to listen
    grpc_port       where to listen for gRPC; 0: nowhere
    feature_reader  ``sdk``: through Feast, any online store; ``packed``: Redis, no Feast; ``auto``: packed on Redis
    cache_seconds   how long an embedding that was read is used without asking the store
    feature_max_age_seconds  an embedding computed longer ago counts as unknown
    request_seconds for a body to arrive, and for an answer
    token_file      file with the bearer tokens that callers must present; none: callers need none
    calls_per_second  most calls of each caller; 0: no limit
    amount_per_hour   minor units that each caller is authorized at most; 0: no limit
    max_instances   most requests in one call
    poll_seconds    how often the price store is looked at
    window          ``on``: a request outside the campaign's window costs nothing; ``off``: decide at any time, to
                    replay a campaign of the past
    """

    campaign_file: Path
    model_dir: Path
    features_dir: Path
    prices_dir: Path
    ledger_url: str
    authorise: Literal["required", "optional"] = "required"
    host: str = "127.0.0.1"
    http_port: int = 8080
    max_instances: int = MAX_ITEMS
    poll_seconds: float = 0.5
    grpc_port: int = 0
    feature_reader: ReaderName = "auto"
    cache_seconds: float = 5.0
    feature_max_age_seconds: float = math.inf
    request_seconds: float = 10.0
    token_file: Path | None = None
    window: Literal["on", "off"] = "on"
    calls_per_second: float = 0.0
    amount_per_hour: float = 0.0

    @classmethod
    def parse(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
        """Read flags; a missing one is taken from ``SHADOWPRICE_<NAME>``. Exits with usage when wrong."""
        parser = argparse.ArgumentParser(
            prog="python -m serving.predictor", description="The decision service of one campaign."
        )

        def add(name: str, help: str, **options: Any) -> None:
            add_setting(parser, environment, name, help, **options)

        add("campaign-file", "campaign as JSON", type=Path)
        add("model-dir", "folder with model.json and heads.safetensors", type=Path)
        add("features-dir", "Feast repository", type=Path)
        add("prices-dir", "root of the price store", type=Path)
        add("ledger-url", "address of the ledger")
        add(
            "authorise",
            "required: no answer without the ledger; optional: answer degraded",
            choices=["required", "optional"],
            default="required",
        )
        add("host", "address to listen on", default="127.0.0.1")
        add("http-port", "port to listen on", type=int, default="8080")
        add("max-instances", "most requests in one call", type=int, default=str(MAX_ITEMS))
        add("poll-seconds", "how often the price store is looked at", type=float, default="0.5")
        add("grpc-port", "port to listen on for gRPC; 0: none", type=int, default="0")
        add(
            "feature-reader",
            "sdk: any online store, through Feast; packed: Redis, without Feast; auto: packed where the store is Redis",
            choices=list(get_args(ReaderName)),
            default="auto",
        )
        add("cache-seconds", "how long an embedding is used without asking the store", type=float, default="5")
        add("feature-max-age-seconds", "an older embedding counts as unknown", type=float, default="inf")
        add("request-seconds", "for a body to arrive, and for an answer", type=float, default="10")
        add(
            "window",
            "on: no incentive outside the campaign's window; off: decide at any time, to replay a past campaign",
            choices=["on", "off"],
            default="on",
        )
        add("token-file", "file with the bearer tokens callers must present; empty: none is needed", default="")
        add("calls-per-second", "most calls of each caller; 0: no limit", type=float, default="0")
        add("amount-per-hour", "minor units authorized for each caller at most; 0: no limit", type=float, default="0")
        values = vars(parser.parse_args(arguments))
        for name in ("max_instances", "poll_seconds", "feature_max_age_seconds", "request_seconds"):
            if not values[name] > 0:
                parser.error(f"--{name.replace('_', '-')} must be positive")
        values["token_file"] = Path(values["token_file"]) if values["token_file"] else None
        return cls(**values)
