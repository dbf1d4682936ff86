"""The arithmetic that touches every account: compiled C where it was built, numpy otherwise.

:mod:`shadowprice.allocation.kernel.plain` is the readable reference of what the C does and the oracle of its tests.
``SHADOWPRICE_KERNEL=numpy`` selects it. See ``docs/decisions/0004-allocation-kernel.md``.
"""

import os

from shadowprice.allocation.kernel import compiled, plain
from shadowprice.allocation.kernel.arguments import Bounds, Edges, NetCost, Scored, Tile
from shadowprice.allocation.kernel.paths import exact_sizes_compiled, exact_sizes_plain
from shadowprice.allocation.kernel.place import place_compiled, place_plain

IS_COMPILED = compiled.LIBRARY is not None and os.environ.get("SHADOWPRICE_KERNEL") != "numpy"

settle = plain.settle

if IS_COMPILED:
    score, climb, select = compiled.score, compiled.climb, compiled.select
    scan, gather = compiled.scan, compiled.gather
    place, exact_sizes = place_compiled, exact_sizes_compiled
else:
    score, climb, select = plain.score, plain.climb, plain.select
    scan, gather = plain.scan, plain.gather
    place, exact_sizes = place_plain, exact_sizes_plain

__all__ = [
    "IS_COMPILED",
    "Bounds",
    "Edges",
    "NetCost",
    "Scored",
    "Tile",
    "climb",
    "exact_sizes",
    "gather",
    "place",
    "scan",
    "score",
    "select",
    "settle",
]
