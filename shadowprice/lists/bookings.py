"""Journal of what was booked for codes, in the database of their pool: each booking is written before it is sent."""

from collections.abc import Iterable, Sequence

from shadowprice.lists.codes import CodePool
from shadowprice.lists.redemptions import Booking

_TABLE = """CREATE TABLE IF NOT EXISTS booking (
    request_id TEXT, number INTEGER, side TEXT NOT NULL, order_id TEXT NOT NULL, discount INTEGER NOT NULL,
    cost INTEGER NOT NULL, stands INTEGER NOT NULL, observed_at INTEGER NOT NULL, booked INTEGER NOT NULL DEFAULT 0,
    amount INTEGER,
    PRIMARY KEY (request_id, number)) WITHOUT ROWID"""
_FIELDS = ", ".join(Booking._fields)


class Bookings:
    """Bookings of a pool's codes. A booking that was not answered is sent again, with the same content."""

    def __init__(self, pool: CodePool) -> None:
        self._pool = pool
        with pool.transaction() as db:
            db.execute(_TABLE)
            # A pool that was settled before orders had amounts.
            if "amount" not in {column[1] for column in db.execute("PRAGMA table_info(booking)")}:
                db.execute("ALTER TABLE booking ADD COLUMN amount INTEGER")

    def pending(self) -> list[Booking]:
        """Return the bookings that the ledger has not answered."""
        with self._pool.transaction() as db:
            return _rows(db.execute(f"SELECT {_FIELDS} FROM booking WHERE NOT booked ORDER BY request_id, number"))

    def standing(self) -> dict[str, Booking]:
        """Return request id → its newest booking that the ledger accepted."""
        with self._pool.transaction() as db:
            rows = _rows(db.execute(f"SELECT {_FIELDS} FROM booking WHERE booked ORDER BY request_id, number"))
        return {booking.request_id: booking for booking in rows}

    def note(self, bookings: Sequence[Booking]) -> None:
        """Write bookings that are about to be sent."""
        marks = ", ".join("?" * len(Booking._fields))
        with self._pool.transaction() as db:
            db.executemany(f"INSERT INTO booking ({_FIELDS}) VALUES ({marks})", bookings)

    def answer(self, accepted: Iterable[Booking], refused: Iterable[Booking]) -> None:
        """Keep bookings that the ledger accepted, and drop those that it refused."""
        key = "WHERE request_id = ? AND number = ?"
        with self._pool.transaction() as db:
            db.executemany(f"UPDATE booking SET booked = 1 {key}", [each[:2] for each in accepted])
            db.executemany(f"DELETE FROM booking {key}", [each[:2] for each in refused])


def _rows(found: Iterable[Sequence[object]]) -> list[Booking]:
    return [(row := Booking(*each))._replace(stands=bool(row.stands)) for each in found]  # type: ignore[arg-type]
