"""HTTP parts that predictor and ledger share: tokens, limits, refusals, request handler."""
