"""Bounds on what callers may send and on everything that grows with them: the one place of these numbers.

``shadowprice doctor --limits`` prints each with the text below it. Bounds of a campaign file are in
:mod:`shadowprice.limits`.
"""

from shadowprice.campaign.identifiers import IDENTIFIER_RULE, MOST_CHARACTERS, is_identifier
from shadowprice.pacing.decision_log.records import LONGEST_BASIS

__all__ = ["IDENTIFIER_RULE", "is_identifier"]

MAX_ID_LENGTH = MOST_CHARACTERS
"""Characters of a request, account or event identifier."""
MAX_CONTEXT_LENGTH = 32 * 1024
"""Characters of one request's context values, as JSON."""
MAX_BASIS_LENGTH = LONGEST_BASIS
"""Characters that one decision keeps for its receipt; where it needs more, it has none."""
MAX_BEHAVIORS = 100
"""Behaviors in one request's session; models read the newest 45 carts and 20 orders."""
MAX_SESSION_LENGTH = 12 * 1024
"""Bytes of one request's session, as JSON."""
MAX_CONTEXT = 64
"""Context values of one request."""
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of a request's body."""
MAX_ITEMS = 1000
"""Instances, authorizations or events in one call, unless configured otherwise."""
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
"""Connections of one process. With :data:`MAX_PIPELINED` it bounds the calls that wait for the ledger's store."""
MAX_STRANGERS = MAX_CONNECTIONS // 4
"""Connections of one peer that wait for a request and have had none admitted."""
MAX_HEAD_BYTES = 64 * 1024
"""Bytes of one request that are no body: its line, headers, chunk sizes and trailers."""
MAX_PIPELINED = 8
"""Requests of one connection that wait while an earlier one is answered."""
STRANGER_SHARE = 0.1
"""Share of an event loop's time for connections without an admitted request, while admitted callers are served."""
STRANGER_SECONDS = 0.002
"""Time that such connections may take at once."""
ACCEPT_SECONDS = 60e-6
"""Time that accepting a connection takes."""
BYTE_SECONDS = 0.5e-9
"""Time that reading a byte takes."""
RECEIVE_BYTES = 64 * 1024
"""Bytes of a connection that the kernel keeps."""
REFUSAL_SECONDS = 0.1
"""Pause before a gRPC call is refused."""
STRANGER_WINDOW = 1.0
"""Seconds after the last admitted request in which that share holds."""
IDLE_SHARE = 0.5
"""Share of such connections at other times."""
HEAD_SECONDS = 10.0
"""A request line with its headers that takes longer to arrive is given up."""
EXCHANGE_SECONDS = 120.0
"""A connection is closed when one request takes longer, from its headers to the last byte of the answer."""
SWITCH_SECONDS = 0.001
"""How long a thread may keep the interpreter from the others; the default of 5 ms would be a request's whole time."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""Bytes of a gRPC message: 1,000 requests with the longest identifiers have 800 kB."""
MAX_CALLS = 200
"""gRPC calls at a time of all connections."""
MAX_STREAMS = 50
"""gRPC calls at a time of one connection."""
MAX_VISITS = 16
"""gRPC calls at a time that need no token."""
VISIT_SECONDS = 5.0
"""A gRPC call that needs no token is ended after this time."""
WINDOW_BYTES = 64 * 1024
"""Bytes of a gRPC connection that are kept before a call asks for them."""
IDLE_SECONDS = 60.0
"""A gRPC connection without a call is closed after this time."""
STUCK_SECONDS = 60.0
"""A service whose event loop has not run for so long is not alive."""
CONFLICT_SECONDS = 0.2
"""Pause before a conflict is answered: it has cost the ledger as much as a decision."""
PAUSE_BYTES = 1024 * 1024
"""A refused body of so many bytes is answered after a pause of a second; one of :data:`SMALL_BODY` after none."""

MAX_WAITING = 20_000
"""Requests that may wait in the predictor; more are refused, since their callers would have given up before."""
MAX_REMEMBERED = 50_000
"""Accounts of one generation of the memory of features, which has two."""
MAX_MODELS = 2
"""Models that stay loaded."""
MAX_GROUP = 64
"""Calls of the ledger that share a commit."""
MAX_SWEEP = 1000
"""Authorizations released by one call, so that no caller waits for a long queue of them."""
MAX_SAMPLE = 10_000
"""Requests in one answer about the traffic."""
MAX_MOVES = 1_000
"""Newest moves of budget in one answer, beside those that are under way."""
MAX_SEGMENT_ROWS = 50_000
"""Rows of one segment of the decision log."""
