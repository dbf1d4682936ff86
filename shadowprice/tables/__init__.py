"""The canonical tables: what every step after the first reads, whatever the data looked like before.

Identifiers are text, times are UTC, money is whole minor units. ``docs/tables.md`` describes every column.
"""

from shadowprice.tables.schema import TABLES
from shadowprice.tables.validation import Tables, validate_some, validate_tables
from shadowprice.tables.views import campaign_from_tables, labelled, response_of

__all__ = [
    "TABLES",
    "Tables",
    "campaign_from_tables",
    "labelled",
    "response_of",
    "validate_some",
    "validate_tables",
]
