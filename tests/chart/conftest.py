import os
from pathlib import Path

import pytest
from rendering import helm_command

IN_CI = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.fixture(scope="session")
def helm() -> str:
    """The Helm 3 command line; without one a test is skipped here and fails in CI."""
    found = helm_command()
    if found is None:
        reason = "no helm command line; install it or set SHADOWPRICE_HELM"
        pytest.fail(reason) if IN_CI else pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def crds(shared_data: Path) -> Path:
    """Schemas of the operators' custom resources, beside the data."""
    folder = Path(os.environ.get("SHADOWPRICE_CRDS", shared_data.parent / "crds"))
    if not folder.is_dir():
        reason = f"no schemas of custom resources at {folder}; set SHADOWPRICE_CRDS"
        pytest.fail(reason) if IN_CI else pytest.skip(reason)
    return folder
