"""Settings of a service: a flag of the command line, or else a variable of the environment."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

PREFIX = "SHADOWPRICE_"


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
