"""Price of a single budget, located by intervals over samples and full passes."""
