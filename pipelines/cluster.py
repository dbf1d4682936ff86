"""Names of a cluster in a compiled pipeline: claim, secrets, image pull secrets.

The names come from the environment when a pipeline is compiled, as its image does (``SHADOWPRICE_PIPELINE_IMAGE``). A
run on one machine ignores all of it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

PREFIX = "SHADOWPRICE_"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Names of one cluster's objects; an empty one is left out.

    workspace_claim     persistent volume claim of the workspace
    workspace_sub_path  folder of the campaign on the claim
    redis_secret        secret with Feast's connection string
    redis_key           key of the connection string
    token_secret        secret with the bearer token that the ledger wants to see
    token_key           key of the token
    pull_secrets        secrets for pulling the image, joined by commas
    """

    workspace_claim: str = ""
    workspace_sub_path: str = ""
    redis_secret: str = ""
    redis_key: str = "connection"
    token_secret: str = ""
    token_key: str = "token"
    pull_secrets: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The names that ``SHADOWPRICE_WORKSPACE_CLAIM`` and so on hold."""
        given = {name.name: environment.get(variable(name.name)) for name in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value})


HELP = {
    "workspace_claim": "persistent volume claim of the workspace",
    "workspace_sub_path": "folder of the campaign on that claim",
    "redis_secret": "secret with the online store's connection string",
    "redis_key": "its key; connection by default",
    "token_secret": "secret with the ledger's bearer token",
    "token_key": "its key; token by default",
    "pull_secrets": "secrets for pulling the image, joined by commas",
}
FLAGS = {"workspace_claim": "--claim", "workspace_sub_path": "--sub-path"}


def variable(name: str) -> str:
    """The environment variable of a name."""
    return f"{PREFIX}{name.upper()}"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Let a command line name the cluster's objects."""
    group = parser.add_argument_group("of the cluster", "by default what the environment names")
    for name, text in HELP.items():
        group.add_argument(FLAGS.get(name, f"--{name.replace('_', '-')}"), dest=name, help=text)


def take_flags(given: argparse.Namespace) -> None:
    """Put what a command line named into the environment, where compiling reads it."""
    for name in HELP:
        if value := getattr(given, name, None):
            os.environ[variable(name)] = value
