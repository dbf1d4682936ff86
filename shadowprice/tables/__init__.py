"""The canonical tables, which every step after the first reads.

Identifiers are text, times are UTC, money is whole minor units. ``docs/reference/tables.md`` describes every column.
"""

from shadowprice.tables.database import Tables
from shadowprice.tables.schema import SESSION_TABLES, TABLES
from shadowprice.tables.validation import SessionTables, validate_sessions, validate_some, validate_tables
from shadowprice.tables.views import behaviours, campaign_from_tables, labeled, labels_query, offer_features, tolerances

__all__ = [
    "SESSION_TABLES",
    "TABLES",
    "SessionTables",
    "Tables",
    "behaviours",
    "campaign_from_tables",
    "labeled",
    "labels_query",
    "offer_features",
    "tolerances",
    "validate_sessions",
    "validate_some",
    "validate_tables",
]
