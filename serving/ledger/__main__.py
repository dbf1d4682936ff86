"""``python -m serving.ledger``: run the ledger of one campaign."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import uvicorn

from serving.config import PREFIX, add_setting, read_campaign
from serving.ledger.app import create_app
from serving.ledger.database import claim
from serving.logs import quiet_logs
from shadowprice.errors import ShadowpriceError


def main() -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    quiet_logs()
    parser = argparse.ArgumentParser(prog="python -m serving.ledger", description="The ledger of one campaign.")
    add_setting(parser, os.environ, "db", "sqlite file, made if missing", type=Path)
    add_setting(parser, os.environ, "campaign-file", "campaign as JSON", type=Path)
    add_setting(parser, os.environ, "host", "address to listen on", default="127.0.0.1")
    port = PREFIX + "HTTP_PORT"
    add_setting(parser, os.environ, "port", "port to listen on", type=int, default="8081", variable=port)
    add_setting(
        parser, os.environ, "hard-stop", "refuse money the budget does not have", default="on", choices=["on", "off"]
    )
    settings = parser.parse_args()
    try:
        campaign = read_campaign(settings.campaign_file)
        lock = claim(settings.db)
        app = create_app(settings.db, campaign, hard_stop=settings.hard_stop == "on")
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_keep_alive=65,
            timeout_graceful_shutdown=5,
        )
    finally:
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
