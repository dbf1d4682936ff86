"""Networks with two outcomes per level, value and cost of a request, and their baselines."""
