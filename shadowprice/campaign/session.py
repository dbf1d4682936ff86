"""Words of a session: what a person did before a request, as tables and requests name it."""

SESSION = "session"
"""Name of the context value of a request that holds its session."""
SESSION_ACTIONS = ("cart", "order")
"""Actions on an item in a session."""
