"""Shared parts of the voucher models: rows with sessions and histories, terms of vouchers, attention over the past."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shadowprice.checks import require
from shadowprice.curves import Curves
from shadowprice.graphs.leaks import check_history, check_past
from shadowprice.graphs.sessions import SessionLog
from shadowprice.responses.state import State
from shadowprice.responses.tabular.minibatch import TabularRows
from shadowprice.responses.tabular.module_model import load_weights, weights
from shadowprice.responses.tabular.network import ResponseModule
from shadowprice.responses.tabular.rows import TabularInputs
from shadowprice.responses.tabular.wdl import MlpModel

HISTORY = 6
"""Past redeemed sessions that are read (S3: R)."""
ATTENTION = 64
CHUNK = 4096
"""Rows whose curves are computed at a time: as many graphs are held at once for every voucher."""

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SessionRows(TabularRows):
    """Rows with ``where`` int64 (n, 3 + R): the properties side by side, so that a step takes them at once."""

    where: Tensor

    @property
    def session(self) -> Tensor:
        """(n,): position of the row's own session in the log, −1 for none."""
        return self.where[:, 0]

    @property
    def position(self) -> Tensor:
        """(n,): which row it is."""
        return self.where[:, 1]

    @property
    def person(self) -> Tensor:
        """(n,): code of its person."""
        return self.where[:, 2]

    @property
    def past(self) -> Tensor:
        """(n, R): positions of past sessions, −1 for none."""
        return self.where[:, 3:]


@dataclass(frozen=True, eq=False)
class Vouchers:
    """The vouchers of a log as codes and numbers: 0 is one that training never saw.

    of_session, of_level    code of each session's voucher (S,), and of each level's (J,)
    session_terms, level_terms  float32 (S, 2), (J, 2): standardized logarithms of minimum spend and discount
    known                   number of vouchers that training knew
    """

    of_session: Index
    of_level: Index
    session_terms: NDArray[np.float32]
    level_terms: NDArray[np.float32]
    known: int

    @classmethod
    def of(cls, log: SessionLog, known: Sequence[str], scale: Sequence[float]) -> Vouchers:
        """Read the vouchers of a log, given the ``known`` ones and mean and deviation of the two terms."""
        session = log.tables.session
        index = pd.Index(known)
        mean, deviation = np.array(scale[:2]), np.array(scale[2:])

        def terms(raw: NDArray[np.float64]) -> NDArray[np.float32]:
            return np.asarray((np.log1p(raw) - mean) / deviation, dtype=np.float32)

        own = session[["min_spend", "discount"]].to_numpy(dtype=np.float64)
        offered = np.array([log.min_spend, log.levels], dtype=np.float64).T.reshape(-1, 2)
        return cls(
            index.get_indexer(pd.Index(session["voucher_id"])).astype(np.int64) + 1,
            index.get_indexer(pd.Index(log.offered)).astype(np.int64) + 1,
            terms(own),
            terms(offered),
            len(known),
        )


@dataclass(frozen=True, eq=False)
class Past:
    """The P past sessions of n rows, row by row.

    row      (P,): which row
    slot     (P,): which place in its history, 0 the latest
    session  (P,): position in the log
    rows     n
    most     R
    """

    row: Index
    slot: Index
    session: Index
    rows: int
    most: int

    @classmethod
    def of(cls, past: Tensor) -> Past:
        """List positions (n, R), −1 for none."""
        table = past.numpy()
        flat = np.flatnonzero(table >= 0)
        row, slot = np.divmod(flat, table.shape[1])
        return cls(row, slot, table.ravel()[flat], table.shape[0], table.shape[1])

    @property
    def count(self) -> Index:
        """(n,): length of each history."""
        return np.bincount(self.row, minlength=self.rows)

    def sum(self, values: Tensor) -> Tensor:
        """(n, D): sums of (P, D) by row."""
        return values.new_zeros(self.rows, values.shape[1]).index_add(0, torch.from_numpy(self.row), values)

    def spread(self, values: Tensor) -> Tensor:
        """(n, R): (P,) values at their places, zeros elsewhere."""
        place = torch.from_numpy(self.row * self.most + self.slot)
        return values.new_zeros(self.rows * self.most).index_copy(0, place, values).view(self.rows, self.most)


