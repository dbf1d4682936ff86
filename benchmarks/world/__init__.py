"""Best possible answers on the simulated world: curves, costs, and values."""
