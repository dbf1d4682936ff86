"""Learning: from a point-in-time training set to a model bundle that a server without torch can read."""
