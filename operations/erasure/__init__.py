"""Export and erasure of what a workspace holds about one account."""
