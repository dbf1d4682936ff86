import json
import os
import re
import shutil
import subprocess
import sys
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
    """The kubectl command line, of the versions that docs/how-to/install-on-a-cluster.md asks for."""
    own = Path(sys.executable).with_name("kubectl")
    command = shutil.which("kubectl") or (str(own) if own.is_file() else None)
    if command is None:
        missing("no kubectl; install 1.27 or later")
    told = subprocess.run([command, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    version = json.loads(told.stdout)["clientVersion"] if told.returncode == 0 else {"major": "0", "minor": "0"}
    number = int(version["major"]), int(re.sub(r"\D", "", version["minor"]))
    if number < (1, 27):
        missing(f"{command} is {number[0]}.{number[1]}; install 1.27 or later")
    return command
