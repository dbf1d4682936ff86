"""``python -m serving.console``: run the console of one campaign."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import uvicorn

from operations.common.workspace import read_campaign
from serving.client.client import LedgerClient
from serving.console.app import create_app
from serving.console.budget import Questions
from serving.http.access import check_exposed
from serving.http.listening import bounds
from serving.http.logs import quiet_logs
from serving.http.tokens import Tokens
from serving.settings import PREFIX, add_setting
from shadowprice.currency import Currency
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import end_with_parent
from shadowprice.pacing.price_store import PriceStore


def main() -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    settings = _settings()
    try:
        campaign = read_campaign(settings.campaign_file)
        tokens = Tokens.of(settings.token_file)
        check_exposed(settings.host, tokens)
        ledger = LedgerClient(settings.ledger_url)
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    app = create_app(
        campaign,
        ledger,
        PriceStore(settings.prices_dir),
        log=settings.log_dir,
        currency=Currency.of(settings.currency),
        tokens=tokens,
        calls_per_second=settings.calls_per_second,
        lift=settings.lift_file,
        questions=None if settings.workspace is None else Questions.of(settings.workspace),
    )
    with ledger:
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
    parser = argparse.ArgumentParser(prog="python -m serving.console", description="The console of one campaign.")

    def add(name: str, help: str, variable: str = "", **options: object) -> None:
        named = {"variable": PREFIX + variable} if variable else {}
        add_setting(parser, os.environ, name, help, **named, **options)

    add("campaign-file", "campaign as JSON", type=Path)
    add("ledger-url", "address of the ledger; SHADOWPRICE_LEDGER_TOKEN_FILE names the tokens to show there")
    add("prices-dir", "folder of the price store", type=Path)
    add("log-dir", "folder of the ledger's decision log; empty: none", "LEDGER_LOG_DIR", type=_path, default="")
    add(
        "workspace",
        "folder with model, population and traffic, for questions about other budgets; empty: none",
        "CONSOLE_WORKSPACE",
        type=_path,
        default="",
    )
    add("lift-file", "file that the job lift writes; empty: none", "CONSOLE_LIFT_FILE", type=_path, default="")
    add("currency", "ISO 4217 code of the campaign's money", default="USD")
    add("token-file", "file with the tokens of the role view", "CONSOLE_TOKEN_FILE", type=_path, default="")
    add("host", "address to listen on", default="127.0.0.1")
    add("port", "port to listen on", "HTTP_PORT", type=int, default="8082")
    add("calls-per-second", "most calls of each caller; 0: no limit", "CONSOLE_CALLS_PER_SECOND", type=float, default=0)
    return parser.parse_args()


def _path(text: str) -> Path | None:
    return Path(text) if text else None


if __name__ == "__main__":
    sys.exit(main())
