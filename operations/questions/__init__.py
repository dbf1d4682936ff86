"""Questions about campaigns beside each other, over the solver of what-if."""
