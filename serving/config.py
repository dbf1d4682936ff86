"""What the predictor is told: command line first, then environment."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from serving.limits import MAX_ITEMS
from shadowprice.campaign import Campaign
from shadowprice.errors import InvalidInput

PREFIX = "SHADOWPRICE_"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Configuration of the predictor.

    campaign_file   JSON of :meth:`shadowprice.campaign.Campaign.to_dict`
    model_dir       model bundle: model.json and heads.safetensors
    features_dir    Feast repository with the online store's configuration
    prices_dir      root of the price store
    ledger_url      address of the ledger
    authorise       ``required``: no answer without the ledger; ``optional``: answer without it, degraded
    host, http_port where to listen
    max_instances   most requests in one call
    poll_seconds    how often the price store is looked at
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

    @classmethod
    def parse(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> Config:
        """Read flags; a missing one is taken from ``SHADOWPRICE_<NAME>``. Exits with usage when wrong."""
        parser = argparse.ArgumentParser(prog="python -m serving", description="The decision service of one campaign.")

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
        values = vars(parser.parse_args(arguments))
        if values["max_instances"] < 1 or values["poll_seconds"] <= 0:
            parser.error("--max-instances and --poll-seconds must be positive")
        return cls(**values)


def add_setting(
    parser: argparse.ArgumentParser, environment: Mapping[str, str], name: str, help: str, **options: Any
) -> None:
    """Add a flag that may be given in the environment instead; required unless it has a ``default``.

    The variable is ``SHADOWPRICE_<NAME>``, or ``variable`` where that name is taken: Kubernetes sets
    ``<SERVICE>_PORT`` for every service beside the container.
    """
    variable = options.pop("variable", PREFIX + name.upper().replace("-", "_"))
    default = environment.get(variable, options.pop("default", None))
    if default is not None and default not in options.get("choices", [default]):
        parser.error(f"{variable} must be one of {options['choices']}")
    parser.add_argument(f"--{name}", help=f"{help} [{variable}]", default=default, required=default is None, **options)


def read_campaign(path: Path) -> Campaign:
    """The campaign of a JSON file.

    Raises:
        InvalidInput: no such file, not JSON, or not a campaign.
    """
    try:
        return Campaign.from_dict(json.loads(path.read_bytes()))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error}", field=str(path)) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInput(f"is not a campaign: {error}", field=str(path)) from error
