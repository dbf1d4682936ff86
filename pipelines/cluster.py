"""Names of a cluster in a compiled pipeline: claim, secrets, image pull secrets.

The names come from the environment when a pipeline is compiled, as its image does (``SHADOWPRICE_PIPELINE_IMAGE``). A
run on one machine ignores all of it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

PREFIX = "SHADOWPRICE_"


def named(text: str, default: str = "", *, flag: str = "") -> Any:
    """Return a field with one line of meaning, and the option that gives it where that has another name."""
    return field(default=default, metadata={"text": text, "flag": flag})


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Names of one cluster's objects; an empty one is left out."""

    workspace_claim: str = named("persistent volume claim of the workspace", flag="--claim")
    workspace_sub_path: str = named("folder of the campaign on that claim", flag="--sub-path")
    redis_secret: str = named("secret with the online store's connection string")
    redis_key: str = named("its key; connection by default", "connection")
    token_secret: str = named("secret with the ledger's bearer token")
    token_key: str = named("its key; token by default", "token")
    prometheus_secret: str = named("secret with the token and the certificate of Prometheus")
    pull_secrets: str = named("secrets for pulling the image, joined by commas")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the names that ``SHADOWPRICE_WORKSPACE_CLAIM`` and the other variables hold."""
        set_values = {name.name: environment.get(variable(name.name)) for name in fields(cls)}
        return cls(**{name: value for name, value in set_values.items() if value})


NAMES = tuple(member.name for member in fields(Cluster))


def variable(name: str) -> str:
    """The environment variable of a name."""
    return f"{PREFIX}{name.upper()}"


def take(given: Mapping[str, str]) -> None:
    """Put the names of a command line into the environment, where compiling reads them."""
    os.environ.update({variable(name): value for name, value in given.items() if value})
