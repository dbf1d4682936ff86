"""The readers that ``make fuzz`` tries survive the inputs that it begins with."""

from __future__ import annotations

import pytest
from readers import READERS, SEEDS


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in SEEDS.items() for seed in seeds])
def test_a_reader_takes_its_input_or_refuses_it(name: str, seed: bytes) -> None:
    READERS[name](seed)
    READERS[name](seed[: len(seed) // 2])
    READERS[name](seed + seed)
