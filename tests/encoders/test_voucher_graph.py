"""The encoder of voucher graphs against torch_geometric with the same weights, and its laws."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.nn import GraphConv as PeerConv
from torch_geometric.nn import TopKPooling as PeerPooling
from torch_geometric.nn import global_max_pool, global_mean_pool

from shadowprice.datasets.vouchers import generate
from shadowprice.encoders import voucher_graph
from shadowprice.encoders.kernel import compiled
from shadowprice.encoders.voucher_graph import GraphConv, TopKPooling, VoucherGraphEncoder, largest_of_each
from shadowprice.encoders.voucher_nodes import gather
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


@pytest.fixture(params=[True, False], ids=["in C", "in torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, built: Callable[[CDLL | None], None]) -> None:
    """The encoder's laws hold both ways."""
    if request.param:
        built(compiled.LIBRARY)
    monkeypatch.setattr(voucher_graph, "IS_COMPILED", request.param)


def encoder(seed: int = 0) -> VoucherGraphEncoder:
    torch.manual_seed(seed)
    return VoucherGraphEncoder(WIDTH)


@pytest.mark.parametrize("seed", range(3))
def test_the_convolution_is_that_of_torch_geometric(log: SessionLog, seed: int) -> None:
    batch = log.graphs.past(np.arange(seed, 40 + seed))
    torch.manual_seed(seed)
    peer, ours = PeerConv(WIDTH, 7, aggr="add"), GraphConv(WIDTH, 7)
    ours.load_state_dict(peer.state_dict())
    x, y = (features(log, batch).requires_grad_() for _ in range(2))
    theirs, found = peer(x, torch.from_numpy(batch.edge_index())), ours(y, batch.neighbours)
    torch.testing.assert_close(found, theirs)
    weights = torch.randn_like(theirs)
    (theirs * weights).sum().backward()
    (found * weights).sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
    for a, b in zip(peer.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad)


@pytest.mark.parametrize("ratio", [0.9, 0.5, 0.7])
def test_the_pooling_is_that_of_torch_geometric(log: SessionLog, ratio: float) -> None:
    batch = log.graphs.past(np.arange(80))
    assert batch.length.max() > 20, "or nothing is dropped"
    torch.manual_seed(0)
    peer, ours = PeerPooling(WIDTH, ratio), TopKPooling(WIDTH, ratio)
    with torch.no_grad():
        ours.weight.copy_(peer.select.weight)
    x = features(log, batch)
    theirs, _, _, _, chosen, _ = peer(x, torch.from_numpy(batch.edge_index()), batch=torch.from_numpy(batch.graph))
    found, kept = ours(x, batch, None)
    assert sorted(chosen.tolist()) == np.flatnonzero(kept).tolist()
    torch.testing.assert_close(found[chosen], theirs)
    assert found[torch.from_numpy(~kept)].abs().sum() == 0


def test_with_ratio_1_the_pooling_only_gates(log: SessionLog) -> None:
    batch = log.graphs.past(np.arange(30))
    pool, x = TopKPooling(WIDTH, 1.0), features(log, batch)
    found, kept = pool(x, batch, None)
    assert kept.all()
    score = (x * pool.weight).sum(dim=1) / pool.weight.norm()
    torch.testing.assert_close(found, x * torch.tanh(score)[:, None])


@pytest.mark.parametrize("ratio", [0.0, 1.1, -0.5])
def test_a_ratio_that_cannot_be_is_refused(ratio: float) -> None:
    with pytest.raises(InvalidInput, match="ratio"):
        TopKPooling(3, ratio)


@pytest.mark.usefixtures("way")
def test_both_layers_with_pooling_and_readouts_are_those_of_torch_geometric(log: SessionLog) -> None:
    """The peer cuts nodes out and filters the edges; here they are masked."""
    ours = encoder()
    batch = log.graphs.past(np.arange(80))
    x, edges, graph = features(log, batch), torch.from_numpy(batch.edge_index()), torch.from_numpy(batch.graph)
    hidden, total = x, 0.0
    for convolution, pool in zip(ours.convolutions, ours.pools, strict=True):
        conv, peer = PeerConv(hidden.shape[1], 16, aggr="add"), PeerPooling(16, 0.9)
        conv.load_state_dict(convolution.state_dict())
        with torch.no_grad():
            peer.select.weight.copy_(pool.weight)
        hidden, edges, _, graph, _, _ = peer(torch.relu(conv(hidden, edges)), edges, batch=graph)
        total = total + torch.cat([global_max_pool(hidden, graph), global_mean_pool(hidden, graph)], dim=1)
    expected = torch.zeros(80 * len(GROUPS), 32)
    expected[batch.slot] = total
    torch.testing.assert_close(ours.readout(x, batch), expected.view(80, -1))
    torch.testing.assert_close(ours(x, batch), ours.out(expected.view(80, -1)))


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
def test_what_follows_the_collection_has_no_gradient_in_a_target(log: SessionLog) -> None:
    table = torch.randn(len(log.tables.behaviour), WIDTH, requires_grad=True)
    ours = encoder()
    gradients = {}
    for kind in ("targets", "past"):
        table.grad = None
        batch = getattr(log.graphs, kind)(np.arange(80))
        ours(gather(table, batch.row), batch).square().sum().backward()
        gradients[kind] = table.grad.abs().sum(dim=1).numpy()
    after = (log.tables.behaviour["phase"] == "after").to_numpy()
    assert (gradients["targets"][after] == 0).all()
    assert (gradients["targets"][~after] > 0).mean() > 0.5
    assert (gradients["past"][after] > 0).mean() > 0.5, "the same rows count in a past session"


def test_gathering_takes_rows_and_gives_zeros_for_none() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    index = np.array([2, -1, 2, 0])
    found = gather(x, index)
    expected = torch.stack([x[2], torch.zeros(3), x[2], x[0]])
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert x.grad[:, 0].tolist() == [1.0, 0.0, 2.0, 0.0]


def test_the_maximum_of_each_graph_and_its_gradient(log: SessionLog) -> None:
    batch = log.graphs.past(np.arange(20))
    x = features(log, batch).round(decimals=0).requires_grad_()  # with ties
    kept = np.random.default_rng(0).random(batch.nodes) < 0.7
    kept[batch.start] = True
    found = largest_of_each(x, batch, kept)
    weight = torch.randn_like(found)
    (found * weight).sum().backward()
    y = x.detach().clone().requires_grad_()
    pieces = [y[batch.graph == g][kept[batch.graph == g]].amax(dim=0) for g in range(batch.length.size)]
    expected = torch.stack(pieces)
    (expected * weight).sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad)
