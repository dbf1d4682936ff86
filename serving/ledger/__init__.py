"""Ledger of one campaign: authorizations, their outcomes, and the remaining budget.

``messages`` and ``events`` are what callers send, ``authorize`` and ``settle`` what of it can be,
``store`` the interface of the ledger database (``sqlite`` or ``redis``), ``totals`` and ``traffic`` what can be asked;
``sweep`` and ``log`` run beside the endpoints, ``app`` serves them.
"""
