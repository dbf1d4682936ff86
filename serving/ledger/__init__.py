"""Ledger of one campaign: authorizations, their outcomes, and the remaining budget.

``api`` serves the endpoints and checks their messages, ``store`` is the interface of the ledger database (``sqlite``
or ``redis``), ``totals`` and ``traffic`` are its sums. ``background`` and ``log`` run beside the endpoints.
"""
