"""The ledger as the predictor asks it: over kept connections, about many calls in one message."""
