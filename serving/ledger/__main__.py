"""``python -m serving.ledger``: run the ledger of one campaign."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import uvicorn

from operations.common.workspace import read_campaign
from serving.http.access import check_exposed
from serving.http.listening import bounds
from serving.http.logs import quiet_logs
from serving.http.tokens import Tokens
from serving.ledger.api.app import Background, Trouble, create_app
from serving.ledger.background import checking, sweeping
from serving.ledger.settings import StoreSettings
from serving.settings import setting
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import end_with_parent
from shadowprice.watch.verdict import FILE


@dataclass(frozen=True, kw_only=True)
class LedgerSettings(StoreSettings, program="serving.ledger"):
    """The ledger of one campaign."""

    redis_replicas: int = setting(
        "replicas of Redis that must have each record before it is answered", 0, variable="LEDGER_REDIS_REPLICAS"
    )
    token_file: Path | None = setting("file with the tokens that callers must show", None, variable="LEDGER_TOKEN_FILE")
    host: str = setting("address to listen on", "127.0.0.1")
    port: int = setting("port to listen on", 8081, variable="HTTP_PORT")
    hard_stop: Literal["on", "off"] = setting("refuse money the budget does not have", "on")
    calls_per_second: float = setting("most calls of each caller; 0: no limit", 0.0, variable="LEDGER_CALLS_PER_SECOND")
    sweep_seconds: float = setting("how often expired authorizations are released", 5.0)
    log_seconds: float = setting("how often what is new is logged", 15.0, variable="LEDGER_LOG_SECONDS")


def main() -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    settings = LedgerSettings.parse()
    try:
        campaign = read_campaign(settings.campaign_file)
        tokens = Tokens.of(settings.token_file)
        check_exposed(settings.host, tokens)
        store = settings.open(campaign, settings.redis_replicas, settings.witness)
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    volumes = {} if settings.redis else {"store": settings.db.parent}
    background: list[Background] = [
        partial(sweeping, store, settings.sweep_seconds),
        partial(checking, store, settings.sweep_seconds),
    ]
    troubles: list[Trouble] = []
    if settings.log_dir:
        try:
            # Parquet costs a second of the start; a ledger without a log does not need it.
            from serving.ledger.log import LogWriter, logged
        except ModuleNotFoundError as error:
            print(f"error: --log-dir needs {error.name}; install shadowprice[tables]", file=sys.stderr)
            return 2
        volumes["log"] = settings.log_dir
        writer = LogWriter(store, settings.log_dir)
        try:
            writer.check()
        except ShadowpriceError as error:
            store.close()
            print(f"error: {error}", file=sys.stderr)
            return 2
        background.append(partial(logged, writer, settings.log_seconds))
        troubles.append(lambda: writer.trouble)
    app = create_app(
        store,
        campaign,
        hard_stop=settings.hard_stop == "on",
        tokens=tokens,
        calls_per_second=settings.calls_per_second,
        background=background,
        troubles=troubles,
        volumes=volumes,
        verdict=settings.campaign_file.parent / FILE,
    )
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        **bounds(),
        timeout_keep_alive=65,
        timeout_graceful_shutdown=5,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
