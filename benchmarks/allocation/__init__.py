"""The allocation engine against other solvers, and where its time goes."""
