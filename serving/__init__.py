"""The decision service: a KServe predictor, and the ledger that authorizes what it decides and counts what is spent.

``python -m serving.predictor`` runs the predictor, ``python -m serving.ledger`` the ledger; ``launch`` starts
both on one machine and ``client`` talks to them. Nothing here imports torch, Ray or pandera.
"""
