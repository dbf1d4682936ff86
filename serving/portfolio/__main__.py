"""``python -m serving.portfolio``: move unspent budget between campaigns, once."""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from operations import measure
from operations.common.workspace import campaign_files, read_campaign
from serving.client.client import LedgerClient
from serving.http.logs import quiet_logs
from serving.ledger.moves import Move, MoveRow
from serving.portfolio.carry import carry_out, complete, holds, lost, restore, take_back, under_way
from serving.portfolio.look import Measure, Member, look_at, stand
from serving.settings import Settings, setting, setting_of
from shadowprice.allocation.portfolio.moves import Band, Planned, plan_moves
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import NotFound, ShadowpriceError

MOST = sys.float_info.max
"""Bound that is written for an interval without one: JSON has no infinity."""


@dataclass(frozen=True, kw_only=True)
class MoveSettings(Settings, program="serving.portfolio"):
    """Move unspent budget to where its last unit returns more."""

    campaigns: Path = setting("folder of workspaces, each with a campaign.json")
    campaign_names: str = setting("campaigns of that folder, separated by commas; empty: all", "")
    ledger_url: str = setting("address of the ledger that keeps all of them")
    prometheus_url: str = setting_of(measure.MeasureJob, "prometheus_url")
    prometheus_labels: str = setting_of(measure.MeasureJob, "prometheus_labels")
    prometheus_token_file: str = setting_of(measure.MeasureJob, "prometheus_token_file")
    prometheus_ca_file: str = setting_of(measure.MeasureJob, "prometheus_ca_file")
    undo: str = setting("id of a move to take back, under way or with money that is unspent; empty: none", "")
    restore: bool = setting(
        "give restored ledgers the moves that the others have, and let them use all of their money again; a token that "
        "administers, while no other run moves budget",
        False,
    )
    dry_run: bool = setting("print the moves, and change nothing", False)
    json: bool = setting("print the result as JSON", False)

    def measure(self, workspace: Path, state: Path) -> None:
        """Write the state of a running campaign."""
        job = measure.MeasureJob(
            state=state,
            workspace=workspace,
            ledger_url=self.ledger_url,
            prometheus_url=self.prometheus_url,
            prometheus_labels=self.prometheus_labels,
            prometheus_token_file=self.prometheus_token_file,
            prometheus_ca_file=self.prometheus_ca_file,
        )
        measure.run(job)


@dataclass(frozen=True, kw_only=True)
class Done:
    """Result of a run.

    moves  those that were made or, in a dry run, would be, each with its end
    kept   name → reason, of the campaigns whose money stays as it is
    left   moves whose money is in no limit, until a later run goes on with them or a person takes them back
    """

    moves: Sequence[tuple[Move, str]]
    kept: Mapping[str, str]
    left: Sequence[Move]


def move_once(
    workspaces: Mapping[str, Path],
    campaigns: Mapping[str, Campaign],
    ledgers: Mapping[str, Any],
    measuring: Measure,
    now: datetime,
    dry_run: bool = False,
) -> Done:
    """Go on with what an earlier run has left, then move what is unspent.

    Args:
        workspaces: name → folder.
        campaigns: name → campaign, all of one portfolio.
        ledgers: name → client of the ledger of every campaign (:class:`serving.client.client.LedgerClient`).
        measuring: writes the state of a workspace into a file.
        now: by which windows and prices are over.
        dry_run: move nothing, and leave what is under way.
    """
    left, kept = ([], {}) if dry_run else complete(ledgers)
    members: dict[str, Member] = {}
    rows: dict[str, list[MoveRow]] = {}
    for name in campaigns.keys() - kept.keys():
        try:
            rows[name] = ledgers[name].moves()
        except ShadowpriceError as error:
            kept[name] = str(error)
    kept |= {name: f"its ledger has lost move {move.id!r}; run the job with --restore" for name, move in lost(rows)}
    kept |= {
        name: "its ledger was restored and holds its money back; run the job with --restore"
        for name, own in rows.items()
        if holds(own)
    }
    if dry_run:
        left = [row for own in rows.values() for row in under_way(own)]
    busy = {name for row in left for name in (row.move.source, row.move.target)}
    for name, campaign in campaigns.items():
        if name in busy:
            kept.setdefault(name, "a move is under way")
        if name in kept:
            continue
        try:
            members[name] = look_at(workspaces[name], campaign, ledgers[name].totals(), rows[name], measuring, now)
        except ShadowpriceError as error:
            kept[name] = str(error)
    ended: list[tuple[Move, str]] = []
    waiting = [row.move for row in left]
    for planned in plan_moves(stand(members)):
        move = _move(planned, campaigns, now)
        if dry_run:
            ended.append((move, "planned"))
            continue
        try:
            ended.append((move, carry_out(move, ledgers)))
        except ShadowpriceError as error:
            # The giver's note says what became of it, and the next run goes on from there.
            ended.append((move, f"not finished: {error}"))
            waiting.append(move)
    return Done(moves=ended, kept=kept, left=waiting)


