import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from rendering import helm_command


@pytest.fixture(scope="session")
def helm(missing: Callable[[str], NoReturn]) -> str:
    """The Helm 3 command line; without one a test is skipped here and fails in CI."""
    found = helm_command()
    if found is None:
        missing("no helm command line; install it or set SHADOWPRICE_HELM")
    return found


@pytest.fixture(scope="session")
def crds(shared_data: Path, missing: Callable[[str], NoReturn]) -> Path:
    """Schemas of the operators' custom resources, beside the data."""
    folder = Path(os.environ.get("SHADOWPRICE_CRDS", shared_data.parent / "crds"))
    if not folder.is_dir():
        missing(f"no schemas of custom resources at {folder}; set SHADOWPRICE_CRDS")
    return folder


@pytest.fixture(scope="session")
def kubectl(missing: Callable[[str], NoReturn]) -> str:
    """The kubectl command line."""
    command = shutil.which("kubectl")
    if command is None:
        missing("no kubectl; install kubernetes-client")
    return command
