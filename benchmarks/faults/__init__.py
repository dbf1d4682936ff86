"""Faults that really happen to the ledger and what it depends on, under load, and the audit afterwards."""
