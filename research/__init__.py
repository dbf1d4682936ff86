"""The research wing: the papers' tables, measured again (``python -m research``), with methods and data of their own.

A table is one file in ``tables/`` (a room per paper) and one line in ``registry.py``. Nothing imports this folder.
"""
