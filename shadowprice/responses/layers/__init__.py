"""Response layers of graph networks: from an embedding to a curve over the incentive levels."""
