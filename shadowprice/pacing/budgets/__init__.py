"""Budgets and caps over the window: what of them is left, by period, and the caps that each account has left."""
