"""The ledger database in Redis with an append-only file that is synced before every answer.

Each operation is one Lua script, so it is atomic; all keys of a campaign carry its name as their hash
tag, so they lie on one node. Amounts stay exact below 2^53 minor units.
"""
