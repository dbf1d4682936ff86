"""Every table that ``make reproduce`` measures. A new one is a file in ``tables/`` and a line here."""

from __future__ import annotations

TABLES: dict[str, str] = {}
"""Name → module with a ``TABLE``."""
