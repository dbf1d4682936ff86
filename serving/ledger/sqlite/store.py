"""The sqlite store: one writer on a thread of its own, two connections that read."""

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path

from serving.ledger.clock import Calendar, Clock, monotonic, wall
from serving.ledger.moves import Allowance, Move, MoveRow, State, Step, check_own
from serving.ledger.records import Answer, Ceiling, Correction, Counted, Dates, Owners, ReportedOutcome, Row, Storage
from serving.ledger.sqlite import rows
from serving.ledger.sqlite.authorizations import Authorize, Expire, Release
from serving.ledger.sqlite.claim import Claim
from serving.ledger.sqlite.corrections import Correct, corrections_after
from serving.ledger.sqlite.database import adopt, create, is_copy, keep_ledger_time, read_seen
from serving.ledger.sqlite.health import Health
from serving.ledger.sqlite.moves import TakeStep, read_moves
from serving.ledger.sqlite.peers import Peers
from serving.ledger.sqlite.reader import Reader
from serving.ledger.sqlite.settling import Settle
from serving.ledger.sqlite.sums import read_totals, read_traffic
from serving.ledger.sqlite.usage import read_owners, read_usage
from serving.ledger.sqlite.writer import Writer
from serving.ledger.totals import LedgerTotals
from serving.ledger.traffic import Traffic
from serving.ledger.witness import Witness
from shadowprice.campaign import Campaign
from shadowprice.errors import Unavailable
from shadowprice.limits.usage import Usage
from shadowprice.pacing.decision_log.records import CorrectionRow, Decision, OutcomeRow

TRAFFIC_SECONDS = 2.0
"""Longest time that reading the traffic takes."""


