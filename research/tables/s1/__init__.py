"""Tables of S1: promotion with the deep isotonic promotion network."""
