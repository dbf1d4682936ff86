from collections.abc import Callable

import pytest

from benchmarks.world.training_set import training_set
from shadowprice.datasets.registry import Dataset
from shadowprice.learning.training_set import TrainingSet

MakeSet = Callable[..., tuple[Dataset, TrainingSet]]


@pytest.fixture(scope="session")
def make_set() -> MakeSet:
    return training_set
