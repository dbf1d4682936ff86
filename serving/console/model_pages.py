"""Pages of the console that ask the model of a campaign."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request

from serving.console.budget import Questions, change_of, sizes_and_fees
from serving.console.curves import side_curves
from serving.console.figures import Drawer
from serving.console.figures import curves as figures_of_curves
from serving.console.log import DecisionLog
from shadowprice.campaign import Campaign
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, NotFound
from shadowprice.reports import money_figures
from shadowprice.reports.headline import lowest, unit_of

Page = tuple[str, Mapping[str, Any]]
"""Name of a template, and its values."""


def check_name(request: Request, campaign: Campaign) -> None:
    """Raise :class:`NotFound` unless a request is about this campaign."""
    name = request.path_params["name"]
    if name != campaign.name:
        raise NotFound(f"campaign {name!r} is not kept here; this is {campaign.name!r}")


class ModelPages:
    """Pages about other budgets and about curves; ``questions`` are None where the console has no model."""

    def __init__(
        self, campaign: Campaign, questions: Questions | None, drawer: Drawer, log: DecisionLog | None
    ) -> None:
        self.questions = questions
        self._campaign, self._drawer, self._log = campaign, drawer, log
        self._currency = Currency.of(campaign.currency)

    def budget(self, request: Request) -> Page:
        """GET /campaigns/{name}/budget: the campaign solved under other terms, and its budget curve."""
        check_name(request, self._campaign)
        if self.questions is None:
            raise NotFound("this console has no model to ask; start it with --workspace")
        if self._campaign.segments:
            return self._places(self.questions, request.query_params)
        opened, query = self.questions.open(), request.query_params
        factor = self._campaign.told_in
        current, answers, problem = opened.current.times(factor), {}, ""
        try:
            with self.questions.asking():
                change = change_of(query, opened.question, self._currency)
                if change is not None:
                    answers["As asked"] = opened.question.solver.ask(change).times(factor)
        except InvalidInput as error:
            problem = str(error)
        unit = unit_of(self._campaign, self._currency)
        limit, curve = self._campaign.budget.limit, [point.times(factor) for point in opened.curve]
        drawn = self._drawer.draw(
            ("curve", opened.current.seconds),
            partial(money_figures.budget_curve, curve, limit, unit, self._currency, lowest(self._campaign)),
        )
        return "budget.html.jinja", {
            "current": current,
            "answers": {"Today's": current} | answers,
            "given": query,
            "problem": problem,
            "unit": unit,
            "figure": Markup(drawn),
        }

    def _places(self, questions: Questions, query: QueryParams) -> Page:
        """Page of a delivery planned with other sizes and fees, and its value by the number of places."""
        opened, asked, change, problem = questions.places(), None, None, ""
        try:
            with questions.asking():
                sizes, shares = sizes_and_fees(query, opened.question.campaign)
                if sizes or shares:
                    found = opened.question.ask(sizes, shares)
                    asked, change = found["asked"], found["change"]
        except InvalidInput as error:
            problem = str(error)
        places = sum(entry.demand for entry in opened.question.campaign.segments if not entry.gives_nothing)
        drawn = self._drawer.draw(
            ("places", opened.question.current),
            partial(money_figures.places_curve, opened.curve, places, self._currency),
        )
        return "places.html.jinja", {
            "answers": {"Today's": opened.current} | ({} if asked is None else {"As asked": asked}),
            "change": change,
            "accounts": opened.question.account_id.size,
            "segments": [segment for segment in opened.question.campaign.segments if not segment.gives_nothing],
            "given": query,
            "problem": problem,
            "figure": Markup(drawn),
        }

    def curves(self, request: Request) -> Page:
        """GET /campaigns/{name}/curves: response and hazard by incentive, of groups of accounts."""
        check_name(request, self._campaign)
        if self.questions is None:
            raise NotFound("this console has no model to show; start it with --workspace")
        if self._campaign.segments:
            raise NotFound("a delivery has no curves by incentive; its prices of places are on the first page")
        opened = self.questions.open()
        explored = None if self._log is None else self._log.explored()
        panels = [
            side_curves(side, people, self._campaign, explored) for side, people in opened.question.population.items()
        ]
        figures = {
            panel.side: Markup(
                self._drawer.draw(
                    ("curves", panel.side, opened.current.seconds, str([group.seen for group in panel.groups])),
                    partial(figures_of_curves, panel, self._currency, self._campaign.terms(panel.side)),
                )
            )
            for panel in panels
        }
        return "curves.html.jinja", {"sides": panels, "figures": figures}
