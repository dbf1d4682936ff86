"""``python -m serving.ledger``: run the ledger of one campaign."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import uvicorn

from operations.common.workspace import read_campaign
from serving.http.access import check_exposed
from serving.http.listening import bounds
from serving.http.logs import quiet_logs
from serving.http.tokens import Tokens, read_secret
from serving.ledger.api.app import Background, Trouble, create_app
from serving.ledger.background import checking, sweeping
from serving.ledger.durability import Durability
from serving.ledger.opening import open_store
from serving.settings import PREFIX, add_setting
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import end_with_parent
from shadowprice.watch.verdict import FILE


def main() -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    settings = _settings()
    try:
        campaign = read_campaign(settings.campaign_file)
        tokens = Tokens.of(settings.token_file)
        check_exposed(settings.host, tokens)
        password = read_secret(settings.redis_password_file)
        store = open_store(campaign, settings.db, settings.redis, password, durability=_durability(settings))
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


def _settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m serving.ledger", description="The ledger of one campaign.")

    def add(name: str, help: str, variable: str = "", **options: object) -> None:
        named = {"variable": PREFIX + variable} if variable else {}
        add_setting(parser, os.environ, name, help, **named, **options)

    add("campaign-file", "campaign as JSON", type=Path)
    add("db", "sqlite file, made if missing; not used with Redis", type=Path, default="ledger.db")
    add(
        "redis",
        "keep the ledger in Redis instead: redis://host:port/database, or rediss:// with TLS",
        "LEDGER_REDIS",
        default="",
    )
    add("redis-password-file", "file with the password of Redis", "LEDGER_REDIS_PASSWORD_FILE", type=_path, default="")
    add(
        "redis-durability",
        "declared: the operator vouches for the persistence of a Redis that forbids CONFIG GET",
        "LEDGER_REDIS_DURABILITY",
        default="checked",
        choices=["checked", "declared"],
    )
    add(
        "redis-replicas",
        "replicas of Redis that must have each record before it is answered",
        "LEDGER_REDIS_REPLICAS",
        type=int,
        default="0",
    )
    add(
        "witness",
        "file outside Redis that notes how many records there are; empty: none is kept",
        "LEDGER_WITNESS",
        type=_path,
        default="",
    )
    add("token-file", "file with the tokens that callers must show", "LEDGER_TOKEN_FILE", type=_path, default="")
    add("host", "address to listen on", default="127.0.0.1")
    add("port", "port to listen on", "HTTP_PORT", type=int, default="8081")
    add("hard-stop", "refuse money the budget does not have", default="on", choices=["on", "off"])
    add(
        "calls-per-second", "most calls of each caller; 0: no limit", "LEDGER_CALLS_PER_SECOND", type=float, default="0"
    )
    add("sweep-seconds", "how often expired authorizations are released", type=float, default="5")
    add("log-dir", "folder of the decision log; empty: none is kept", "LEDGER_LOG_DIR", type=_path, default="")
    add("log-seconds", "how often what is new is logged", "LEDGER_LOG_SECONDS", type=float, default="15")
    return parser.parse_args()


def _durability(settings: argparse.Namespace) -> Durability:
    return Durability(
        declared=settings.redis_durability == "declared",
        replicas=settings.redis_replicas,
        witness=settings.witness,
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None


if __name__ == "__main__":
    sys.exit(main())
