"""Export and erasure of everything that workspaces and ledgers hold about one account.

An account is erased in place: a random pseudonym takes the place of its identifier, so every row, sum and order stays.
The record is written first, then every source, each whole or not at all. Calling again finishes what was interrupted.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from feature_repo.names import CONFIG_FILE
from operations.common.journal import note
from operations.common.workspace import FEATURES, read_campaign
from operations.erasure.files import REQUESTS, GroupsFile, source_of
from operations.erasure.record import KEY, LOCK, RECORD, Erasures, pseudonym_for
from operations.erasure.source import Source
from serving.http.tokens import read_secret
from serving.ledger.redis.accounts import RedisAccounts
from serving.ledger.sqlite.accounts import SqliteAccounts, is_ledger
from shadowprice.campaign.identifiers import IDENTIFIER_RULE, NOT_PRINTABLE, is_identifier
from shadowprice.checks import require
from shadowprice.errors import Conflict, NotFound
from shadowprice.files import write_whole

MANIFEST = "manifest.json"
OUTSIDE = (
    "your own source files and tables, and what you mapped them from",
    "other workspaces, runs and backups than those named",
    "memory of running services: restart predictors and consoles",
    "what callers, reporters and the pipelines backend keep, and files that an export wrote",
)
"""Places that no command reaches."""
STORES = (SqliteAccounts, RedisAccounts)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Places of accounts.

    workspaces  folders of campaigns, with their ledgers, logs, features and models
    more        ledgers' sqlite files, log folders, and other files beside them
    redis       address of the Redis that keeps the ledgers of all workspaces; empty: sqlite files
    """

    workspaces: Sequence[Path]
    more: Sequence[Path] = ()
    redis: str = ""
    redis_password_file: Path | None = None

    def __post_init__(self) -> None:
        for place in (*self.workspaces, *self.more):
            if not place.exists():
                raise NotFound(f"there is no {place}; name the folder of a run or campaign, or a file of its ledger")

    def sources(self, workspace: Path) -> tuple[list[Source], list[str]]:
        """Return the sources of one workspace, the ledgers first, and why some files are none."""
        stores: list[Source] = []
        faults: list[str] = []
        campaign = read_campaign(workspace).name
        if self.redis:
            stores.append(RedisAccounts(self.redis, read_secret(self.redis_password_file), campaign))
        for path in (path for root in (workspace, *self.more) for path in _files(root)):
            try:
                source = SqliteAccounts(path) if is_ledger(path, campaign) else source_of(path)
            except (OSError, ValueError) as error:
                faults.append(f"{path}: cannot be read ({error}); remove it or restore it")
                continue
            stores += [] if source is None else [source]
        if (workspace / FEATURES / CONFIG_FILE).exists():
            stores.append(Online(workspace / FEATURES))
        # A ledger that runs is refused before a file is changed. The last files name accounts in ids and hashes, which
        # are found by the identifiers of the others.
        last = [(not isinstance(store, STORES), not store.owned or isinstance(store, GroupsFile)) for store in stores]
        return [stores[place] for place in sorted(range(len(stores)), key=last.__getitem__)], faults


class Online(Source):
    """The online store of a feature repository."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"online store of {folder}")
        self._folder = folder

    def rows(self, account: str, requests: set[str]) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - names no request
        """Yield columns and embedding of the account."""
        from feature_repo.online.accounts import held

        yield from held(self._folder, account)

    def erase(self, erasures: Erasures) -> int:
        """Remove the account: a decision never asks for a pseudonym."""
        from feature_repo.online.accounts import remove

        return remove(self._folder, erasures.match)


def export(places: Places, account: str, out: Path) -> dict[str, Any]:
    """Write the rows about an account, a JSON line each, to a file for each source, and a manifest.

    Raises:
        Conflict: the folder ``out`` has files.
        ShadowpriceError: a source cannot be read.
    """
    if out.exists() and any(out.iterdir()):
        raise Conflict(f"{out} is not empty; name a new folder")
    requests: set[str] = set()
    held, unread, sources = list[dict[str, Any]](), list[str](), list[Source]()
    for workspace in places.workspaces:
        added, faults = places.sources(workspace)
        sources, unread = sources + added, unread + faults
    # Rows that name requests alone come last, when the requests of the account are known.
    for source in sorted(sources, key=lambda each: not each.owned):
        lines = []
        for row in source.rows(account, requests):
            if account in (row.get("account_id"), row.get("user_id")):
                requests |= {row[name] for name in REQUESTS if name in row}
            lines.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE))
        if lines:
            name = f"{len(held):04d}.jsonl"
            write_whole(out / name, b"".join(lines))
            held.append({"source": source.place, "file": name, "rows": len(lines)})
    manifest = {"account": account, "sources": held, "not_read": unread, "not_reached": list(OUTSIDE)}
    write_whole(out / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    return manifest


def erase(places: Places, account: str | None = None) -> dict[str, Any]:
    """Replace an account's identifier everywhere; without one, erase again what restored backups brought back.

    Raises:
        InvalidInput: not an identifier.
        Conflict: a ledger runs, or another process erases in a workspace.
        ShadowpriceError: a source cannot be read or written; call again.
    """
    with ExitStack() as held:
        records = {folder: Erasures(folder) for folder in places.workspaces}
        for erasures in records.values():
            held.enter_context(erasures.alone())
        if account is not None:
            require(is_identifier(account), "account", IDENTIFIER_RULE + NOT_PRINTABLE)
            # Campaigns that share a limit add up the sums of one identifier.
            known = [erasure.pseudonym for record in records.values() for erasure in record.match([account]).values()]
            campaigns = [read_campaign(folder) for folder in places.workspaces]
            experiments = [campaign.experiment for campaign in campaigns if campaign.experiment]
            holdouts = {campaign.holdout for campaign in campaigns if campaign.holdout}
            pseudonym = known[0] if known else pseudonym_for(account, experiments, holdouts)
            for record in records.values():
                own = record.match([account])
                record.add(account, own[account].pseudonym if own else pseudonym)
        changed, left = dict[str, int](), list[str]()
        for workspace, record in records.items():
            sources, faults = places.sources(workspace)
            left += faults
            for source in sources:
                for place in sources:
                    if isinstance(place, RedisAccounts):
                        place.keep_log()
                rows = source.erase(record)
                changed |= {source.place: rows} if rows else {}
            left += [
                f"{source.place}: {count} rows or lines contain the identifier"
                for source in sources
                if account is not None and (count := source.mentions(account))
            ]
            note(workspace / RECORD, finished=record.every[-1].at if record.every else "")
    return {"changed": changed, "left": left, "not_reached": list(OUTSIDE)}


def _files(root: Path) -> Iterator[Path]:
    """Yield the files of a folder, or a file itself, without links and what the command writes itself."""
    if root.is_file():
        yield root
    for folder, inner, names in os.walk(root):
        inner.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and name not in (RECORD, KEY, LOCK):
                yield path
