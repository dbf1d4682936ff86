"""The job that moves unspent budget between the campaigns of a portfolio, by their ledgers alone."""
