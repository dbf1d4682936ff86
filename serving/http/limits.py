"""Limits on what callers may send, the same for the predictor and the ledger."""

from __future__ import annotations

from shadowprice.campaign.identifiers import IDENTIFIER_RULE, MOST_CHARACTERS, is_identifier

__all__ = ["IDENTIFIER_RULE", "is_identifier"]

MAX_ID_LENGTH = MOST_CHARACTERS
"""Characters of a request, account or event identifier."""
MAX_CONTEXT_LENGTH = 32 * 1024
"""Characters of one request's context values, as JSON."""
MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 1000
"""Instances, authorisations or events in one call, unless configured otherwise."""
MAX_OPENINGS = 64 * MAX_ITEMS
"""Opening brackets in a body: a call of :data:`MAX_ITEMS` has some 2,000, identifiers may have more."""
MAX_COMMAS = 512 * MAX_ITEMS
"""Commas in a body: a call of :data:`MAX_ITEMS` has a dozen columns, and a probability of each level."""
MAX_MINOR_UNITS = 10**15
"""Largest amount in one message; far below what an INT64 or a double holds exactly."""

MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024
"""Bytes of request bodies that one process holds at a time, besides the first :data:`SMALL_BODY` of each."""
SMALL_BODY = 64 * 1024
"""Bytes of a body that are always admitted: the number of connections bounds their sum."""
MAX_CONNECTIONS = 1000
MAX_HEAD_BYTES = 64 * 1024
"""Bytes of a request line with its headers."""
HEAD_SECONDS = 10.0
"""A request line with its headers that takes longer to arrive is given up."""
EXCHANGE_SECONDS = 120.0
"""A connection is closed when one request takes longer, from its headers to the last byte of the answer."""
CONFLICT_SECONDS = 0.2
"""Pause before a conflict is answered: it has cost the ledger as much as a decision."""
PAUSE_BYTES = 1024 * 1024
"""A refused body of so many bytes is answered after a pause of a second; one of :data:`SMALL_BODY` after none."""
