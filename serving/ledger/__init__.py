"""The ledger of one campaign: what was promised, what came of it, and how much money is left.

``messages`` and ``events`` are what callers send, ``authorise`` and ``settle`` the two things that
happen to money, ``totals`` and ``traffic`` what can be asked; ``database`` and ``writer`` keep it in
sqlite, ``app`` serves it.
"""
