"""Item embeddings of S3 from the paths that behaviour walks: item – session – item, with side information.

Of two items within a few steps of one chain of a session, every pair of their *tokens* (item, category, brand, price
level) is counted, and the positive pointwise mutual information of the counts

    M_ab = max(0, log(#(a, b)·#(·, ·) / (#(a)·#(b))))

is factorized: the limit of skip-gram over such walks in closed form (Levy and Goldberg, NeurIPS 2014; Qiu et al., WSDM
2018). An item's vector is the mean of those of its tokens (Wang et al., EGES, KDD 2018). Carts and orders are apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd

from shadowprice.campaign.session import SESSION_ACTIONS
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, Index

WIDTH = 16
WINDOW = 2
SIDE = ("item_id", "category", "brand", "price_level")


@dataclass(frozen=True, eq=False)
class ItemEmbedding:
    """Vectors of tokens.

    tokens   column of the behaviour table → its known values, sorted; a vector each, in this order
    vectors  float32 (actions, T, WIDTH): carts, then orders
    """

    tokens: Mapping[str, tuple[str, ...]]
    vectors: NDArray[np.float32]

    def rows(self, behaviour: pd.DataFrame) -> NDArray[np.float32]:
        """(rows, WIDTH): the vector of each behaviour; zeros where all of its values are unknown."""
        index = _tokens(behaviour, self.tokens)
        known = index >= 0
        action = (behaviour["action"] == SESSION_ACTIONS[1]).to_numpy().astype(np.int64)
        total = np.zeros((len(behaviour), self.vectors.shape[2]), dtype=np.float32)
        for column in range(index.shape[1]):
            total += np.where(known[:, [column]], self.vectors[action, np.maximum(index[:, column], 0)], 0.0)
        return np.asarray(total / np.maximum(known.sum(axis=1, keepdims=True), 1), dtype=np.float32)


def embed_items(log: SessionLog, until: int, *, width: int = WIDTH, window: int = WINDOW) -> ItemEmbedding:
    """Embed the items of all behaviour before ``until`` (nanoseconds since 1970); labels are not read.

    Vectors of behaviours have unit deviation.

    O(behaviours · window + tokens · width²).
    """
    behaviour = log.tables.behaviour
    seen = nanoseconds(behaviour["ts"]) < until
    past = behaviour[seen]
    tokens = {column: tuple(sorted(past[column].dropna().astype(str).unique())) for column in SIDE}
    size = sum(map(len, tokens.values()))
    index = _tokens(behaviour, tokens)
    first, second = _pairs(log, seen, window)
    order = (behaviour["action"] == SESSION_ACTIONS[1]).to_numpy()
    vectors = np.zeros((len(SESSION_ACTIONS), size, width), dtype=np.float32)
    for action in range(len(SESSION_ACTIONS)):
        own = order[first] == bool(action)
        vectors[action] = _factorize(_counts(index[first[own]], index[second[own]], size), width)
    embedding = ItemEmbedding(tokens, vectors)
    deviation = embedding.rows(past).std(axis=0)
    scale = np.where(deviation > 1e-6, deviation, np.float32(1.0))
    return ItemEmbedding(tokens, np.asarray(vectors / scale, dtype=np.float32))


def _tokens(behaviour: pd.DataFrame, tokens: Mapping[str, tuple[str, ...]]) -> Index:
    """(rows, columns): token of each value, −1 where it is not known."""
    index = np.full((len(behaviour), len(tokens)), -1, dtype=np.int64)
    offset = 0
    for position, (column, values) in enumerate(tokens.items()):
        if column in behaviour:
            codes, levels = pd.factorize(behaviour[column])
            known = pd.Index(values).get_indexer(pd.Index(levels.astype(str)))
            place = np.where(codes >= 0, known[np.maximum(codes, 0)] if known.size else -1, -1)
            index[:, position] = np.where(place >= 0, place + offset, -1)
        offset += len(values)
    return index


def _pairs(log: SessionLog, seen: NDArray[np.bool_], window: int) -> tuple[Index, Index]:
    """Behaviour rows at most ``window`` steps apart in one chain, both of them ``seen``."""
    graphs = log.graphs
    graph = np.repeat(np.arange(graphs.sessions * len(GROUPS)), np.diff(graphs.start))
    left, right = [], []
    for step in range(1, window + 1):
        a, b = graphs.row[:-step], graphs.row[step:]
        linked = (graph[:-step] == graph[step:]) & (a != VOUCHER)
        left.append(a[linked])
        right.append(b[linked])
    first, second = np.concatenate(left), np.concatenate(right)
    kept = seen[first] & seen[second]
    return first[kept], second[kept]


def _counts(first: Index, second: Index, size: int) -> csr_matrix:
    """(T, T) symmetric counts of token pairs."""
    counts = _incidence(first, size).T @ _incidence(second, size)
    return csr_matrix(counts + counts.T)


def _incidence(tokens: Index, size: int) -> csr_matrix:
    """(pairs, T): a 1 for each token of one end of a pair."""
    known = tokens >= 0
    pointer = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    ones = np.ones(pointer[-1], dtype=np.float32)
    return csr_matrix((ones, tokens[known], pointer), shape=(tokens.shape[0], size))


def _factorize(counts: csr_matrix, width: int) -> NDArray[np.float32]:
    """(T, width): left factor of the positive mutual information, zeros for tokens not seen."""
    size = counts.shape[0]
    vectors = np.zeros((size, width), dtype=np.float32)
    total = np.asarray(counts.sum(axis=1)).ravel()
    seen = np.flatnonzero(total > 0)
    if seen.size < 2:
        return vectors
    information = counts[seen][:, seen].tocoo()
    information.data = np.maximum(
        np.log(information.data * total.sum() / (total[seen][information.row] * total[seen][information.col])), 0.0
    )
    rank = min(width, seen.size - 1)
    if not information.data.any():
        return vectors
    left, strength, _ = randomized_svd(information.tocsr(), rank, n_iter=4, random_state=0)
    left = left * np.sqrt(strength)
    # A singular vector's sign is arbitrary: its largest entry is made positive.
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(rank)])
    vectors[seen, :rank] = left
    return vectors
