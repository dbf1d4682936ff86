from pathlib import Path

import pandas as pd
import pytest

from shadowprice.datasets.folder import read_tables
from shadowprice.tables import Tables


@pytest.fixture(scope="session")
def sound_tables(examples: Path) -> Tables:
    return read_tables(examples)


@pytest.fixture
def frames(sound_tables: Tables) -> dict[str, pd.DataFrame]:
    """Sound tables to break, one copy per test."""
    return {name: frame.copy() for name, frame in sound_tables.as_dict().items()}
