"""The system of record of prices: one immutable, checksummed file per published version."""

import logging
import os
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from shadowprice.errors import Conflict, NotFound, PriceRejected, Unavailable
from shadowprice.price import LAST_VERSION, PriceRecord

SUFFIX = ".json"
KEEP = 1_000
"""Newest versions of a campaign that are kept."""
logger = logging.getLogger(__name__)


class PriceStore:
    """Prices of many campaigns under one folder: ``<root>/<campaign>/<version:010d>.json``.

    A file is written once, whole, and never changed. Publishing creates it exclusively, so of two
    solvers that publish the same version exactly one succeeds and the other gets
    :class:`Conflict`. A slot (and step within it) of the window takes one price: a solver that comes
    after is refused too. A file that is damaged, or not named like a price, is passed over and reported, never
    moved: its number counts as taken. The folder must be on a file system with hard links.

    Publishing removes what is older than the newest ``keep`` versions. It keeps the newest sound price of every model,
    which decides where no newer model can be loaded. The newest file is kept too, so numbers never go back.
    """

    def __init__(self, root: str | Path, *, keep: int = KEEP) -> None:
        self.root = Path(root)
        self.keep = keep

    def publish(self, record: PriceRecord) -> PriceRecord:
        """Write a sealed record as the campaign's next version and return it; logs what it passes over.

        Removes old versions: O(kept versions) reads. A failure to remove is logged; the record is published.

        Raises:
            PriceRejected: the record is not sealed, or its content does not match its checksum.
            Conflict: the version exists, is not the one after the newest, or its slot and step have a price
                already. Only a new model may price a slot again; prices before the window may follow each other.
            Unavailable: the folder cannot be written.
        """
        record.verify()
        for reason in self.unsound(record.campaign):
            logger.warning("passed over: %s", reason)
        expected = self.next_version(record.campaign)
        if record.version != expected:
            raise Conflict(
                f"price version {record.version} of campaign {record.campaign!r}: the next version is {expected}; "
                "read the newest price and solve again"
            )
        newest = self.latest(record.campaign, verified_only=True)
        if newest is not None and record.priced_before(newest):
            raise Conflict(
                f"slot {record.slot}, step {record.step} of campaign {record.campaign!r} has a price already: "
                f"version {newest.version} is of slot {newest.slot}, step {newest.step}"
            )
        if not self._write(record):
            raise Conflict(
                f"price version {record.version} of campaign {record.campaign!r} was published by another solver"
            )
        self._remove_old(record.campaign)
        return record

    def restore(self, record: PriceRecord) -> bool:
        """Write a published record back if every sound version is older, and return whether that was so.

        Prices of a folder that was lost, or is an old backup, then go on from the record.

        Raises:
            PriceRejected: the record is not sealed, or its content does not match its checksum.
            Unavailable: the folder cannot be written.
        """
        record.verify()
        newest = next(self.sound(record.campaign), None)
        return (newest is None or newest.version < record.version) and self._write(record)

    def latest(self, campaign: str, *, verified_only: bool = False) -> PriceRecord | None:
        """The newest record, or None when the campaign has none.

        Args:
            campaign: the campaign's name.
            verified_only: go back to the newest sound record instead of refusing a damaged one;
                for a reader that must keep deciding while somebody repairs the store.

        Raises:
            PriceRejected: the newest file is damaged (names it), and ``verified_only`` is not set.
        """
        if verified_only:
            return next(self.sound(campaign), None)
        newest = max(self.versions(campaign), default=None)
        return None if newest is None else self.read(campaign, newest)

    def sound(self, campaign: str) -> Iterator[PriceRecord]:
        """Every sound record, the newest first; what is damaged is passed over."""
        return (record for record in self._newest_first(campaign) if isinstance(record, PriceRecord))

    def history(self, campaign: str) -> tuple[list[PriceRecord], list[str]]:
        """Return every sound record, the oldest first, and the fault of each other file."""
        entries = list(self._newest_first(campaign))[::-1]
        records = [entry for entry in entries if isinstance(entry, PriceRecord)]
        return records, [str(entry) for entry in entries if isinstance(entry, PriceRejected)] + self.strays(campaign)

    def next_version(self, campaign: str) -> int:
        """The number that the next price must have: the first one above the newest sound price that no file has.

        A damaged file keeps its number. A file with a number far ahead, which no publication wrote, blocks none.
        """
        versions = self.versions(campaign)
        newest = next(self.sound(campaign), None)
        before = min(versions, default=0) if newest is None else newest.version
        taken = set(versions)
        number = next(version for version in count(before + 1) if version not in taken)
        return number if newest is not None or number <= LAST_VERSION else 1

    def unsound(self, campaign: str) -> list[str]:
        """Return the faults of the files newer than the newest sound record, and those of :meth:`strays`.

        Damage behind the newest sound record is history that no reader needs.
        """
        reasons = self.strays(campaign)
        for entry in self._newest_first(campaign):
            if isinstance(entry, PriceRecord):
                break
            reasons.append(str(entry))
        return reasons

    def strays(self, campaign: str) -> list[str]:
        """Return a fault for each JSON file in the campaign's folder that is not named like a price."""
        return [
            f"{path}: is not named like a price ({1:010d}{SUFFIX})"
            for path in self._files(campaign)
            if not self._is_price(campaign, path)
        ]

    def read(self, campaign: str, version: int) -> PriceRecord:
        """One published record, verified.

        Raises:
            NotFound: no such version.
            PriceRejected: the file is damaged, or holds another campaign or version than its name.
            Unavailable: the file cannot be read.
        """
        path = self._path(campaign, version)
        try:
            record = PriceRecord.read(path)
        except FileNotFoundError:
            raise NotFound(f"campaign {campaign!r} has no price version {version} in {self.root}") from None
        except OSError as error:
            raise Unavailable(f"price store {path}: {error}") from error
        except PriceRejected as error:
            raise PriceRejected(f"{path}: {error}") from error
        if (record.campaign, record.version) != (campaign, version):
            raise PriceRejected(
                f"{path}: holds version {record.version} of {record.campaign!r}; files must not be moved or renamed"
            )
        return record

    def versions(self, campaign: str) -> list[int]:
        """Versions of a campaign, ascending, sound or not."""
        return sorted(int(path.stem) for path in self._files(campaign) if self._is_price(campaign, path))

    def _newest_first(self, campaign: str) -> Iterator[PriceRecord | PriceRejected]:
        return (entry for version in reversed(self.versions(campaign)) if (entry := self._found(campaign, version)))

    def _found(self, campaign: str, version: int) -> PriceRecord | PriceRejected | None:
        """Return a version, or its fault, or None where it was removed after it was listed."""
        try:
            return self.read(campaign, version)
        except PriceRejected as error:
            return error
        except NotFound:
            return None

    def _write(self, record: PriceRecord) -> bool:
        path = self._path(record.campaign, record.version)
        try:
            return _create(path, record.to_json().encode())
        except OSError as error:
            raise Unavailable(f"price store {path}: {error}; read the newest version before trying again") from error

    def _remove_old(self, campaign: str) -> None:
        models: set[str] = set()
        for place, version in enumerate(reversed(self.versions(campaign))):
            try:
                entry = self._found(campaign, version)
                deciding = isinstance(entry, PriceRecord) and entry.model_version not in models
                if isinstance(entry, PriceRecord):
                    models.add(entry.model_version)
                if place >= self.keep and not deciding:
                    self._path(campaign, version).unlink(missing_ok=True)
            except (OSError, Unavailable) as error:
                logger.warning("price version %d of campaign %r is not removed: %s", version, campaign, error)

    def _files(self, campaign: str) -> list[Path]:
        return sorted(path for path in self._folder(campaign).glob(f"*{SUFFIX}") if not path.name.startswith("."))

    def _is_price(self, campaign: str, path: Path) -> bool:
        name = path.stem
        return name.isascii() and name.isdigit() and path == self._path(campaign, int(name))

    def _folder(self, campaign: str) -> Path:
        if not campaign or campaign != os.path.basename(campaign) or campaign.startswith("."):
            raise NotFound(f"{campaign!r} is not the name of a campaign")
        return self.root / campaign

    def _path(self, campaign: str, version: int) -> Path:
        return self._folder(campaign) / f"{version:010d}{SUFFIX}"


def _create(path: Path, content: bytes) -> bool:
    """Make ``path`` appear whole and on disk; False when it is there already.

    A hard link is the one operation that is both atomic and exclusive; ``os.replace`` would
    silently overwrite what another solver has published.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{path.stem}.{uuid.uuid4().hex}"
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True
