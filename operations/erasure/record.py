"""The record of erasures in a workspace, by which a backup that is restored later is erased again.

The record holds a keyed digest of each erased identifier and the pseudonym in its place, never the identifier. Whoever
has record and key can test whether a guessed identifier was erased. So remove the key once no backup from before the
last erasure is left: from then on nobody can connect a pseudonym with an account.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from operations.common.journal import actor, notes
from shadowprice.arms import Experiment, Holdout
from shadowprice.documents import read_document
from shadowprice.errors import Conflict, Unavailable
from shadowprice.files import lock_file, write_whole

RECORD, KEY, LOCK = "erasures.jsonl", "erasures.key", "erasures.lock"
"""Files of a workspace: the record, the key of its digests, and a lock."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """One erasure.

    at         when it was asked for (UTC, ISO 8601)
    by         user, machine and release
    digest     of the identifier, by the key
    key        name of the key: a digest of it
    pseudonym  identifier in its place
    """

    at: str
    by: str
    digest: str
    key: str
    pseudonym: str


@dataclass
class Erasures:
    """The erasures of the workspace ``folder``, in order, and the identifiers that were met so far.

    given  the identifier that is being erased; empty where backups are erased again
    met    identifier → its newest erasure

    Raises:
        Unavailable: the key cannot be read.
    """

    folder: Path
    given: str = field(default="", init=False)
    key: bytes | None = field(init=False)
    every: list[Erasure] = field(init=False)
    met: dict[str, Erasure] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        path = self.folder / KEY
        try:
            self.key = read_document(path) if path.exists() else None
        except OSError as error:
            raise Unavailable(f"{path}: cannot be read: {error}; give it to the user of this process") from error
        names = {entry.name for entry in fields(Erasure)}
        self.every = [Erasure(**line) for line in notes(self.folder / RECORD) if line.keys() == names]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other process erase in the workspace.

        Raises:
            Conflict: one does.
        """
        held = lock_file(self.folder / LOCK)
        if held is None:
            raise Conflict(f"another process erases an account in {self.folder}; repeat the command when it has ended")
        try:
            yield
        finally:
            os.close(held)

    def add(self, account: str, pseudonym: str) -> Erasure:
        """Record that an account is to be erased, on disk before this returns."""
        if self.key is None:
            self.key = secrets.token_bytes(32)
            os.chmod(write_whole(self.folder / KEY, self.key, durable=True), 0o600)
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        erasure = Erasure(at=at, by=actor(), digest=self._digest(account), key=self._key_name(), pseudonym=pseudonym)
        self.given, self.met[account] = account, erasure
        self.every.append(erasure)
        lines = (self.folder / RECORD).read_text().splitlines() if (self.folder / RECORD).exists() else []
        write_whole(self.folder / RECORD, "\n".join([*lines, orjson.dumps(erasure).decode(), ""]), durable=True)
        return erasure

    def after(self, noted: str, oldest: int | None) -> list[Erasure]:
        """Return the erasures after the one that a store noted, which were not made in it.

        Args:
            noted: time of that one; empty for none.
            oldest: date of the store's first decision, microseconds since 1970; None without one.

        Raises:
            Conflict: the key that recognizes one of them is gone, and the store may hold its account.
        """
        later = [erasure for erasure in self.every if erasure.at > noted]
        for erasure in later:
            begun = oldest is not None and oldest <= datetime.fromisoformat(erasure.at).timestamp() * 1e6
            if begun and not self._recognized(erasure):
                raise Conflict(
                    f"the store lacks the erasure of {erasure.at}, and the key in {self.folder / KEY} is not the one "
                    f"that recognizes its account; restore a backup from after it, or remove its line from {RECORD} "
                    "and erase the account once more"
                )
        return later

    def match(self, identifiers: Iterable[str | None], among: Sequence[Erasure] | None = None) -> dict[str, Erasure]:
        """Return the newest erasure of each identifier that has one. O(identifiers)."""
        wanted = {
            erasure.digest: erasure for erasure in (self.every if among is None else among) if self._recognized(erasure)
        }
        if not wanted:
            return {}
        digests = ((name, self._digest(name)) for name in identifiers if name)
        matched = {name: wanted[digest] for name, digest in digests if digest in wanted}
        self.met |= matched
        return matched

    def until(self, account: str) -> datetime | None:
        """Return the time whose later decisions an erasure leaves alone; None where it leaves none.

        An account that comes back after its erasure is not erased again by a backup that is restored.
        """
        return None if account == self.given else datetime.fromisoformat(self.met[account].at)

    def _recognized(self, erasure: Erasure) -> bool:
        return self.key is not None and erasure.key == self._key_name()

    def _digest(self, account: str) -> str:
        return hmac.digest(self.key or b"", account.encode("utf-8", "surrogatepass"), "sha256").hex()

    def _key_name(self) -> str:
        return hashlib.sha256(b"name" + (self.key or b"")).hexdigest()[:16]


def pseudonym_for(account: str, experiments: Iterable[Experiment], holdouts: Iterable[Holdout] = ()) -> str:
    """Return a random identifier whose arm in each experiment is that of the account, now and before each raise.

    Arms are hashes of identifiers, so a lift over all assigned accounts stays as it was. In each of the holdouts of a
    company the identifier is where the account is.
    """
    holdouts = list(holdouts)
    stages = [
        replace(experiment, raises=experiment.raises[:count])
        for experiment in experiments
        for count in range(len(experiment.raises) + 1)
    ]
    while True:
        pseudonym = f"erased-{secrets.token_hex(16)}"
        both = [account, pseudonym]
        alike = all(len(set(stage.index_of(both).tolist())) == 1 for stage in stages)
        if alike and all(len(set(holdout.holds(both).tolist())) == 1 for holdout in holdouts):
            return pseudonym
