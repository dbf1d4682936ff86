"""Decision log: segments, compaction, and the rows that were served."""
