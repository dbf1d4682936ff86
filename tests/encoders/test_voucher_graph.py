"""The encoder of voucher graphs against torch_geometric with the same weights, and its laws."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Batch, Data

from shadowprice.datasets.vouchers import generate
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, GraphBatch
from shadowprice.tables import SessionTables

WIDTH = 5


@pytest.fixture(scope="module")
def log() -> SessionLog:
    return SessionLog.build(generate(seed=1, sessions=80).tables)


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def features(log: SessionLog, batch: GraphBatch) -> torch.Tensor:
    """A row of numbers for every behaviour and one for every group's voucher, whatever batch it is in."""
    random = torch.Generator().manual_seed(0)
    table = torch.randn(len(log.tables.behaviour), WIDTH, generator=random)
    voucher = torch.randn(len(GROUPS), WIDTH, generator=random)
    of_item = table[torch.from_numpy(np.maximum(batch.row, 0))]
    return torch.where(torch.from_numpy(batch.row == VOUCHER)[:, None], voucher[batch.group], of_item)


def encoder(seed: int = 0) -> VoucherGraphEncoder:
    torch.manual_seed(seed)
    return VoucherGraphEncoder(WIDTH)


def by_hand(ours: VoucherGraphEncoder, x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Readout of one graph in numpy."""
    total, adjacency = np.zeros(32), np.zeros((len(x), len(x)))
    adjacency[edges[1], edges[0]] = 1.0
    for convolution, pool in zip(ours.convolutions, ours.pools, strict=True):
        relative, bias, root, select = (
            each.detach().numpy()
            for each in (
                convolution.lin_rel.weight,
                convolution.lin_rel.bias,
                convolution.lin_root.weight,
                pool.select.weight[0],
            )
        )
        x = np.maximum(adjacency @ x @ relative.T + bias + x @ root.T, 0)
        gate = np.tanh(x @ select / np.linalg.norm(select))
        kept = np.sort(np.argsort(-gate)[: int(np.ceil(ours.pools[0].ratio * len(x) - 1e-6))])
        x, adjacency = (x * gate[:, None])[kept], adjacency[np.ix_(kept, kept)]
        total += np.concatenate([x.max(axis=0), x.mean(axis=0)])
    return total


@pytest.mark.parametrize("ratio", [0.9, 0.5, 1.0])
def test_readouts_are_convolutions_poolings_and_readouts_by_hand(log: SessionLog, ratio: float) -> None:
    torch.manual_seed(0)
    ours = VoucherGraphEncoder(WIDTH, ratio=ratio)
    batch = log.graphs.past(np.arange(80))
    assert batch.length.max() > 20, "or nothing is dropped"
    x, edges = features(log, batch), batch.edge_index
    expected = np.zeros((80 * len(GROUPS), 32))
    for slot, first, length in zip(batch.slot, batch.start, batch.length, strict=True):
        own = edges[:, (edges[1] >= first) & (edges[1] < first + length)] - first
        expected[slot] = by_hand(ours, x[first : first + length].numpy(), own)
    found = ours.readout(x, batch)
    torch.testing.assert_close(found, torch.from_numpy(expected).view(80, -1))
    torch.testing.assert_close(ours(x, batch), ours.out(found))


def test_a_batch_is_torch_geometrics_batch_of_its_graphs(log: SessionLog) -> None:
    batch = log.graphs.past(np.array([4, 61, 4, 17]))
    x, edges = features(log, batch), batch.edge_index
    graphs = [
        Data(x[first : first + length], torch.from_numpy(edges[:, batch.graph[edges[1]] == number] - first))
        for number, (first, length) in enumerate(zip(batch.start, batch.length, strict=True))
    ]
    theirs = Batch.from_data_list(graphs)
    assert theirs.batch.tolist() == batch.graph.tolist()
    torch.testing.assert_close(theirs.x, x)
    assert set(map(tuple, theirs.edge_index.T.tolist())) == set(map(tuple, edges.T.tolist()))


@pytest.mark.parametrize("ratio", [0.0, 1.1, -0.5])
def test_a_ratio_that_cannot_be_is_refused(ratio: float) -> None:
    with pytest.raises(InvalidInput, match="ratio"):
        VoucherGraphEncoder(3, ratio=ratio)


def test_permuting_the_sessions_permutes_the_embeddings(log: SessionLog) -> None:
    ours, order = encoder(), np.random.default_rng(0).permutation(80)
    found = []
    for session in (np.arange(80), order):
        batch = log.graphs.past(session)
        found.append(ours(features(log, batch), batch))
    torch.testing.assert_close(found[0][order], found[1])


def test_a_session_without_behaviour_is_the_bias_and_changes_no_other(log: SessionLog) -> None:
    ours = encoder()
    for session in (np.array([3, -1, 9]), np.array([3, 9])):
        batch = log.graphs.past(session)
        found = ours(features(log, batch), batch)
        if session.size == 3:
            with_none = found
    torch.testing.assert_close(with_none[1], ours.out.bias)
    torch.testing.assert_close(with_none[[0, 2]], found)
    nobody = log.graphs.past(np.array([-1, -1]))
    torch.testing.assert_close(ours(features(log, nobody), nobody), ours.out.bias.expand(2, -1))


@pytest.mark.parametrize("kind", ["past", "targets"])
def test_a_block_diagonal_batch_is_a_loop_over_sessions(log: SessionLog, kind: str) -> None:
    ours = encoder()
    session = np.array([5, 0, 17, 5, 63, 2])
    take = getattr(log.graphs, kind)
    whole = take(session)
    found = ours(features(log, whole), whole)
    for position, one in enumerate(session):
        alone = take(np.array([one]))
        torch.testing.assert_close(found[[position]], ours(features(log, alone), alone))


def test_the_order_of_rows_of_equal_time_does_not_matter(log: SessionLog) -> None:
    behaviour = log.tables.behaviour.assign(ts=lambda f: f["ts"].dt.floor("D"))
    # Some rows stand on the other side of the collection now; phases stay, and only they are read.
    order = np.random.default_rng(0).permutation(len(behaviour))
    ours = encoder()
    found = []
    for frame in (behaviour, behaviour.iloc[order].reset_index(drop=True)):
        shuffled = SessionLog.build(SessionTables(log.tables.session, frame))
        batch = shuffled.graphs.past(np.arange(80))
        codes = pd.Index(np.sort(frame["item_id"].unique())).get_indexer(pd.Index(frame["item_id"]))
        table = torch.randn(codes.max() + 1, WIDTH, generator=torch.Generator().manual_seed(0))
        x = table[codes[np.maximum(batch.row, 0)]] * torch.from_numpy(batch.row != VOUCHER)[:, None]
        found.append(ours(x, batch))
    torch.testing.assert_close(found[0], found[1])


def test_what_follows_the_collection_has_no_gradient_in_a_target(log: SessionLog) -> None:
    table = torch.randn(len(log.tables.behaviour), WIDTH, requires_grad=True)
    ours = encoder()
    gradients = {}
    for kind in ("targets", "past"):
        table.grad = None
        batch = getattr(log.graphs, kind)(np.arange(80))
        ours(table[batch.row] * torch.from_numpy(batch.row != VOUCHER)[:, None], batch).square().sum().backward()
        gradients[kind] = table.grad.abs().sum(dim=1).numpy()
    after = (log.tables.behaviour["phase"] == "after").to_numpy()
    assert (gradients["targets"][after] == 0).all()
    assert (gradients["targets"][~after] > 0).mean() > 0.5
    assert (gradients["past"][after] > 0).mean() > 0.5, "the same rows count in a past session"


def test_both_are_the_target_and_the_whole(log: SessionLog) -> None:
    ours, session = encoder(), np.array([3, 41, -1, 12])
    batch, target = log.graphs.past(session), log.graphs.targets(session)
    x = features(log, batch)
    before, whole = ours.both(x, batch)
    torch.testing.assert_close(before, ours(features(log, target), target))
    torch.testing.assert_close(whole, ours(x, batch))


def test_the_gradient_is_that_of_differences(log: SessionLog) -> None:
    ours, batch = encoder(), log.graphs.past(np.array([7, 44]))
    assert torch.autograd.gradcheck(lambda x: ours(x, batch), [features(log, batch).requires_grad_()])
