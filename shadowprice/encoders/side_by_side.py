"""Independent parts of an inference, computed on several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Found = TypeVar("Found")


def side_by_side(compute: Callable[[Part], Found], parts: Iterable[Part]) -> list[Found]:
    """``compute`` of every part, in order, without gradients, on as many threads as torch has.

    Each part is computed on one thread. Where a part is a chain of small operations this uses the cores, and the
    threads of one operation do not: those wait for each other after each. The number of torch's threads is one while
    this runs, for the whole process, and then what it was.
    """

    @torch.no_grad()
    def without_gradients(part: Part) -> Found:
        return compute(part)

    threads = torch.get_num_threads()
    if threads == 1:
        return [without_gradients(part) for part in parts]
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(without_gradients, parts))
    finally:
        torch.set_num_threads(threads)