class SqliteStore:
    """A :class:`serving.ledger.store.Store` in the file ``path``, made where there is none.

    ``peers`` are the ledgers of the same process, which this one joins. ``witness`` is the file that notes how many
    records there are.

    Raises:
        Conflict: the file belongs to another campaign or has other levels, another process has it, or it holds fewer
            records than the witness.
        Unavailable: the file cannot be used, or is damaged.
    """

    def __init__(
        self,
        path: Path,
        campaign: Campaign,
        clock: Clock = monotonic,
        peers: Peers | None = None,
        witness: Path | None = None,
        wall: Clock = wall,
    ) -> None:
        self._peers = Peers() if peers is None else peers
        self._campaign = campaign
        self._path = path
        self._clock = clock
        self._claim = Claim(path)
        try:
            self._origin = create(path, campaign) - clock()
            self._health = Health(path, self._claim)
            self._health.check_whole()
            self._reader = Reader(path, self._health)
            self._calendar = Calendar(self.dates().recorded or 0, clock, wall)
            self._witness = Witness(witness, campaign.name)
            self._witness.check(self._reader.read(read_seen))
            self._note()
            self._traffic_reader = Reader(path, self._health, TRAFFIC_SECONDS)
        except BaseException:
            self._claim.close()
            raise
        self._writer = Writer(path, self._health, self._peers.turn(campaign))

    @property
    def alive(self) -> bool:
        """Return whether the writer runs."""
        return self._writer.alive and self._health.damage is None

    @property
    def trouble(self) -> str | None:
        """Reason why writes fail."""
        return self._health.trouble

    @property
    def copied(self) -> bool:
        """Return whether the file is a copy that a backup has written, which has not been used before."""
        return self._reader.read(is_copy)

    def adopt(self) -> None:
        """Note that the copy is in use."""
        self._writer.submit(adopt).result()

    def date(self) -> int:
        """Date that is not before that of any decision."""
        return self._calendar.now()

    def authorize(self, calls: Sequence[Sequence[Row]], ceiling: Ceiling | None, at: int) -> Future[list[Answer]]:
        """Implements :class:`~serving.ledger.store.Store`, as the other methods do."""
        return self._writer.submit(Authorize(calls, ceiling, at, self._now(), self._peers))

    def settle(self, outcomes: Sequence[ReportedOutcome], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Capture."""
        return self._writer.submit(Settle(outcomes, ceiling, at, self._now(), self._peers))

    def correct(self, corrections: Sequence[Correction], ceiling: Ceiling | None, at: int) -> Future[Counted]:
        """Correct."""
        return self._writer.submit(Correct(corrections, ceiling, at, self._now(), self._peers))

    def release(self, request_ids: Sequence[str], at: int) -> Future[Counted]:
        """Release unused authorizations."""
        return self._writer.submit(Release(request_ids, at))

    def expire(self, at: int) -> Future[int]:
        """Release expired authorizations."""
        return self._writer.submit(Expire(at, self._now()))

    def move(self, step: Step, move: Move, allowance: Allowance, end: State | None, at: int) -> Future[State]:
        """Take a step of a move."""
        check_own(self._campaign.name, step, move)
        return self._writer.submit(TakeStep(step, move, allowance, end, at, self._now()))

    def moves(self) -> list[MoveRow]:
        """Moves, the oldest first."""
        return self._reader.read(read_moves)

    def find(self, request_ids: Sequence[str]) -> dict[str, Decision]:
        """Decisions of the requests that are known."""
        return self._reader.read(lambda database: rows.find(database, request_ids))

    def totals(self) -> LedgerTotals:
        """All sums, of one moment."""
        return self._reader.read(lambda database: read_totals(database, self._campaign))

    def usage(self, sums: Sequence[str]) -> dict[str, Usage]:
        """Sums of further limits."""
        return self._reader.read(lambda database: read_usage(database, sums))

    def owners(self, campaign: str, begin: str, after: str, limit: int) -> Owners:
        """Sums of one limit by owner, of this file or of a peer's."""
        if campaign == self._campaign.name:
            return self._reader.read(lambda database: read_owners(database, begin, after, limit))
        with self._peers.reading(campaign) as database:
            return read_owners(database, begin, after, limit)

    def dates(self) -> Dates:
        """The last decision that was recorded; the file has no clock."""
        newest = self._reader.read(
            lambda database: database.execute(
                "SELECT decided_at FROM decision ORDER BY sequence DESC LIMIT 1"
            ).fetchone()
        )
        return Dates(recorded=newest[0] if newest else None, server=None)

    def traffic(self, since: int, limit: int) -> Traffic:
        """Requests by hour, and the newest; on a connection of its own, so that no other reading waits for it."""
        return self._traffic_reader.read(lambda database: read_traffic(database, since, limit))

    def decisions_after(self, sequence: int, limit: int) -> list[Decision]:
        """Decisions in the order of their recording."""
        return self._reader.read(lambda database: rows.decisions_after(database, sequence, limit))

    def outcomes_after(self, sequence: int, limit: int) -> list[OutcomeRow]:
        """Outcomes in the order of their recording."""
        return self._reader.read(lambda database: rows.outcomes_after(database, sequence, limit))

    def storage(self) -> Storage:
        """Bytes of the file and of the log beside it, and rows."""
        decisions, outcomes = self._reader.read(rows.kept)
        used = sum(path.stat().st_size for path in (self._path, Path(f"{self._path}-wal")) if path.exists())
        return Storage(used_bytes=used, limit_bytes=0, decisions=decisions, outcomes=outcomes)

    def corrections_after(self, sequence: int, limit: int) -> list[CorrectionRow]:
        """Corrections in the order of their recording."""
        return self._reader.read(lambda database: corrections_after(database, sequence, limit))

    def check(self) -> None:
        """Check a portion of the file, and note in the witness what was recorded."""
        self._health.check_portion()
        self._note()

    def may_log(self, seconds: float) -> bool:  # noqa: ARG002 - no other process has the file
        """Return True: the file belongs to this process alone."""
        return True

    def close(self) -> None:
        """Finish writing, keep the ledger time and let go of the file."""
        self._writer.submit(partial(keep_ledger_time, now=self._now()))
        self._writer.close()
        with suppress(Unavailable):
            self._note()
        self._reader.close()
        self._traffic_reader.close()
        self._peers.close(self._campaign.name)
        self._claim.close()

    def _note(self) -> None:
        self._witness.note(self._reader.read(read_seen))

    def _now(self) -> int:
        """Return ledger time: that of the file when it was opened, and the time since."""
        return self._origin + self._clock()
