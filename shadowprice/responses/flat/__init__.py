"""One curve for all accounts of a side, from the effects that a trial shows."""
