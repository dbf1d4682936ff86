"""Predictor of one campaign, run by KServe: decides requests with the active price."""