def undo(name: str, ledgers: Mapping[str, Any], now: datetime) -> tuple[Move, str]:
    """Take a move back, also one under way.

    Raises:
        NotFound: no ledger knows that such a move was taken or is under way; or its receiver is no campaign here.
        Conflict: its money is spent or held; or it was taken back before.
        Unavailable: a ledger does not answer. What is under way stays so: nobody can tell whether it was taken.
    """
    rows: list[MoveRow] = [row for ledger in ledgers.values() for row in ledger.moves()]
    waits = next((row.move for row in under_way(rows) if row.move.id == name), None)
    if waits is not None:
        if waits.target not in ledgers:
            raise NotFound(f"{waits.target!r} may have taken the money; put its workspace and its ledger back")
        if (state := take_back(waits, ledgers)) != "taken":
            return waits, state
    known = waits or next((row.move for row in rows if row.move.id == name and row.state == "taken"), None)
    if known is None:
        raise NotFound(f"no ledger has a move {name!r} that was taken or is under way")
    reason = f"taken back: {known.reason}"
    prices = known.target_price, known.source_price
    ends = known.target, known.source
    move = Move(f"undo|{name}", *ends, known.amount, int(now.timestamp()), *prices, reason[:1000], name)
    before = next((row.move for row in rows if row.move.id == move.id), move)
    return before, carry_out(before, ledgers)


def _move(planned: Planned, campaigns: Mapping[str, Campaign], now: datetime) -> Move:
    source, target, amount = planned
    campaign = campaigns[source.name]
    currency = Currency.of(campaign.currency)
    returns = [currency.unit * campaign.told_in * each.price.value for each in (target, source)]
    reason = (
        f"{currency.write(amount)} from {source.name} to {target.name}: "
        f"{currency.one} returns {returns[0]:.2g} there, {returns[1]:.2g} here"
    )
    name = f"{now.isoformat(timespec='seconds')}|{source.name}|{target.name}"
    at = int(now.timestamp())
    return Move(name, source.name, target.name, amount, at, _plain(source.price), _plain(target.price), reason)


def _plain(price: Band) -> tuple[float, float, float]:
    value, low, high = (min(max(each, -MOST), MOST) for each in price)
    return value, low, high


def _run(settings: MoveSettings) -> int:
    """Print what was moved; 1 where money is under way that nobody has."""
    quiet_logs()
    workspaces, groups = {}, defaultdict[str, dict[str, Campaign]](dict)
    for file in campaign_files(Path(), settings.campaigns, settings.campaign_names):
        campaign = read_campaign(file)
        workspaces[campaign.name] = file.parent
        if campaign.portfolio is not None:
            groups[campaign.portfolio.name][campaign.name] = campaign
    now = datetime.now(UTC)
    with ExitStack() as opened:
        # Also of campaigns without terms: they may have had some when a move began.
        ledgers = {name: opened.enter_context(LedgerClient(settings.ledger_url, name)) for name in workspaces}
        if settings.undo:
            done = [Done(moves=[undo(settings.undo, ledgers, now)], kept={}, left=[])]
        elif settings.restore:
            again = restore(ledgers)
            done = [Done(moves=[(move, "restored") for move in again], kept={}, left=[])]
        else:
            done = [
                move_once(workspaces, own, ledgers, settings.measure, now, settings.dry_run) for own in groups.values()
            ]
    _tell(done, settings.json)
    return int(any(found.left for found in done))


def _tell(done: Sequence[Done], as_json: bool) -> None:
    if as_json:
        rows = [move._asdict() | {"state": state} for found in done for move, state in found.moves]
        kept = {name: reason for found in done for name, reason in found.kept.items()}
        print(json.dumps({"moves": rows, "kept": kept, "left": [move.id for found in done for move in found.left]}))
        return
    for found in done:
        for move, state in found.moves:
            print(f"{move.reason} ({state})")
        for name, reason in found.kept.items():
            print(f"{name} stays as it is: {reason}")
        for move in found.left:
            print(f"Under way, in no limit: {move.reason}. Take it back with --undo '{move.id}'.")
    if not any(found.moves or found.left for found in done):
        print("Nothing to move: the last unit of money returns the same, as far as the intervals tell.")


main = MoveSettings.main_of(_run, failure="nothing more is moved, all limits stay")

if __name__ == "__main__":
    sys.exit(main())
