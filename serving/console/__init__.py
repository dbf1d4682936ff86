"""Console: pages about a campaign's money, read from the ledger, its log and the price store; it changes nothing."""
