from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def examples() -> Path:
    """The folder of example tables that the docs describe."""
    return ROOT / "docs" / "examples" / "tables"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data that lie beside the project; without them a test is skipped here and fails in CI."""
    folder = Path(os.environ.get("SHADOWPRICE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        reason = f"no data folder at {folder}; set SHADOWPRICE_DATA"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
