"""``python -m serving.console``: run the console of one campaign."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import REGISTRY

from operations.common.workspace import read_campaign
from serving.client.client import LedgerClient
from serving.console.app import Console, create_app
from serving.console.budget import Questions
from serving.console.login import Provider
from serving.console.portfolio import PortfolioReader
from serving.http.access import check_exposed
from serving.http.limits import SWITCH_SECONDS
from serving.http.logs import quiet_logs
from serving.http.probes import Probes, probing
from serving.http.server import BoundedServer
from serving.http.tokens import Tokens, read_secret
from serving.settings import Settings, setting
from shadowprice.errors import InvalidInput, ShadowpriceError
from shadowprice.lifeline import end_with_parent
from shadowprice.pacing.price_store import PriceStore


@dataclass(frozen=True, kw_only=True)
class ConsoleSettings(Settings, program="serving.console"):
    """The console of one campaign."""

    campaign_file: Path = setting("campaign as JSON")
    ledger_url: str = setting("address of the ledger; SHADOWPRICE_LEDGER_TOKEN_FILE names the tokens to show there")
    prices_dir: Path = setting("folder of the price store")
    log_dir: Path | None = setting("folder of the ledger's decision log; empty: none", None, variable="LEDGER_LOG_DIR")
    workspace: Path | None = setting(
        "folder with model, population and traffic, for questions about other budgets; empty: none",
        None,
        variable="CONSOLE_WORKSPACE",
    )
    lift_file: Path | None = setting("file that the job lift writes; empty: none", None, variable="CONSOLE_LIFT_FILE")
    campaigns: Path | None = setting(
        "folder of the workspaces of all campaigns of the ledger, for the page of the portfolio; empty: none",
        None,
    )
    campaign_names: str = setting("campaigns of that folder to show, separated by commas; empty: all", "")
    token_file: Path | None = setting("file with the tokens of the role view", None, variable="CONSOLE_TOKEN_FILE")
    oidc_issuer: str = setting("address of the OpenID provider that signs people in; empty: tokens alone", "")
    oidc_client_id: str = setting("id of the console at the provider", "")
    oidc_client_secret_file: Path | None = setting("file with the console's secret at the provider", None)
    oidc_allow: str = setting("claim=value of the people who may view, such as groups=budget-owners", "")
    oidc_scope: str = setting("scopes to ask the provider for", "openid email profile")
    public_url: str = setting("address of the console in a browser, for single sign-on", "")
    host: str = setting("address to listen on", "127.0.0.1")
    port: int = setting("port to listen on", 8082, variable="HTTP_PORT")
    probe_port: int = setting("port for probes and metrics alone; 0: none", 0)
    calls_per_second: float = setting(
        "most calls of each caller; 0: no limit", 0.0, variable="CONSOLE_CALLS_PER_SECOND"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; 2 when the configuration is wrong."""
    end_with_parent()
    quiet_logs()
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = ConsoleSettings.parse(arguments)
    try:
        campaign = read_campaign(settings.campaign_file)
        tokens = Tokens.of(settings.token_file)
        check_exposed(settings.host, tokens)
        ledger = LedgerClient(settings.ledger_url, campaign.name)
        console = Console(
            campaign,
            ledger,
            PriceStore(settings.prices_dir),
            log=settings.log_dir,
            lift=settings.lift_file,
            questions=None if settings.workspace is None else Questions.of(settings.workspace),
            portfolio=None
            if settings.campaigns is None
            else PortfolioReader(settings.campaigns, ledger, settings.campaign_names),
        )
        limit = settings.calls_per_second
        app = create_app(console, tokens=tokens, calls_per_second=limit, provider=_provider(settings))
        server = BoundedServer(app, settings.host, settings.port)
        probes = Probes(lambda: server.beat, console.ready, REGISTRY)
        with ledger, probing(settings.host, settings.probe_port, probes):
            server.run()
    except ShadowpriceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _provider(settings: ConsoleSettings) -> Provider | None:
    if not settings.oidc_issuer:
        return None
    secret = read_secret(settings.oidc_client_secret_file)
    if secret is None:
        raise InvalidInput("must name the file with the console's secret", field="--oidc-client-secret-file")
    return Provider(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=secret,
        public_url=settings.public_url,
        allow=settings.oidc_allow,
        scope=settings.oidc_scope,
    )


if __name__ == "__main__":
    sys.exit(main())
