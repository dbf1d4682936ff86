"""Session of a request, read by S3's network when the request is decided; numpy only.

Each person's features and past sessions change when a model is trained, so they are stored. The cart of a request
changes the graph of its session, e_b, and all that follows from it:

    e_b(v)      graph network over the behaviors and voucher v          shadowprice.encoders.voucher_graph
    response_v  head(features ‖ attention over the past ‖ e_b ‖ e_o ‖ scores of the past ‖ terms of v)

The torch network is :mod:`shadowprice.responses.vouchers.dmbgn_network`; a test compares both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign.session import SESSION, SESSION_ACTIONS
from shadowprice.responses.arrays import relu, sigmoid

KIND = "session"
TOP = 1.0 - 1e-6
"""Largest probability whose hazard is scaled."""

Array = NDArray[np.float64]
Behavior = Mapping[str, Any]
"""``item_id``, ``action`` and perhaps ``category``, ``brand`` and ``price_level`` of one cart or order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedSession:
    """Network of S3 with its fitted weights, for the solver and a server without torch, for J vouchers on offer.

    Computes each request alone and in float64, so that a request gives the same curve alone or in a batch.

    tokens     column of a behavior → its known values, a vector each in this order
    kept       most carts and orders that are read, the newest
    nearest    items tied to the voucher
    ratio      share of the nodes that a pooling keeps
    history    R, past sessions that are read
    width      D, of what the head reads; the curve stands in front
    correction added to the log of the hazard
    items      float32 (2, T, I): vectors of tokens, carts then orders
    category   (C + 1,); 0 is a category that training did not know
    vouchers   (J, V): e_o; terms (J, 2)
    relation, relation_bias, root, pool   of the two graph convolutions and their poolings, (2, …)
    first, first_root  weights of the first convolution, which reads more numbers
    out, out_bias      e_b from the readouts of carts and orders
    unit, unit_bias, slope, weight, weight_bias  of the attention
    head       weights and biases in turn
    knots      (M, 2, K): the repair of the response, one map for all vouchers or one each; none where empty
    default_own  (P,): features and past of a person never seen, the mean and none
    """

    tokens: Mapping[str, Sequence[str]]
    kept: tuple[int, int]
    nearest: int
    ratio: float
    history: int
    width: int
    correction: float = 0.0
    items: NDArray[np.float32]
    category: Array
    vouchers: Array
    terms: Array
    first: Array
    first_root: Array
    relation: Array
    root: Array
    relation_bias: Array
    pool: Array
    out: Array
    out_bias: Array
    unit: Array
    unit_bias: Array
    slope: Array
    weight: Array
    weight_bias: Array
    head: tuple[Array, ...]
    knots: Array = field(default_factory=lambda: np.zeros((0, 2, 0)))
    default_own: NDArray[np.float32]

    accepts: ClassVar[tuple[str, ...]] = (SESSION,)
    partner: ClassVar[bool] = False

    def join(
        self, own: NDArray[np.float32], columns: Mapping[str, Sequence[Any]], beside: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the embeddings (n, D) of n requests that have a session: their curves, then zeros.

        O(n · J · behaviors · width²).

        Args:
            own: (n, P), stored features and past of the accounts.
            columns: ``session`` → behaviors of each request, in order of time.
            beside: not read.
        """
        del beside
        embedding = np.zeros((len(own), self.width), dtype=np.float32)
        for row, behaviors in enumerate(columns[SESSION]):
            embedding[row, : len(self.vouchers)] = self.response(own[row], behaviors)
        return embedding

    def response(self, own: NDArray[np.float32], behaviors: Sequence[Behavior]) -> Array:
        """Return the response (J,) of one person to each voucher, given the behaviors before the collection."""
        offers, width = self.vouchers.shape
        target = np.concatenate([self.behavior(behaviors), self.vouchers], axis=1)
        count, person = int(own[-1]), own[:-1].astype(np.float64)
        features, past = np.split(person, [person.size - self.history * 2 * width])
        keys = past.reshape(self.history, 2 * width)[:count]
        read = np.concatenate(
            [
                np.broadcast_to(features, (offers, features.size)),
                self._attended(keys, target),
                target,
                np.broadcast_to(self._scores(keys), (offers, self.history + 3)),
                self.terms,
            ],
            axis=1,
        )
        layers = list(zip(self.head[::2], self.head[1::2], strict=True))
        for weight, bias in layers[:-1]:
            read = relu(read @ weight.T + bias)
        weight, bias = layers[-1]
        return self._repaired(sigmoid((read @ weight.T + bias)[:, 0]))

    def behavior(self, behaviors: Sequence[Behavior]) -> Array:
        """Return e_b (J, V) of a session with each voucher; the bias where nothing was done."""
        read = [
            self._readout(self._nodes(chosen[-most:], action))
            if (chosen := [each for each in behaviors if each["action"] == name])
            else np.zeros((len(self.vouchers), 2 * self.pool.shape[1]))
            for action, (name, most) in enumerate(zip(SESSION_ACTIONS, self.kept, strict=True))
        ]
        encoded: Array = np.concatenate(read, axis=1) @ self.out.T + self.out_bias
        return encoded

    def corrected(self, correction: float) -> Self:
        """Return the network whose hazards are scaled by exp(``correction``)."""
        return replace(self, correction=correction)

    def repaired(self, knots: Array) -> Self:
        """Return the network whose responses are mapped by ``knots``."""
        return replace(self, knots=knots)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that is an array, by name."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return own | {f"head.{place}": value for place, value in enumerate(self.head)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything else, as JSON types."""
        names = ("nearest", "ratio", "history", "width", "correction")
        tokens = [[column, list(values)] for column, values in self.tokens.items()]
        own = {name: getattr(self, name) for name in names}
        return {"kind": KIND, **own, "kept": list(self.kept), "tokens": tokens, "layers": len(self.head)}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Become what gave :meth:`arrays` and :meth:`to_dict`."""
        names = {entry.name for entry in fields(cls)}
        own = {name: value for name, value in meta.items() if name in names}
        own |= {"kept": tuple(meta["kept"]), "tokens": dict(meta["tokens"])}
        own |= {name: value for name, value in arrays.items() if name in names}
        return cls(**own, head=tuple(arrays[f"head.{place}"] for place in range(meta["layers"])))

    @cached_property
    def _places(self) -> dict[str, dict[str | None, int]]:
        """Column → value → token."""
        ends = np.cumsum([0, *map(len, self.tokens.values())]).tolist()
        return {
            column: dict(zip(values, range(first, end), strict=True))
            for (column, values), (first, end) in zip(self.tokens.items(), pairwise(ends), strict=True)
        }

    @cached_property
    def _categories(self) -> dict[str | None, int]:
        """Category → its code, from 1 on."""
        return {value: code for code, value in enumerate(self.tokens["category"], 1)}

    def _nodes(self, behaviors: Sequence[Behavior], action: int) -> Array:
        """(n, I + 2): vector, category and price level of each item."""
        wide = self.items.shape[2]
        nodes = np.zeros((len(behaviors), wide + 2))
        for node, behavior in zip(nodes, behaviors, strict=True):
            texts = {name: None if (value := behavior.get(name)) is None else str(value) for name in self.tokens}
            found = [self._places[name].get(text) for name, text in texts.items()]
            known = [token for token in found if token is not None]
            if known:
                node[:wide] = self.items[action, known].sum(axis=0) / np.float32(len(known))
            node[wide] = self.category[self._categories.get(texts["category"], 0)]
            level = behavior.get("price_level")
            node[wide + 1] = 0.0 if level is None else (level - 4.0) / 2.0
        return nodes

    def _readout(self, items: Array) -> Array:
        """Return maximum and mean over the nodes kept, added up over the layers, (J, 2 · width), of n > 0 items.

        Nothing points at an item but the item before it, so the first convolution of items is that of all vouchers.
        The voucher is the last node.
        """
        n, voucher = len(items), np.concatenate([self.vouchers, self.terms], axis=1)
        near = slice(max(n - self.nearest, 0), n)
        around = items.copy()
        around[1:] += items[:-1]
        x = np.empty((len(voucher), n + 1, self.pool.shape[1]))
        bias = self.relation_bias[0]
        x[:, :n] = relu(around @ self.first.T + bias + items @ self.first_root.T)
        x[:, n] = relu((voucher + items[near].sum(axis=0)) @ self.first.T + bias + voucher @ self.first_root.T)
        x, kept, total = self._pooled(x, np.ones(x.shape[:2], dtype=np.bool_), 0)
        around = x.copy()
        around[:, 1:n] += x[:, : n - 1]
        around[:, n] += x[:, near].sum(axis=1)
        x = relu(around @ self.relation.T + self.relation_bias[1] + x @ self.root.T)
        return total + self._pooled(x, kept, 1)[2]

    def _pooled(self, x: Array, there: NDArray[np.bool_], layer: int) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return the nodes (J, n, width) gated by their scores, zeros where dropped; which stay; and the readout."""
        direction = self.pool[layer]
        score = np.tanh(x @ (direction / np.sqrt((direction**2).sum())))
        most = int(np.ceil(self.ratio * np.count_nonzero(there[0])))
        order = np.argsort(np.where(there, -score, np.inf), axis=1, kind="stable")[:, :most]
        kept = np.zeros_like(there)
        np.put_along_axis(kept, order, values=True, axis=1)
        x = np.where(kept[:, :, None], x * score[:, :, None], 0.0)
        highest = np.where(kept[:, :, None], x, -np.inf).max(axis=1)
        return x, kept, np.concatenate([highest, x.sum(axis=1) / most], axis=1)

    def _attended(self, keys: Array, target: Array) -> Array:
        """Return Σ_r w_r·e_r (J, 2V) of past sessions (R, 2V) for each target (J, 2V)."""
        query = np.repeat(target, len(keys), axis=0)
        key = np.tile(keys, (len(target), 1))
        hidden = np.concatenate([query, key, query - key, query * key], axis=1) @ self.unit.T + self.unit_bias
        hidden = np.where(hidden >= 0, hidden, self.slope * hidden)
        relevance = (hidden @ self.weight.T + self.weight_bias).reshape(len(target), len(keys))
        attended: Array = relevance @ keys
        return attended

    def _scores(self, keys: Array) -> Array:
        """Return scores of the past, padded with zeros, then their maximum, mean and minimum: (R + 3,)."""
        behavior, voucher = np.split(keys, 2, axis=1)
        own = sigmoid((behavior * voucher).sum(axis=1))
        raw = np.zeros(self.history)
        raw[: own.size] = own
        summary = [own.max(), own.sum() / own.size, own.min()] if own.size else [0.0] * 3
        return np.concatenate([raw, summary])

    def _repaired(self, response: Array) -> Array:
        hazard = -np.log1p(-np.minimum(response, TOP)) * np.exp(self.correction)
        response = np.minimum(-np.expm1(-hazard), TOP)
        if not len(self.knots):
            return response
        maps = self.knots if len(self.knots) == response.size else np.repeat(self.knots, response.size, axis=0)
        return np.array([np.interp(p, *own) for p, own in zip(response, maps, strict=True)])
