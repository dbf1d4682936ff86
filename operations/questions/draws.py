"""Propose how explored requests draw their level: near the price, at the loss of uniform draws."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from operations.common.workspace import PRICES
from operations.measure import before_start
from operations.questions.question import open_what_if
from shadowprice.campaign import Campaign, Side
from shadowprice.campaign.draws import FIELD
from shadowprice.currency import Currency
from shadowprice.errors import InvalidInput, NotCertified, NotFound
from shadowprice.pacing.exploration import Draws, draws_at, near_the_price
from shadowprice.pacing.history import Traffic
from shadowprice.pacing.price_store import PriceStore


@dataclass(frozen=True)
class ProposedDraws:
    """Draws near the price beside uniform ones that are expected to lose as much.

    campaign  with the proposed share and weights
    uniform   side → draws of the campaign with the share asked about and without weights
    near      side → draws of ``campaign``
    share     that was asked about
    """

    campaign: Campaign
    uniform: Mapping[Side, Draws]
    near: Mapping[Side, Draws]
    share: float

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the campaign that run the proposal."""
        return {
            "exploration": self.campaign.exploration,
            FIELD: {side: dict(weights) for side, weights in self.campaign.exploration_weights.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        draws = {"uniform": self.uniform, "near": self.near}
        of_sides = {name: {side: asdict(each) for side, each in sides.items()} for name, sides in draws.items()}
        return {"campaign": self.campaign.name, "share": self.share, "fields": self.fields, **of_sides}

    def page(self) -> Iterator[str]:
        """Lines of Markdown; the block at the end is the YAML to paste."""
        campaign = self.campaign
        currency = Currency.of(campaign.currency)
        yield f"# Exploration of campaign {campaign.name}"
        yield ""
        yield (
            f"{campaign.exploration:.1%} of the requests can draw a level near the price for the expected loss of "
            f"{self.share:.1%} uniform draws."
        )
        yield ""
        yield "| side | draws | requests that draw | value lost | levels compared | rows that the comparison is worth |"
        yield "|---|---|---|---|---|---|"
        for side in self.near:
            names = campaign.terms(side).names(currency)
            for name, draw in (("uniform", self.uniform[side]), ("near the price", self.near[side])):
                pair = " and ".join(names[level] for level in draw.levels)
                lost = campaign.told_in * draw.lost
                yield f"| {side} | {name} | {draw.requests:,.0f} | {lost:,.4g} | {pair} | {draw.effective_rows:,.0f} |"
        yield ""
        if not campaign.exploration_weights:
            yield "No weights tell more at this loss than uniform draws do."
            yield ""
        yield "Put these fields into the campaign file, or into `campaignFields` of the chart:"
        yield ""
        yield "```yaml"
        yield f"exploration: {campaign.exploration}"
        yield f"{FIELD}:" if campaign.exploration_weights else f"{FIELD}: {{}}"
        for side, weights in self.fields[FIELD].items():
            yield f"  {side}: {json.dumps(weights)}"
        yield "```"


def propose_draws(workspace: Path, share: float) -> ProposedDraws:
    """Propose share and weights of draws for the window of a workspace's campaign, at its newest price.

    Args:
        workspace: folder with campaign, model, population, traffic and prices.
        share: of the requests that uniform draws would take; it sets the loss.

    Raises:
        InvalidInput: a share that is not inside (0, 1), a campaign that is a delivery, or draws that cost more than the
            budget.
        NotFound: no published price, or no population of the model.
    """
    if not 0 < share < 1:
        raise InvalidInput(f"must lie between 0 and 1, got {share:g}", field="explore")
    asked = open_what_if(workspace)
    price = PriceStore(workspace / PRICES).latest(asked.campaign.name, verified_only=True)
    if price is None:
        raise NotFound(f"{workspace / PRICES} has no price of {asked.campaign.name!r}; run `shadowprice resolve` first")
    remaining = before_start(asked.campaign, Traffic.load(workspace)).remaining
    ahead = {side: float(remaining[side].sum()) for side in asked.population}
    curves = {side: people.curves for side, people in asked.population.items()}
    plain = replace(asked.campaign, exploration=share, exploration_weights={})
    found = near_the_price(plain, curves, ahead, price, share)
    try:
        status = open_what_if(workspace, campaign=found).solver.ask().status
    except NotCertified:
        status = "infeasible"
    if status != "optimal":
        raise InvalidInput(
            f"lets {found.exploration:.1%} of the requests explore, which costs more than the budget; ask for less",
            field="explore",
        )
    return ProposedDraws(found, draws_at(plain, curves, ahead, price), draws_at(found, curves, ahead, price), share)