class TargetAttention(nn.Module):
    """DIN's attention (Zhou et al., KDD 2018): h = Σ_r w_r·e_r, w_r = unit(e_r, e_T), not normalized.

    The unit reads query, key, their difference and their product through 64 PReLU units. Without a softmax the sum of
    the weights says how much of the past concerns the target at all.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.unit = nn.Sequential(nn.Linear(4 * width, ATTENTION), nn.PReLU(ATTENTION), nn.Linear(ATTENTION, 1))

    def weights(self, keys: Tensor, target: Tensor, past: Past) -> Tensor:
        """(P, 1) of keys (P, D) to targets (n, D)."""
        query = target.index_select(0, torch.from_numpy(past.row))
        relevance: Tensor = self.unit(torch.cat([query, keys, query - keys, query * keys], dim=1))
        return relevance

    def forward(self, keys: Tensor, target: Tensor, past: Past) -> Tensor:
        """(n, D): zeros where there is no past."""
        return past.sum(self.weights(keys, target, past) * keys)


class SessionNetwork(ResponseModule):
    """Base of the modules: rows with sessions → a logit for the voucher at one level."""

    @abstractmethod
    def remember(self, rows: SessionRows) -> Any:
        """Read the past of the rows, which is the same for all levels."""

    @abstractmethod
    def logits(self, rows: SessionRows, level: Tensor, memory: Any) -> Tensor:
        """(n,) at one level of each row."""

    def assigned(self, rows: SessionRows) -> Tensor:
        """(n,)."""
        return self.logits(rows, rows.level, self.remember(rows))


Network = TypeVar("Network", bound=SessionNetwork)


class SessionModel(MlpModel[Network]):
    """A :class:`SessionNetwork` with the sessions that it reads.

    Options beside those of :class:`~shadowprice.responses.tabular.wdl.MlpModel`:
        history: past redeemed sessions read, the latest.
        other_campaigns: whether past sessions of the target's own campaign are left out, as in S3's code.

    The vouchers on offer of the log among its inputs are the levels; a later log must have the same offers.

    A frame's rows name their session (``session_id``) or are the last one of their account; see
    :meth:`SessionLog.locate`.
    """

    places = False  # histories are sorted by numpy
    needs = ("sessions",)

    def __init__(
        self,
        levels: Sequence[int],
        seed: int = 0,
        *,
        history: int = HISTORY,
        other_campaigns: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(levels, seed, **options)
        require(history > 0, "history", "must be at least 1")
        self.history = history
        self.other_campaigns = other_campaigns
        self.known: tuple[str, ...] = ()
        self.scale: tuple[float, ...] = ()
        self._weights: Mapping[str, NDArray[Any]] = {}
        self._log: SessionLog | None = None

    def fit(self, frame: pd.DataFrame) -> Self:
        """Train on ``frame``; vouchers are known by those of its sessions and by the offers."""
        self.check_frame(frame)
        log = self.log()
        place, at = log.locate(frame)
        seen = log.tables.session["voucher_id"].iloc[np.unique(place[place >= 0])]
        self.known = tuple(sorted({*seen, *log.offered}))
        raw = np.log1p(np.array([log.min_spend, log.levels], dtype=np.float64))
        deviation = np.where(raw.std(axis=1) > 1e-6, raw.std(axis=1), 1.0)
        self.scale = (*raw.mean(axis=1).tolist(), *deviation.tolist())
        self.prepare(log, frame, place, at)
        super().fit(frame)
        assert self.network is not None
        self._weights, self._log = weights(self.network), log
        return self

    def prepare(self, log: SessionLog, frame: pd.DataFrame, place: Index, at: Index) -> None:
        """Learn what is learned before the features are read; nothing here."""

    def log(self) -> SessionLog:
        """The sessions, or a clear refusal."""
        self.given.require(self.needs, self.name)
        log = self.given.sessions
        assert log is not None
        same = log.levels == tuple(self.levels.tolist())
        require(same, "sessions", "the vouchers on offer must have the model's levels as discounts")
        return log

    def vouchers(self) -> Vouchers:
        """The log's vouchers as training knew them."""
        return Vouchers.of(self.log(), self.known, self.scale)

    def curve(self, frame: pd.DataFrame) -> Curves:
        """Curves (J, N) of the rows. O(J · nodes of their graphs)."""
        return Curves(self.levels, self._predict(frame, None))

    def at(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """(N,): the response of each row at its own ``level``."""
        level = torch.from_numpy(frame["level"].to_numpy(dtype=np.int64))
        predicted: NDArray[np.float32] = self._predict(frame, level)[0]
        return predicted

    @torch.no_grad()
    def _predict(self, frame: pd.DataFrame, level: Tensor | None) -> NDArray[np.float32]:
        _, network = self._fitted()
        asked = self._rows(frame.assign(level=0, response=0.0), np.ones(len(frame)))
        asked = replace(asked, numeric=asked.numeric.double())
        out = np.empty((self.levels.size if level is None else 1, len(frame)), dtype=np.float32)
        for first in range(0, len(frame), CHUNK):
            chosen = torch.arange(first, min(first + CHUNK, len(frame)))
            rows = asked.take(chosen)
            memory = network.remember(rows)
            for j in range(out.shape[0]):
                at = torch.full_like(chosen, j) if level is None else level[chosen]
                out[j, chosen.numpy()] = torch.sigmoid(network.logits(rows, at, memory)).numpy()
        return out

    def state(self) -> State:
        """Weights, features, and the vouchers there were."""
        inherited = super().state()
        return State(inherited.arrays, {**inherited.meta, "vouchers": list(self.known), "terms": list(self.scale)})

    def restore(self, state: State) -> None:
        """Become the model that gave ``state``; the network is built when sessions are given."""
        self.known, self.scale = tuple(state.meta["vouchers"]), tuple(state.meta["terms"])
        self.inputs = TabularInputs.from_dict(state.meta["inputs"])
        self._weights, self._log = state.arrays, None

    def _fitted(self) -> tuple[TabularInputs, Network]:
        """The features and the network, which holds what it reads of the log: for another log it is built again."""
        if self.inputs is not None and self._weights and (log := self.log()) is not self._log:
            network = self.build(self.inputs).to(self.PRECISION).eval()
            load_weights(network, self._weights)
            self.network, self._log = network, log
        return super()._fitted()

    def _rows(self, frame: pd.DataFrame, weight: NDArray[np.float64]) -> SessionRows:
        rows = super()._rows(frame, weight)
        log = self.log()
        place, at = log.locate(frame)
        past = log.history(frame["account_id"], at, self.history, place if self.other_campaigns else None)
        check_history(log, frame["account_id"], at, past)
        check_past(log, at, past)
        person = pd.factorize(frame["account_id"])[0]
        where = torch.from_numpy(np.column_stack([place, np.arange(len(frame)), person, past]))
        return SessionRows(**vars(rows), where=where)
