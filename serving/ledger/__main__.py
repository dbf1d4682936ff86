"""``python -m serving.ledger``: run the ledger of one campaign, or those of several."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from operations.common.workspace import campaign_files, read_campaign
from serving.http.access import check_exposed
from serving.http.draining import DRAINING, DrainingServer
from serving.http.limits import SWITCH_SECONDS
from serving.http.logs import quiet_logs
from serving.http.probes import Probes, probing
from serving.http.tokens import Tokens
from serving.ledger.api.app import Background, Ledgers, serve
from serving.ledger.api.ledger import Ledger, Trouble
from serving.ledger.background import checking, sweeping
from serving.ledger.durability import ONE_IF_ANY
from serving.ledger.settings import StoreSettings
from serving.ledger.sqlite.peers import Peers
from serving.ledger.store import Store
from serving.settings import setting
from shadowprice.campaign import Campaign
from shadowprice.errors import ShadowpriceError
from shadowprice.lifeline import end_with_parent
from shadowprice.limits import check_alike
from shadowprice.watch.verdict import FILE

COLLECT_AFTER = 50_000
"""New objects after which Python searches them for garbage in cycles; a call of 1,000 rows makes some 10,000."""


@dataclass(frozen=True, kw_only=True)
class LedgerSettings(StoreSettings, program="serving.ledger"):
    """The ledger of one campaign, or those of several.

    With ``campaigns``, ``db``, ``log_dir`` and ``witness`` are folders.
    """

    campaign_file: Path = setting("campaign as JSON", Path())
    campaigns: Path | None = setting(
        "folder of workspaces, each with a campaign.json: the ledgers of all of them", None
    )
    campaign_names: str = setting("campaigns of that folder to keep, separated by commas; empty: all", "")
    redis_replicas: int = setting(
        "replicas of Redis that must have each record before it is answered; -1: one while Redis has any",
        ONE_IF_ANY,
        variable="LEDGER_REDIS_REPLICAS",
    )
    token_file: Path | None = setting("file with the tokens that callers must show", None, variable="LEDGER_TOKEN_FILE")
    host: str = setting("address to listen on", "127.0.0.1")
    port: int = setting("port to listen on", 8081, variable="HTTP_PORT")
    probe_port: int = setting("port for probes and metrics alone; 0: none", 0)
    hard_stop: Literal["on", "off"] = setting("refuse money the budget does not have", "on")
    calls_per_second: float = setting("most calls of each caller; 0: no limit", 0.0, variable="LEDGER_CALLS_PER_SECOND")
    sweep_seconds: float = setting("how often expired authorizations are released", 5.0)
    log_seconds: float = setting("how often what is new is logged", 15.0, variable="LEDGER_LOG_SECONDS")
    drain_seconds: float = setting(
        "after SIGTERM, how long calls are still answered while the ledger is not ready",
        0.0,
        variable="LEDGER_DRAIN_SECONDS",
    )

    def of(self, campaign: str) -> LedgerSettings:
        """Return the settings of one campaign's ledger, with files of its own in the folders of several."""
        if self.campaigns is None:
            return self
        log, witness = self.log_dir, self.witness
        return replace(
            self,
            db=self.db / f"{campaign}.db",
            log_dir=log and log / campaign,
            witness=witness and witness / f"{campaign}.json",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = LedgerSettings.parse(arguments)
    background: list[Background] = []
    ledgers: list[Ledger] = []
    with ExitStack() as opened:
        try:
            files = campaign_files(settings.campaign_file, settings.campaigns, settings.campaign_names)
            campaigns = {file: read_campaign(file) for file in files}
            check_alike({terms.name: terms.limits for terms in campaigns.values()})
            tokens = Tokens.of(settings.token_file)
            check_exposed(settings.host, tokens)
            peers = Peers({terms.name: settings.of(terms.name).db for terms in campaigns.values()})
            for file, campaign in campaigns.items():
                own = replace(settings.of(campaign.name), campaign_file=file)
                if not own.redis:
                    peers.check(campaign)
                store = own.open(campaign, own.redis_replicas, own.witness, peers)
                opened.callback(store.close)
                ledgers.append(_ledger(store, campaign, file, own, background))
        except ShadowpriceError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except ModuleNotFoundError as error:
            print(f"error: --log-dir needs {error.name}; install shadowprice[tables]", file=sys.stderr)
            return 2
        # The application closes the stores.
        opened.pop_all()
    kept = Ledgers(ledgers)
    app = serve(kept, tokens=tokens, calls_per_second=settings.calls_per_second, background=background)
    # What is alive now stays, and the rows of a call are no garbage: the defaults walk every module and row again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    try:
        server = DrainingServer(app, settings.host, settings.port, settings.drain_seconds)
        for ledger in ledgers:
            ledger.troubles.append(lambda: DRAINING if server.draining else None)
        with probing(settings.host, settings.probe_port, Probes(lambda: server.beat, kept.check_ready, kept.registry)):
            server.run()
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _ledger(
    store: Store, campaign: Campaign, file: Path, settings: LedgerSettings, background: list[Background]
) -> Ledger:
    """Return a campaign's ledger, and add what runs beside it to ``background``."""
    volumes = {} if settings.redis else {"store": settings.db.parent}
    background += [partial(sweeping, store, settings.sweep_seconds), partial(checking, store, settings.sweep_seconds)]
    troubles: list[Trouble] = []
    if settings.log_dir:
        # Parquet costs a second of the start; a ledger without a log does not need it.
        from serving.ledger.log import LogWriter, logged

        volumes["log"] = settings.log_dir
        writer = LogWriter(store, settings.log_dir)
        writer.check()
        background.append(partial(logged, writer, settings.log_seconds))
        troubles.append(lambda: writer.trouble)
    return Ledger(store, campaign, settings.hard_stop == "on", volumes, troubles, file.parent / FILE)


if __name__ == "__main__":
    sys.exit(main())
