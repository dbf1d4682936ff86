"""Tables of S0: incentives on both sides of a payment platform."""
