"""The solve and publish steps of the hourly re-solve, over what the feature store serves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from feature_repo.online import OnlineReader, publish_price
from feature_repo.store import open_store
from feature_repo.workspace import FEATURES, MODEL, read_campaign
from shadowprice.campaign import Side
from shadowprice.curves import Curves
from shadowprice.errors import Conflict
from shadowprice.files import write_whole
from shadowprice.learning.bundle import read_meta
from shadowprice.pacing.pacers import BEFORE, Standing, due, make_pacer
from shadowprice.pacing.price_rules import check_price, newest_usable
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.state import PricingState
from shadowprice.price import PriceRecord
from shadowprice.responses.layers.heads import Head, load_heads

PRICES = "prices"


class Solver:
    """Solves for one workspace; opening the feature store, which takes seconds, is done once.

    workspace  folder with campaign.json, model/, features/ and prices/
    """

    def __init__(self, workspace: Path) -> None:
        self.campaign = read_campaign(workspace)
        self.pacer = make_pacer(self.campaign.pacer)
        # Resolved once, so that version and heads belong together even if the link moves meanwhile.
        model = (workspace / MODEL).resolve()
        self.model_version = str(read_meta(model)["model_version"])
        self.heads: Mapping[Side, Head] = load_heads(model)
        self.prices = PriceStore(workspace / PRICES)
        self._folder = workspace / FEATURES
        self._reader = OnlineReader(self._folder, self.model_version)

    def curves(self, side: Side, account_id: NDArray[np.str_]) -> Curves:
        """Curves of accounts as the predictor sees them: those it does not know get the default embedding."""
        names, place = np.unique(account_id, return_inverse=True)
        embedding, _ = self._reader.embeddings(side, names.tolist())
        known = np.asarray(np.isfinite(embedding).all(axis=1))[:, None]
        head = self.heads[side]
        complete = np.where(known, embedding, head.default_embedding).astype(np.float32)
        return Curves(head.levels, head.response(complete)).take(place)

    def solve(self, state: PricingState, *, solver: str = "auto") -> Resolution:
        """The next price by the campaign's pacer, from the state and the newest price published.

        Raises:
            NotCertified: there is none that may be published.
            Conflict: the moment has a price already, or the pacer keeps the newest.
        """
        now = datetime.now(UTC)
        newest = newest_usable(self.prices.sound(self.campaign.name), self.campaign, now)
        place = due(self.pacer.moments(self.campaign.hours), state.at)
        of_window = newest if newest is not None and newest.window == self.campaign.starts_at else None
        if of_window is not None and place != BEFORE:
            same_model = of_window.model_version == self.model_version
            if same_model and place <= (of_window.slot, of_window.step):
                raise Conflict(f"slot {place[0]}, step {place[1]} has a price already: version {of_window.version}")
        found = self.pacer.price(
            Standing(
                campaign=self.campaign,
                at=state.at,
                place=place,
                spend=state.spend,
                remaining=state.remaining,
                curves=lambda: self._sampled(state),
                newest=of_window,
                version=self.prices.next_version(self.campaign.name),
                model_version=self.model_version,
                now=now,
                solver=solver,
            )
        )
        if found is None:
            raise Conflict(f"pacer {self.campaign.pacer!r} keeps version {newest.version if newest else 0}")
        return found

    def _sampled(self, state: PricingState) -> dict[Side, Curves]:
        return {side: self.curves(side, accounts) for side, accounts in state.accounts.items() if accounts.size}

    def publish(self, record: PriceRecord) -> PriceRecord:
        """Add the record to the price store, which settles who was first, and point the feature store at it."""
        published = self.prices.publish(check_price(record, self.campaign, datetime.now(UTC)))
        publish_price(open_store(self._folder), published)
        return published


def solve_state(state: Path, workspace: Path, out: Path, *, solver: str = "auto") -> PriceRecord:
    """The solve step: price the state in a file, and write the sealed record to ``out``."""
    record = Solver(workspace).solve(PricingState.load(state), solver=solver).record
    write_whole(out, record.to_json())
    return record


def solve_or_keep(state: Path, workspace: Path, out: Path, *, solver: str = "auto") -> PriceRecord:
    """The solve step of a pipeline: as :func:`solve_state`, but where the moment has its price already that one is
    handed on. Publishing it again changes nothing, so a run that comes twice, or too soon for the pacer, succeeds.
    """
    try:
        return solve_state(state, workspace, out, solver=solver)
    except Conflict as settled:
        newest = PriceStore(workspace / PRICES).latest(read_campaign(workspace).name, verified_only=True)
        if newest is None:
            raise
        print(f"nothing to solve: {settled}", flush=True)
        write_whole(out, newest.to_json())
        return newest


def publish_price_file(price: Path, workspace: Path) -> int:
    """The publish step: publish the record in a file and return its version.

    A record that is in the price store already is taken for published: a step that was stopped between the price store
    and the feature store is tried again.
    """
    record, prices = PriceRecord.from_json(price.read_text()), PriceStore(workspace / PRICES)
    check_price(record, read_campaign(workspace), datetime.now(UTC))
    newest = prices.latest(record.campaign, verified_only=True)
    if newest is None or newest.sha256 != record.sha256:
        prices.publish(record)
    publish_price(open_store(workspace / FEATURES), record)
    return record.version


def publish_or_keep(price: Path, workspace: Path) -> int:
    """The publish step of a pipeline: as :func:`publish_price_file`, but where another solver was first its price
    stands. Two runs at once, such as those of two schedules, both succeed with one price between them.

    Raises:
        Conflict: the price store is behind the feature store; neither was changed.
    """
    try:
        return publish_price_file(price, workspace)
    except Conflict as settled:
        newest = PriceStore(workspace / PRICES).latest(read_campaign(workspace).name, verified_only=True)
        if newest is None:
            raise
        print(f"nothing to publish: {settled}", flush=True)
        # The other one may not have got as far as the feature store.
        publish_price(open_store(workspace / FEATURES), newest)
        return newest.version
