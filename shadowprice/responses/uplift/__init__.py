"""Networks with two outcomes per level, what a request brings and what it costs, and their baselines."""
