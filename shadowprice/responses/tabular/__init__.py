"""Response models that read an account's own features and the level, without a graph."""
