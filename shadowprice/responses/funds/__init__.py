"""Models of a delivered offer: the probability that it converts, and the amount of a conversion (S2)."""
