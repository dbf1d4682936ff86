"""Budgets of several campaigns that have one sum of money together."""
