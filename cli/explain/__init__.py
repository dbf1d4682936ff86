"""Commands about one decision: what it would be now, and the proof of what it was."""
