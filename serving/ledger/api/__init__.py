"""HTTP interface of the ledger."""
