"""Problems whose accounts are described rather than held in memory."""

from shadowprice.allocation.population.source import Arrays, Assembly, Resources, Sharded, Source
from shadowprice.allocation.sources.memory import MemoryProblem
from shadowprice.allocation.sources.stored import ShardWriter, StoredProblem, write_shards

__all__ = [
    "Arrays",
    "Assembly",
    "MemoryProblem",
    "Resources",
    "ShardWriter",
    "Sharded",
    "Source",
    "StoredProblem",
    "write_shards",
]
