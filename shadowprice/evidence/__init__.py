"""Evidence of the tables before anything is learned: rows that count, shares, and the effect of each level."""
