"""Kinds of data set, each with the models that learn from it and the way its budget is priced."""
