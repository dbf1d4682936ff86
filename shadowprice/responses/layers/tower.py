"""Request tower: what belongs to a request, its context and its partner, added to the account's embedding.

One definition for training and serving: :func:`add_request` takes torch tensors and numpy arrays. Does not load torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shadowprice.campaign import Side
from shadowprice.graphs.scaling import Scaling
from shadowprice.responses.arrays import Array, relu
from shadowprice.responses.layers.heads import Head
from shadowprice.responses.layers.session import KIND, ServedSession
from shadowprice.responses.layers.sides import Arrays, load_sides, save_sides

FILE = "towers.safetensors"
ROWS = 1 << 14
"""Requests computed at a time."""


def add_request(account: Any, inputs: Any, hidden: Callable[[Any], Array], out: Callable[[Array], Array]) -> Array:
    """Return z = h_account + out(relu(hidden(inputs))), inputs = h_account ‖ context ‖ h_partner."""
    embedding: Array = account + out(relu(hidden(inputs)))
    return embedding


def context_values(columns: Mapping[str, Any], rows: int, names: Sequence[str]) -> NDArray[np.float32]:
    """Return the values (n, C) of the fitted request features ``names``, NaN where a number is not known.

    A category is read against the fitted values and not those that happen to be in the columns; one that is not known
    is none of them, as in training. So the values of a row do not depend on other rows.

    Args:
        columns: column → n values; numbers of x_…, texts of c_…; None or NaN where unknown.
        rows: n.
        names: ``x_…`` or ``c_…=value``.

    Example:
        >>> context_values({"c_channel": ["app", "web"], "x_basket": [2.0, None]}, 2, ("c_channel=app", "x_basket"))
        array([[ 1.,  2.],
               [ 0., nan]], dtype=float32)
    """
    values = np.full((rows, len(names)), np.nan, dtype=np.float32)
    for position, name in enumerate(names):
        column = column_of(name)
        cells = columns.get(column, [None] * rows)
        if column == name:
            values[:, position] = np.asarray(cells, dtype=np.float32)
        else:
            value = name.removeprefix(f"{column}=")
            values[:, position] = [str(cell) == value for cell in cells]
    return values


def column_of(name: str) -> str:
    """Return the column that a fitted feature is read from.

    >>> column_of("c_channel=app"), column_of("x_basket"), column_of("x_c_city=a")
    ('c_channel', 'x_basket', 'x_c_city=a')
    """
    return name.partition("=")[0] if name.startswith("c_") else name


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedTower:
    """A request tower with its fitted weights, for the solver and a server without torch.

    It computes in float64 and rounds only the result, so that a request gives the same embedding alone or in a batch.

    context      standardization of the context
    partner      whether the partner's embedding is read
    hidden_weight (H, I), hidden_bias (H,), out_weight (D, H), out_bias (D,), I = D + context.width + D if partner
    default_own  (D,), mean of the accounts' own embeddings, for accounts never seen
    """

    context: Scaling
    partner: bool
    hidden_weight: NDArray[np.float32]
    hidden_bias: NDArray[np.float32]
    out_weight: NDArray[np.float32]
    out_bias: NDArray[np.float32]
    default_own: NDArray[np.float32]

    @property
    def width(self) -> int:
        """Length D of an embedding."""
        return int(self.out_bias.size)

    @property
    def accepts(self) -> tuple[str, ...]:
        """Names of the context values that are read: x_… are numbers, c_… are texts."""
        return tuple(dict.fromkeys(map(column_of, self.context.names)))

    def join(
        self, own: NDArray[np.float32], columns: Mapping[str, Sequence[Any]], beside: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return :meth:`embed` of context that is given by name."""
        return self.embed(own, context_values(columns, len(own), self.context.names), beside)

    def embed(
        self, own: NDArray[np.float32], context: NDArray[np.float32], partner: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Embeddings (n, D) of n requests; a row depends on no other. O(n·H·(I + D)).

        Args:
            own: (n, D), the accounts' own embeddings.
            context: (n, C), raw values of ``self.context.names``, NaN where unknown (:func:`context_values`).
            partner: (n, D), the partners' own embeddings, zeros where there is none; not read without ``partner``.
        """
        embedding = np.empty((len(own), self.width), dtype=np.float32)
        for start in range(0, len(own), ROWS):
            part = slice(start, start + ROWS)
            read = [own[part], self.context.apply(context[part]), *([partner[part]] if self.partner else [])]
            embedding[part] = add_request(
                own[part].astype(np.float64),
                np.concatenate(read, axis=1),
                lambda inputs: dense(inputs, self.hidden_weight, self.hidden_bias),
                lambda hidden: dense(hidden, self.out_weight, self.out_bias),
            )
        return embedding


Tower = ServedTower | ServedSession
"""Reader of the requests of a side: of context and partner, or of the session."""


def save_towers(towers: Mapping[Side, Tower], folder: Path) -> None:
    """Write the towers to ``towers.safetensors`` in ``folder``; the file goes where there are none."""
    parts: dict[Side, tuple[Arrays, Any]] = {
        side: (tower.arrays(), tower.to_dict())
        if isinstance(tower, ServedSession)
        else (
            {name: value for name, value in vars(tower).items() if isinstance(value, np.ndarray)},
            {"context": tower.context.to_dict(), "partner": tower.partner},
        )
        for side, tower in towers.items()
    }
    save_sides(parts, folder / FILE)


def load_towers(folder: Path) -> dict[Side, Tower]:
    """Read what :func:`save_towers` wrote; empty where there is no such file.

    Raises:
        InvalidInput: it is not a file of towers.
    """
    path = folder / FILE
    return load_sides(path, _tower, kind="request towers") if path.exists() else {}


def _tower(arrays: Arrays, meta: Any) -> Tower:
    if meta.get("kind") == KIND:
        return ServedSession.of(arrays, meta)
    return ServedTower(context=Scaling.from_dict(meta["context"]), partner=bool(meta["partner"]), **arrays)


def stored_defaults(heads: Mapping[Side, Head], towers: Mapping[Side, Tower]) -> dict[Side, NDArray[np.float32]]:
    """Return the vector of an account that the store does not know, as long as a stored one.

    That is the embedding (D,) of a side, and behind it the account's own embedding where the side has a tower.
    """
    return {
        side: np.concatenate([head.default_embedding, towers[side].default_own])
        if side in towers
        else head.default_embedding
        for side, head in heads.items()
    }


def dense(inputs: NDArray[Any], weight: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return (n, O), inputs @ weightᵀ + bias in float64, summed in an order that does not depend on n."""
    product = np.einsum("ni,oi->no", inputs.astype(np.float64), weight.astype(np.float64), optimize=False)
    return np.asarray(product + bias.astype(np.float64))
