"""Feast's part: profiles, interaction aggregates, embeddings and the price of money.

Importing the package costs nothing. Its modules import Feast when they are imported, which takes
seconds: a service does that when it starts, not when its first request waits for an answer.
"""
