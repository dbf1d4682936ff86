"""What a delivered offer brings: whether it converts, and how much money follows (S2)."""
