"""The papers' tables, measured again: ``python -m benchmarks.reproduce``.

A table is one file in ``tables/`` (a room per paper) and one line in ``registry.py``.
"""
