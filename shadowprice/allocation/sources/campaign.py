"""The requests that a campaign expects, as one problem whose matrices are made from curves a tile at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shadowprice.allocation.problem.problem import Problem
from shadowprice.allocation.sources.rows import Money, Part
from shadowprice.allocation.sources.side import SideSource
from shadowprice.campaign import SIDES, Campaign, Side
from shadowprice.curves import Curves
from shadowprice.errors import InvalidProblem


class CampaignProblem:
    """The rest of a campaign's window over all its accounts; the whole matrices never exist.

    Args:
        campaign: terms and form of the budget.
        curves: side → curves of its accounts, in memory or mapped from files.
        requests: side → (N,), requests expected of each account; one each by default.
        parts: shares of these requests that are in other periods; by default there is one. Each account has a column
            in each part.

    ``resources`` is the campaign's own limit, or the money in hand where that is set.

    Raises:
        InvalidProblem: no accounts, or curves whose levels are not the campaign's.
    """

    def __init__(
        self,
        campaign: Campaign,
        curves: Mapping[Side, Curves],
        requests: Mapping[Side, NDArray[np.float64]] | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        self.resources = Money(campaign, campaign.budget.limit if campaign.budget.form == "total" else 0.0)
        present: list[Side] = [side for side in SIDES if side in curves and curves[side].accounts]
        if not present:
            raise InvalidProblem("there is no request to allocate to", field="curves")
        for side in present:
            if tuple(curves[side].levels.tolist()) != campaign.terms(side).levels:
                raise InvalidProblem(f"levels of side {side!r} differ from the campaign's", field="curves")
        depth = max(curves[side].levels.size for side in present)
        masked = any(curves[side].levels.size < depth or curves[side].allowed is not None for side in present)
        own_parts = parts or [Part(dict.fromkeys(present, 1.0))]
        names = list(dict.fromkeys(name for part in own_parts for name in part.rows))
        paid = {side: campaign.terms(side).expected_unit_costs(curves[side].amounts) for side in present}
        self.sources = [
            SideSource(
                campaign,
                side,
                curves[side].response,
                part.shares[side] * (np.ones(curves[side].accounts) if requests is None else requests[side]),
                paid[side],
                depth,
                0,
                curves[side].accounts,
                masked,
                curves[side].path,
                curves[side].bits,
                curves[side].allowed,
                curves[side].granted,
                curves[side].worth,
                curves[side].guards,
                rows={name: part.rows.get(name, -1) for name in names},
                influence=curves[side].influence,
            )
            for part in own_parts
            for side in present
            if part.shares.get(side, 0.0) > 0
        ]

    def net_of(self, least: float) -> None:
        """Take ``least`` of a unit of cost off every value."""
        self.sources = [replace(source, least=least) for source in self.sources]

    @property
    def identity(self) -> object:
        """This very object."""
        return self

    @property
    def accounts(self) -> int:
        """Number of accounts N of all sides."""
        return sum(source.accounts for source in self.sources)

    @property
    def places(self) -> list[slice]:
        """Columns of each source."""
        ends = np.cumsum([0, *(source.accounts for source in self.sources)]).tolist()
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    def whole(self) -> Problem:
        """The problem with its matrices in memory (S0 eq. 16–18); O(J·N) float64."""
        parts = [source.arrays(np.s_[:], source.names) for source in self.sources]
        arrays = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        return Problem(arrays["value"], self.resources(arrays), arrays.get("allowed"))

    def shards(self, count: int) -> Sequence[SideSource]:
        """Parts of neighboring accounts of one side each, customers first; ``count`` or one more."""
        parts: list[SideSource] = []
        for source in self.sources:
            share = min(max(1, round(count * source.accounts / self.accounts)), source.accounts)
            ends = np.linspace(0, source.accounts, share + 1).astype(int).tolist()
            parts += [replace(source, start=start, stop=stop) for start, stop in itertools.pairwise(ends)]
        return parts
