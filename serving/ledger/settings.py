"""Settings of programs that open a ledger's store."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from operations.erasure.record import Erasures
from serving.http.tokens import read_secret
from serving.ledger.durability import Durability
from serving.ledger.opening import open_store
from serving.ledger.sqlite.accounts import SqliteAccounts
from serving.ledger.sqlite.peers import Peers
from serving.ledger.store import Store
from serving.settings import Settings, setting
from shadowprice.campaign import Campaign


@dataclass(frozen=True, kw_only=True)
class StoreSettings(Settings):
    """Campaign, store and log of a ledger."""

    campaign_file: Path = setting("campaign as JSON")
    db: Path = setting("sqlite file, made if missing; not used with Redis", Path("ledger.db"))
    redis: str = setting(
        "keep the ledger in Redis instead: redis://host:port/database, or rediss:// with TLS",
        "",
        variable="LEDGER_REDIS",
    )
    redis_password_file: Path | None = setting(
        "file with the password of Redis", None, variable="LEDGER_REDIS_PASSWORD_FILE"
    )
    redis_durability: Literal["checked", "declared"] = setting(
        "declared: the operator vouches for the persistence of a Redis that forbids CONFIG GET",
        "checked",
        variable="LEDGER_REDIS_DURABILITY",
    )
    witness: Path | None = setting(
        "file outside the store that notes how many records there are; empty: none is kept",
        None,
        variable="LEDGER_WITNESS",
    )
    log_dir: Path | None = setting("folder of the decision log; empty: none is kept", None, variable="LEDGER_LOG_DIR")

    def open(
        self, campaign: Campaign, replicas: int = 0, witness: Path | None = None, peers: Peers | None = None
    ) -> Store:
        """Open the store; ``replicas`` must have each record, and a ``witness`` refuses one that lost records.

        Erasures of accounts that a restored backup lacks are made in it first, by the record beside the campaign file.

        ``peers`` are the campaigns of the same process and their files; None where it serves none.

        Raises:
            ShadowpriceError: the store cannot be opened, or is not as durable as these settings demand.
        """
        declared = self.redis_durability == "declared"
        durability = Durability(declared=declared, replicas=replicas, witness=witness)
        password = read_secret(self.redis_password_file)
        erasures = Erasures(self.campaign_file.parent)
        if erasures.every and self.redis:
            from serving.ledger.redis.accounts import RedisAccounts

            RedisAccounts(self.redis, password, campaign.name).erase(erasures)
        elif erasures.every and self.db.exists():
            SqliteAccounts(self.db).erase(erasures)
        return open_store(campaign, self.db, self.redis, password, durability=durability, peers=peers)
