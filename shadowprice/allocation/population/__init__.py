"""Accounts of a problem, in memory, in files or in shards, and passes over them."""
