"""Decisions and outcomes as a stream of CloudEvents, read from the decision log."""
