"""Independent parts of one computation, on several threads where no gradient is needed."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Found = TypeVar("Found")


def side_by_side(compute: Callable[[Part], Found], parts: Iterable[Part]) -> list[Found]:
    """``compute`` of every part, in order, on as many threads as torch has; one after another where gradients are on.

    Each part is computed on one thread. Where a part is a chain of small operations this uses the cores, and the
    threads of one operation do not: those wait for each other after each. The number of torch's threads is one while
    this runs, for the whole process, and then what it was.
    """
    threads = torch.get_num_threads()
    if threads == 1 or torch.is_grad_enabled():
        return [compute(part) for part in parts]

    # Whether gradients are on is each thread's own.
    without_gradients = torch.no_grad()(compute)
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(without_gradients, parts))
    finally:
        torch.set_num_threads(threads)
