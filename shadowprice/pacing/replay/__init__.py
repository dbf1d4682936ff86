"""Replay of a campaign day: requests, outcomes, policies that answer them, and their comparison."""
