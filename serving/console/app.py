"""Pages of the console over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from serving.console.access import BasicLogin, role_of
from serving.console.arms import arm_rows, read_lift
from serving.console.audit import level_rows, why_of, worth_at
from serving.console.budget import Questions
from serving.console.figures import Drawer, pace
from serving.console.log import DecisionLog, mix_of_cells
from serving.console.login import BY_TOKEN, COOKIE, Provider, SingleSignOn
from serving.console.model_pages import ModelPages, Page, check_name
from serving.console.pages import HEADERS, environment
from serving.console.portfolio import PortfolioReader, facts_of, together_of
from serving.console.state import State, TotalsSource, read_state
from serving.console.workspace import Workspace
from serving.http.access import Access
from serving.http.handler import Application, RequestHandler, in_thread
from serving.http.tokens import Tokens
from serving.http.web import answering, json_response
from shadowprice.campaign import Campaign, places_of
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, InvalidRequest, NotFound, ShadowpriceError
from shadowprice.pacing.price_store import PriceStore
from shadowprice.price import PriceRecord
from shadowprice.reports import money_figures
from shadowprice.reports.headline import campaign_facts
from shadowprice.reports.mix import FILE, mix_csv
from shadowprice.reports.prices import PriceHistory

NEWEST = 50
"""Corrections that are listed one by one."""
LONGEST = 200
"""Characters of a request id."""


class Console:
    """Pages about one campaign. Reads only, and is safe to share between threads.

    ``ledger`` answers with the totals, ``log`` is the folder of the ledger's decision log, and ``questions`` are those
    about other budgets; None: there is no such page. ``lift`` is the file that the job of this name writes, and
    ``portfolio`` reads the other campaigns. The workspace is the folder that the price store lies in.
    """

    def __init__(
        self,
        campaign: Campaign,
        ledger: TotalsSource,
        prices: PriceStore,
        log: Path | None = None,
        questions: Questions | None = None,
        lift: Path | None = None,
        portfolio: PortfolioReader | None = None,
    ) -> None:
        self._campaign = campaign
        self._ledger = ledger
        self._store, self._prices = prices, PriceHistory(prices, campaign.name)
        self._log = None if log is None else DecisionLog(log)
        self._currency = Currency.of(campaign.currency)
        self._lift, self._portfolio = lift, portfolio
        self._workspace = Workspace(prices.root.parent)
        self._drawer = Drawer()
        self.model = ModelPages(campaign, questions, self._drawer, self._log)
        self._templates = environment(self._currency, campaign)

    def campaigns(self, _: Request) -> Page:
        """GET /: every campaign in one line."""
        return "campaigns.html.jinja", {"states": [self._state()]}

    def portfolio(self, _: Request) -> Page:
        """GET /portfolio: campaigns that have money together, what their last unit of money returns, and moves."""
        if self._portfolio is None:
            raise NotFound("this console has no portfolio; start it with --campaigns, the folder of the workspaces")
        state = self._portfolio.read()
        return "portfolio.html.jinja", {"state": state, "facts": facts_of(state), "together": together_of(state)}

    def campaign(self, request: Request) -> Page:
        """GET /campaigns/{name}: spend against plan, prices with reasons, certificate and freshness."""
        check_name(request, self._campaign)
        state = self._state()
        content = (state.newest and state.newest.record.version, state.paid, round(state.hours, 2))
        prices = {} if state.newest is None else state.newest.record.prices
        places = places_of(self._campaign.segments, prices, self._currency) if prices else []
        paced = state.window and not places
        drawn = self._drawer.draw(("pace", content), partial(pace, state, self._currency)) if paced else ""
        facts = campaign_facts(state.campaign, self._currency)
        worth = self._workspace.headline(self._campaign)
        shown = {"state": state, "figure": Markup(drawn), "facts": facts, "worth": worth, "places": places}
        return "campaign.html.jinja", shown

    def mix(self, request: Request) -> Page:
        """GET /campaigns/{name}/mix: who got what, by level, hour and reason."""
        check_name(request, self._campaign)
        return "mix.html.jinja", {"state": self._state(), **self._mixed()}

    def ready(self) -> dict[str, str]:
        """Read the newest price, or raise ``Unavailable``. A ledger that does not answer is shown on the pages."""
        self._store.latest(self._campaign.name)
        return {"status": "ready", "campaign": self._campaign.name}

    def warm(self) -> None:
        """Read the log and draw its pictures, so that the first page of them need not wait."""
        with suppress(ShadowpriceError):
            self._mixed()

    def _mixed(self) -> dict[str, Any]:
        """Sums of the log and their pictures."""
        cells = self._logged().cells()
        values: dict[str, Any] = {"sides": [], "log": None}
        if len(cells):
            mix, start = mix_of_cells(cells, self._campaign)
            names: dict[str, tuple[str, ...]] = {
                side: terms.names(self._currency) for side, terms in self._campaign.sides.items()
            }
            unit = "money" if self._currency.symbol else self._currency.major
            figures = {
                side: Markup(
                    self._drawer.draw(
                        ("mix", side, int(mix.requests.sum()), int(mix.cost.sum()), float(mix.responses.sum())),
                        partial(money_figures.mix, mix, side, names.get(side, ()), unit),
                    )
                )
                for side in mix.sides()
            }
            reasons = cells.groupby(["side", "reason"], as_index=False)[["requests", "responses", "cost"]].sum()
            values |= {
                "mix": mix,
                "start": start,
                "sides": mix.sides(),
                "figures": figures,
                "reasons": {side: rows.to_dict("records") for side, rows in reasons.groupby("side")},
                "log": {name: int(cells[name].sum()) for name in ("requests", "outcomes", "cost")},
            }
        return values

    def mix_file(self, request: Request) -> Response:
        """GET /campaigns/{name}/mix.csv: the cells of the mix."""
        check_name(request, self._campaign)
        cells = self._logged().cells()
        if not len(cells):
            raise NotFound("the log has no request yet")
        mix, _ = mix_of_cells(cells, self._campaign)
        named = {"content-disposition": f'attachment; filename="{FILE}"'}
        return Response(mix_csv(mix), headers=HEADERS | named, media_type="text/csv")

    def arms(self, request: Request) -> Page:
        """GET /campaigns/{name}/arms: the arms of the experiment, and the lift that was written last."""
        check_name(request, self._campaign)
        if self._campaign.experiment is None:
            raise NotFound("this campaign has no experiment; name its arms")
        lift = None if self._lift is None else read_lift(self._lift, self._campaign)
        rows = arm_rows(self._campaign, self._logged().cells())
        return "arms.html.jinja", {"state": self._state(), "rows": rows, "lift": lift}

    def changes(self, request: Request) -> Page:
        """GET /campaigns/{name}/changes: who reported and corrected outcomes, published prices and changed models."""
        check_name(request, self._campaign)
        return "changes.html.jinja", {
            "state": self._state(),
            "models": self._workspace.models(),
            "steps": self._workspace.canary_steps(),
            **self._logged().changes(NEWEST),
        }

    def requests(self, request: Request) -> Page:
        """GET /campaigns/{name}/requests?request_id=…: all that is recorded of one request, or of an account."""
        check_name(request, self._campaign)
        asked = request.query_params.get("request_id", "").strip()
        values: dict[str, Any] = {"state": self._state(), "asked": asked, "found": None, "missing": "", "rows": []}
        if len(asked) > LONGEST:
            raise InvalidRequest(f"must have at most {LONGEST} characters", field="request_id")
        if asked:
            try:
                audited = self._logged().audit(asked)
            except NotFound as error:
                rows = self._logged().of_account(asked, NEWEST)
                return "request.html.jinja", values | {"missing": "" if rows else str(error), "rows": rows}
            made = audited.decision
            price, at = self._price(int(made["price_version"])), made["features_at"] or made["decided_at"]
            curve = self._workspace.curve(
                made["model_version"], made["side"], made["account_id"], made["context"] or ""
            )
            worth = self._workspace.worth(self._campaign, made["side"], made["account_id"])
            levels = []
            if curve is not None and price is not None:
                amounts = self._workspace.amounts(self._campaign, made["model_version"], made["side"])
                guards = self._workspace.guards(self._campaign, made["model_version"], made["side"])
                passed_on = self._workspace.influence(self._campaign, made["side"], made["account_id"])
                levels = level_rows(self._campaign, made, curve, price, worth, amounts, guards, passed_on)
            values |= {
                "found": audited,
                "price": price,
                "why": why_of(self._campaign, made, levels, price, self._currency, worth),
                "features": self._workspace.features(made["side"], made["account_id"], at),
                "levels": levels,
                "worth": worth_at(worth, made["level"]),
            }
        return "request.html.jinja", values

    def answer(self, page: Callable[[Request], Page | Response], request: Request) -> Response:
        """Return a page as HTML; a deliberate error as a page with its status."""
        try:
            made = page(request)
            if isinstance(made, Response):
                return made
            status, (template, values) = 200, made
        except ShadowpriceError as error:
            status, template, values = error.status, "error.html.jinja", {"error": str(error)}
        text = self._templates.get_template(template).render(
            dict(
                values,
                campaign=self._campaign,
                has_model=self.model.questions is not None,
                has_portfolio=self._portfolio is not None,
                has_places=bool(self._campaign.segments),
                has_arms=self._campaign.experiment is not None,
                caller=request.scope["caller"],
                signs_out=COOKIE in request.cookies,
            )
        )
        return Response(text, status, HEADERS, "text/html")

    def _state(self) -> State:
        return read_state(self._campaign, self._ledger, self._prices)

    def _price(self, version: int) -> PriceRecord | None:
        return next((record for record in self._prices.records() if record.version == version), None)

    def _logged(self) -> DecisionLog:
        if self._log is None:
            raise NotFound("this console has no decision log; start it with --log-dir, the ledger's folder")
        return self._log


def create_app(
    console: Console,
    *,
    tokens: Tokens | None = None,
    calls_per_second: float = 0.0,
    provider: Provider | None = None,
) -> Application:
    """Return the application of a campaign's console.

    ``tokens`` are those of which callers must show one with the role ``view``, and ``calls_per_second`` is the rate of
    each caller. ``provider`` signs people in; it needs ``tokens`` beside it.
    """
    if provider is not None and tokens is None:
        raise InvalidInput("must name a file: the way in while the provider is down", field="--token-file")

    @asynccontextmanager
    async def warming(_: FastAPI) -> AsyncIterator[None]:
        warmed = asyncio.ensure_future(run_in_threadpool(console.warm))
        yield
        warmed.cancel()

    app = FastAPI(
        title="shadowprice console",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=warming,
    )
    for route, page in (
        ("/", console.campaigns),
        ("/portfolio", console.portfolio),
        ("/campaigns/{name}", console.campaign),
        ("/campaigns/{name}/mix", console.mix),
        ("/campaigns/{name}/mix.csv", console.mix_file),
        ("/campaigns/{name}/budget", console.model.budget),
        ("/campaigns/{name}/arms", console.arms),
        ("/campaigns/{name}/curves", console.model.curves),
        ("/campaigns/{name}/changes", console.changes),
        ("/campaigns/{name}/requests", console.requests),
    ):
        app.add_api_route(route, answering(_endpoint(console, page)), methods=["GET"])

    async def healthz(_: Request) -> Response:
        return json_response({"status": "alive"})

    async def readyz(request: Request) -> Response:
        try:
            return json_response(await in_thread(request, console.ready))
        except ShadowpriceError as error:
            return json_response({"error": str(error)}, error.status)

    app.add_api_route("/healthz", healthz, methods=["GET"])
    app.add_api_route("/readyz", readyz, methods=["GET"])
    # A browser that was asked for a token at this page shows it here.
    app.add_api_route(BY_TOKEN, lambda: RedirectResponse("/"), methods=["GET"])
    app.add_api_route("/campaigns", lambda: RedirectResponse("/"), methods=["GET"])
    by_token = BasicLogin(RequestHandler(app, {}, Access(role_of, tokens, calls_per_second)))
    return by_token if provider is None else SingleSignOn(by_token, provider)


def _endpoint(console: Console, page: Callable[[Request], Page | Response]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await in_thread(request, partial(console.answer, page, request))

    return endpoint
