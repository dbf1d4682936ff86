"""The ledger of one campaign: what was promised, what came of it, and how much money is left.

``messages`` and ``events`` are what callers send, ``authorise`` and ``settle`` what of it can be,
``store`` what keeps the books (``sqlite`` or ``redis``), ``totals`` and ``traffic`` what can be asked;
``sweep`` and ``log`` run beside the endpoints, ``app`` serves them.
"""
