"""Settings of the predictor: the command line first, then the environment."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from operations.common.workspace import CAMPAIGN, campaign_files
from serving.http.limits import MAX_ITEMS
from serving.predictor.features import ReaderName
from serving.settings import Settings, setting
from shadowprice.command.failures import Misused


class Workspace(NamedTuple):
    """Files of one campaign; the fields are those of :class:`Config`."""

    campaign_file: Path
    model_dir: Path
    features_dir: Path
    prices_dir: Path


@dataclass(frozen=True, kw_only=True)
class Config(Settings, program="serving.predictor"):
    """The decision service of one or several campaigns.

    ``campaigns`` is given, or the four settings of the files of one. ``model_dir`` is a bundle or a link to the
    newest; earlier ones are found in models/<version> beside it.
    """

    campaigns: Path | None = setting("folder of workspaces, each of them served", None)
    campaign_names: str = setting("campaigns of that folder to serve, separated by commas; empty: all", "")
    model_name: str = setting("further name of the only campaign's model, as of its InferenceService", "")
    campaign_file: Path = setting("campaign as JSON", Path())
    model_dir: Path = setting("folder with model.json and heads.safetensors", Path())
    features_dir: Path = setting("Feast repository with the online store's configuration", Path())
    prices_dir: Path = setting("root of the price store", Path())
    ledger_url: str = setting("address of the ledger, or those of its replicas, separated by commas")
    authorize: Literal["required", "optional"] = setting(
        "required: no answer without the ledger; optional: answer without it, degraded", "required"
    )
    host: str = setting("address to listen on", "127.0.0.1")
    http_port: int = setting("port to listen on", 8080)
    probe_port: int = setting("port for probes and metrics alone; 0: none", 0)
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
    traces: Literal["off", "on"] = setting(
        "on: OpenTelemetry traces of decisions, to where the variables OTEL_… say; off: no code of it runs", "off"
    )
    token_file: Path | None = setting("file with the bearer tokens callers must present; empty: none is needed", None)
    calls_per_second: float = setting("most calls of each caller; 0: no limit", 0.0)
    amount_per_hour: float = setting("minor units authorized for each caller at most; 0: no limit", 0.0)

    def check(self) -> None:
        """Raise :class:`~shadowprice.command.failures.Misused` where settings do not fit together."""
        configured = {name: getattr(self, name) != Path() for name in Workspace._fields}
        lacking = [f"--{name.replace('_', '-')}" for name, there in configured.items() if not there]
        if self.campaigns is None and lacking:
            raise Misused(f"give {', '.join(lacking)}, or --campaigns alone")
        if self.campaigns is not None and any(configured.values()):
            raise Misused("give --campaigns or the files of one campaign, not both")
        if self.campaigns is not None and self.model_name:
            raise Misused("--model-name is a name of one campaign; callers name which of several they ask")
        if self.max_instances > MAX_ITEMS:
            raise Misused(f"--max-instances must be at most {MAX_ITEMS}; the ledger takes no more")

    def workspaces(self) -> list[Workspace]:
        """Return the files of each campaign.

        Raises:
            InvalidInput: the folder of campaigns has none, or a workspace with another name than its campaign's.
        """
        if self.campaigns is None:
            return [Workspace(self.campaign_file, self.model_dir, self.features_dir, self.prices_dir)]
        folders = [file.parent for file in campaign_files(Path(), self.campaigns, self.campaign_names)]
        return [
            Workspace(folder / CAMPAIGN, folder / "model", folder / "features", folder / "prices") for folder in folders
        ]
