"""Networks of two outcomes that only comparisons use."""
