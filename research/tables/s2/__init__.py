"""Tables of S2: delivery of funds."""
