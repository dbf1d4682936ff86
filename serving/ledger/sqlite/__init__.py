"""The ledger database in one sqlite file, every commit on disk before it is answered; one process writes."""
