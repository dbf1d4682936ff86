"""Services of a run on one machine: start, replay of a campaign day, stop."""
