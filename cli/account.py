"""``shadowprice account``: export what is held about an account, or erase it."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from serving.account import Places
from serving.account import erase as erase_account
from serving.account import export as export_account
from shadowprice.command.options import AsJson, application, main_of

Account = Annotated[str, typer.Argument(help="identifier, as requests and tables have it")]
Workspaces = Annotated[list[Path], typer.Argument(help="folders of runs or campaigns, with all that share a limit")]
More = Annotated[
    list[Path] | None, typer.Option("--also", help="ledger file, log folder or backup elsewhere; may be repeated")
]
Redis = Annotated[str, typer.Option(help="Redis with the campaigns' ledgers", envvar="SHADOWPRICE_LEDGER_REDIS")]
Password = Annotated[
    Path | None,
    typer.Option(help="file with the password of Redis", envvar="SHADOWPRICE_LEDGER_REDIS_PASSWORD_FILE"),
]


def export(
    account: Account,
    workspaces: Workspaces,
    out: Annotated[Path, typer.Option(help="new folder for the rows and a manifest")],
    also: More = None,
    redis: Redis = "",
    redis_password_file: Password = None,
    as_json: AsJson = False,
) -> None:
    """Write all rows about an account as JSON lines, a file for each source, and a manifest of them.

    Rows of requests to a partner, and of pairs of accounts, name other accounts.
    """
    exported = export_account(_places(workspaces, also, redis, redis_password_file), account, out)
    _tell(exported, as_json, {source["source"]: source["rows"] for source in exported["sources"]}, exported["not_read"])


def erase(
    account: Account,
    workspaces: Workspaces,
    also: More = None,
    redis: Redis = "",
    redis_password_file: Password = None,
    as_json: AsJson = False,
) -> None:
    """Replace the identifier of an account by a random pseudonym in all files and ledgers; all sums stay.

    Stop the ledger first. An interrupted command may be run again. It lists what still contains the identifier.
    """
    erasure = erase_account(_places(workspaces, also, redis, redis_password_file), account)
    _tell(erasure, as_json, erasure["changed"], erasure["left"])


def repeat(
    workspaces: Workspaces,
    also: More = None,
    redis: Redis = "",
    redis_password_file: Password = None,
    as_json: AsJson = False,
) -> None:
    """Erase again, by the record of each workspace, what a restored backup brought back."""
    erasure = erase_account(_places(workspaces, also, redis, redis_password_file))
    _tell(erasure, as_json, erasure["changed"], erasure["left"])


def _places(workspaces: list[Path], also: list[Path] | None, redis: str, password: Path | None) -> Places:
    return Places(workspaces=workspaces, more=also or [], redis=redis, redis_password_file=password)


def _tell(found: dict[str, Any], as_json: bool, rows: dict[str, int], left: list[str]) -> None:
    if as_json:
        print(json.dumps(found))
        return
    lines = [f"{count} rows: {place}" for place, count in rows.items()]
    lines += [f"left: {subject}" for subject in left] + [f"not reached: {subject}" for subject in found["not_reached"]]
    print(*lines, sep="\n")


app = application(export, erase, repeat, no_args_is_help=True)
main = main_of(app, "shadowprice account")
