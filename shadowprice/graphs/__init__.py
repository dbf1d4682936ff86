"""Graphs of accounts: snapshots, scaled features, aggregates of past events."""
