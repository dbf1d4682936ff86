"""The predictor and the ledger under load: speed, memory, and callers that misbehave."""
