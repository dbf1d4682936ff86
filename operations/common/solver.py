"""Solves the price of a campaign from the model and the ledger of its workspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from operations.common.to_come import requests_to_come
from operations.common.workspace import (
    FEATURES,
    MODEL,
    POPULATION,
    PRICES,
    VERSIONS,
    read_campaign,
    read_columns,
    watch_alarms,
)
from shadowprice.allocation.executors import Executor
from shadowprice.allocation.spend_ratio import HeldOutSpend
from shadowprice.campaign import Side
from shadowprice.campaign.session import SESSION
from shadowprice.curves import Curves
from shadowprice.errors import Conflict, NotFound
from shadowprice.learning.bundle import OUTCOMES, SPEND, read_meta
from shadowprice.limits.attributes import Attributes
from shadowprice.limits.coverage import Context, Coverage, SideRequests, other_side
from shadowprice.pacing.canary import PRICES as CANARY_PRICES
from shadowprice.pacing.pacers import BEFORE, CampaignState, make_pacer, scheduled_slot
from shadowprice.pacing.population import read_population
from shadowprice.pacing.price_rules import newest_usable
from shadowprice.pacing.price_store import PriceStore
from shadowprice.pacing.resolve import Resolution
from shadowprice.pacing.state import PricingState
from shadowprice.responses.integrity import check_offers
from shadowprice.responses.layers.heads import Head, curves_of, learns_amounts, load_heads
from shadowprice.responses.layers.own import load_encoders
from shadowprice.responses.layers.request import account_vectors, embed_requests, reads_partners
from shadowprice.responses.layers.tower import load_towers, stored_defaults

if TYPE_CHECKING:
    from feature_repo.online import OnlineReader

READ = 10_000
"""Accounts that are read from the online store at a time."""


@contextmanager
def executor_of(workers: int) -> Iterator[Executor | None]:
    """Ray actors, which end with the block; None for 0. Raises :class:`MissingExtra` where Ray is not installed."""
    if not workers:
        yield None
        return
    from shadowprice.allocation.executors.ray import RayExecutor

    with RayExecutor(workers) as executor:
        yield executor


class Solver:
    """Solves for one workspace; what takes long to open is opened once, the feature store only where it is needed.

    workspace  folder with campaign.json, model/, population/, features/ and prices/
    on_alarm   pacer that sets the price while the watch alarms on the registered model; empty: the campaign's

    canary     version of a model on trial to solve for; empty: the registered model
    prices     prices to go on from; None: those of the workspace, or of the canary

    The moments of prices are those of the campaign's pacer in either case.
    """

    def __init__(self, workspace: Path, on_alarm: str = "", canary: str = "", prices: PriceStore | None = None) -> None:
        self.campaign = read_campaign(workspace)
        self.pacer = make_pacer(self.campaign.pacer)
        # Resolved once, so that version and heads belong together even if the link moves meanwhile.
        model = (workspace / VERSIONS / canary if canary else workspace / MODEL).resolve()
        meta = read_meta(model)
        check_offers(self.campaign, meta)
        self.model_version = str(meta["model_version"])
        self.spend = {side: HeldOutSpend.from_dict(own) for side, own in meta.get(SPEND, {}).items()}
        self.bounds = {
            side: {name: np.array(each, dtype=np.float64).T[1:] for name, each in own.items()}
            for side, own in meta.get(OUTCOMES, {}).items()
        }
        self.heads: Mapping[Side, Head] = load_heads(model)
        self._towers, self._encoders = load_towers(model), load_encoders(model)
        self._defaults = stored_defaults(self.heads, self._towers)
        self._widths = {side: default.size for side, default in self._defaults.items()}
        self.prices = prices or PriceStore(workspace / PRICES / CANARY_PRICES if canary else workspace / PRICES)
        self._features, self._workspace = workspace / FEATURES, workspace
        self._coverage = self.campaign.coverage(read_columns(self.campaign, workspace))
        self._population = read_population(workspace / POPULATION / self.model_version, self.heads)
        self._price = self.pacer.price
        alarmed = watch_alarms(workspace, self.campaign.name, self.model_version)
        if alarmed:
            self.campaign = self.campaign.in_doubt()
        if on_alarm:
            # Made also without an alarm, so that a wrong name is found at once.
            safe = make_pacer(on_alarm)
            if alarmed:
                print(f"the watch alarms on model {self.model_version}: pacer {on_alarm!r} sets the price", flush=True)
                self._price = safe.price

    @cached_property
    def _reader(self) -> OnlineReader:
        # Imported here: compiling a pipeline imports this module, and Feast takes two seconds.
        from feature_repo.online import OnlineReader

        return OnlineReader(self._features, self.model_version, self._widths)

    def curves(
        self,
        side: Side,
        account_id: NDArray[np.str_],
        partner_id: NDArray[np.str_] | None = None,
        context: Context | None = None,
    ) -> Curves:
        """Curves (J, n) of requests as the predictor computes them.

        Without partners and context, or for a model that reads none, they are those of the stored requests.
        """
        head, tower = self.heads[side], self._towers.get(side)
        partners = np.full(account_id.size, "") if partner_id is None else partner_id
        named = reads_partners(tower, side, self.heads, partners.tolist())
        theirs = self._vectors(cast(Side, other_side(side)), partners[named])[:2] if named.any() else None
        columns = {name: list(values) for name, values in (context or {}).items()}
        embedding = embed_requests(tower, self._vectors(side, account_id)[0], columns, named, theirs)
        return curves_of(head, embedding)

    @property
    def samples(self) -> dict[Side, Curves]:
        """Curves of the accounts of each side that the model was published with."""
        return {side: stored.curves for side, stored in self._population.items()}

    def listed(self, side: Side, account_id: pa.StringArray) -> tuple[Curves, NDArray[np.bool_]]:
        """Curves (J, n) of accounts without partner and context, and whether the model has an embedding of each.

        Accounts that came after the training are read from the online store.
        """
        head, stored = self.heads[side], self._population.get(side)
        one, shape = head.amounts(head.default_embedding[None]), (2, head.levels.size, len(account_id))
        amounts = None if one is None else np.broadcast_to(one, shape)
        if stored is None:
            response = np.empty(shape[1:], dtype=np.float32)
            new, known = np.arange(len(account_id)), np.zeros(len(account_id), dtype=np.bool_)
        else:
            place = pc.index_in(account_id, value_set=stored.account_id.combine_chunks())
            known = np.array(place.is_valid())
            rows, new = np.asarray(place.fill_null(0)), np.flatnonzero(~known)
            response = np.take(stored.curves.response, rows, axis=1)
        own = learns_amounts(head)
        if own:
            kept = None if stored is None else stored.curves.amounts
            amounts = np.empty(shape, dtype=np.float32) if kept is None else np.take(kept, rows, axis=-1)
        for start in range(0, new.size, READ):
            some = new[start : start + READ]
            vectors, _, embedded = self._vectors(side, np.array(account_id.take(pa.array(some)).to_pylist()))
            bare = np.zeros(some.size, dtype=np.bool_)
            curves = curves_of(head, embed_requests(self._towers.get(side), vectors, {}, bare, None))
            response[:, some] = curves.response
            if own and amounts is not None:
                amounts[..., some] = curves.amounts
            known[some] = embedded
        return Curves(head.levels, response, amounts=amounts, guards=head.guards), known

    def _vectors(
        self, side: Side, account_id: NDArray[np.str_]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the vectors of accounts, from the online store, which are no default, and which are embeddings."""
        names, place = np.unique(account_id, return_inverse=True)
        stored, _ = self._reader.embeddings(side, names.tolist())
        known, encoded = np.asarray(np.isfinite(stored).all(axis=1)), None
        if side in self._encoders and not known.all():
            cold, encoder = names[~known].tolist(), self._encoders[side]
            profiles = self._reader.profiles(side, cold, encoder.reads)
            encoded = encoder.stored(self._towers.get(side), profiles.columns, len(cold))
            encoded[~np.isfinite(profiles.snapshot_at)] = np.nan
        vectors, informed = account_vectors(stored, known, self._defaults[side], encoded)
        return vectors[place], informed[place], known[place]

    def solve(self, state: PricingState, *, executor: Executor | None = None) -> Resolution:
        """The next price by the campaign's pacer, from the state and the newest price published.

        Raises:
            NotCertified: there is none that may be published.
            Conflict: the moment has a price already, or the pacer keeps the newest.
        """
        now = datetime.now(UTC)
        newest = newest_usable(self.prices.sound(self.campaign.name), self.campaign, now)
        place = scheduled_slot(self.pacer.moments(self.campaign.hours), state.at)
        of_window = newest if newest is not None and newest.window == self.campaign.starts_at else None
        if of_window is not None and place != BEFORE:
            same_model = of_window.model_version == self.model_version
            if same_model and place <= (of_window.slot, of_window.step):
                raise Conflict(f"slot {place[0]}, step {place[1]} has a price already: version {of_window.version}")
        resolution = self._price(
            CampaignState(
                campaign=self.campaign,
                at=state.at,
                slot_and_step=place,
                spend=state.spend,
                remaining=state.remaining,
                curves=lambda: self.requests(state),
                newest=of_window,
                version=self.prices.next_version(self.campaign.name),
                model_version=self.model_version,
                now=now,
                executor=executor,
                accounts=self.accounts,
                held_out_spend=self.spend,
                outcome_bounds=self.bounds,
            )
        )
        if resolution is None:
            raise Conflict(f"pacer {self.campaign.pacer!r} keeps version {newest.version if newest else 0}")
        return resolution

    def coverage(self, requests: Iterable[SideRequests]) -> Coverage:
        """Return the coverage with the columns of accounts that came after the file of columns was written."""
        absent: dict[Side, dict[str, None]] = {}
        for asked in requests if self._coverage.attributes else ():
            for of, lacking, _ in self._coverage.lacking(asked):
                absent.setdefault(of, {}).update(dict.fromkeys(lacking))
        newer = {}
        for of, accounts in absent.items():
            read = self._reader.profiles(of, list(accounts), list(self._coverage.attributes[of].columns))
            newer[of] = Attributes.of(list(accounts), read.columns)
        return replace(self._coverage, newer=newer) if newer else self._coverage

    def accounts(self) -> dict[Side, list[str]]:
        """Names of the accounts of the model, by side."""
        return {side: accounts.account_id.to_pylist() for side, accounts in self._population.items()}

    def requests(self, state: PricingState) -> dict[Side, Curves]:
        """Curves of all accounts, weighted by their requests in the past and in the window so far.

        Accounts that the model did not serve get the curve that the predictor gives them.
        """
        recent = (
            SideRequests(side, names.tolist(), state.partners.get(side, np.zeros(0, str)).tolist())
            for side, names in state.accounts.items()
        )
        asked = requests_to_come(
            self.campaign,
            self._workspace,
            self.coverage(recent),
            self._population,
            state,
            unknown=self.curves,
            by_session=[side for side, tower in self._towers.items() if SESSION in tower.accepts],
        )
        if not asked and not self._population:
            missing = f"{POPULATION}/{self.model_version} holds no account to solve for; register the model again"
            raise NotFound(missing)
        return {side: accounts.curves for side, accounts in asked.items()}
