"""Tables of S4: training through the budget."""
