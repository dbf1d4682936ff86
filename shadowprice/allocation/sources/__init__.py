"""Problems whose accounts are described rather than held in memory."""

from shadowprice.allocation.population.source import Sharded
from shadowprice.allocation.sources.stored import ShardWriter, StoredProblem, write_shards

__all__ = ["ShardWriter", "Sharded", "StoredProblem", "write_shards"]
