"""Clients of predictor and ledger, and the readiness check of a deployment."""
