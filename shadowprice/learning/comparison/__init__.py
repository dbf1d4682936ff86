"""Comparison of a model with the one it would replace, on the test rows: value and accuracy of predictions."""
