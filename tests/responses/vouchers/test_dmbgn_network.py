"""What the network of DMBGN reads of the tables, and how sessions share a step."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from shadowprice.datasets.vouchers import generate
from shadowprice.encoders.item_embedding import SIDE, ItemEmbedding, embed_items
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.vouchers.dmbgn_network import NODE, DmbgnNetwork, NodeInputs
from shadowprice.responses.vouchers.sessions import SessionRows, Vouchers


@cache
def log() -> SessionLog:
    return SessionLog.build(generate(seed=3, sessions=300).tables)


@cache
def items() -> ItemEmbedding:
    return embed_items(log(), int(nanoseconds(log().tables.behaviour["ts"]).max()) + 1)


def network(*, before_only: bool = False) -> DmbgnNetwork:
    """Untrained; vouchers at random."""
    random = np.random.default_rng(5)
    offers, sessions = len(log().offered), log().graphs.sessions
    terms = (random.normal(size=(n, 2)).astype(np.float32) for n in (sessions, offers))
    codes = (random.integers(0, offers + 1, n) for n in (sessions, offers))
    torch.manual_seed(0)
    return DmbgnNetwork(
        fit_tabular(log().requests()),
        NodeInputs.of(log(), items(), Vouchers(*codes, *terms, offers)),
        embedding=4,
        hidden=(8,),
        history=6,
        encoder=VoucherGraphEncoder(NODE),
        before_only=before_only,
    )


def rows_of(share: float) -> SessionRows:
    """Few sessions, so that many rows share them; one of the rows has none of its own."""
    random = np.random.default_rng(7)
    past = np.where(random.random((50, 6)) < share, random.integers(0, 40, (50, 6)), -1)
    session = random.integers(0, 300, 50)
    session[3] = -1
    frame = log().requests().head(50)
    inputs = fit_tabular(log().requests())
    level = torch.from_numpy(random.integers(0, len(log().offered), 50))
    return SessionRows(
        numeric=torch.from_numpy(inputs.numeric(frame)),
        category=torch.from_numpy(inputs.category(frame)),
        level=level,
        response=torch.zeros(50),
        weight=torch.ones(50),
        where=torch.from_numpy(np.column_stack([session, np.arange(50), np.arange(50), past])),
    )


@pytest.mark.parametrize("before_only", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rows_that_share_sessions_read_what_they_read_alone(share: float, before_only: bool) -> None:
    ours, rows = network(before_only=before_only).double().eval(), rows_of(share)

    @torch.no_grad()
    def logits(some: SessionRows) -> torch.Tensor:
        return ours.logits(some, some.level, ours.remember(some))

    memory = ours.remember(rows)
    np.testing.assert_array_equal(memory.session[memory.of], memory.past.session)
    assert np.unique(memory.session).size == memory.session.size
    rows = replace(rows, numeric=rows.numeric.double())
    alone = torch.cat([logits(rows.take(torch.tensor([row]))) for row in range(len(rows))])
    # Of two nodes alike, rounding decides which one pooling drops.
    torch.testing.assert_close(logits(rows), alone, rtol=0, atol=1e-3)
    assert float((logits(rows) - alone).abs().median()) < 1e-12


def test_every_learned_weight_has_a_gradient() -> None:
    ours, rows = network(), rows_of(0.5)
    memory, target = ours.remember(rows), ours.target(rows.session.numpy(), rows.level.numpy())
    read, auxiliary = ours.read(memory, target)
    (ours.decide(rows, rows.level, read).sum() + auxiliary.sum()).backward()
    silent = [name for name, each in ours.named_parameters() if each.grad is None or not each.grad.any()]
    assert silent == []


def test_rows_without_any_graph_read_the_last_bias() -> None:
    ours, rows = network(), rows_of(0.0)
    nowhere = replace(rows, where=torch.full((50, 9), -1))
    target = ours.target(nowhere.session.numpy(), nowhere.level.numpy())
    read, _ = ours.read(ours.remember(nowhere), target)
    assert torch.equal(read[:, 32:48], ours.graph.out.bias.expand(50, -1))
    (gradient,) = torch.autograd.grad(read.sum(), [ours.graph.out.bias])
    torch.testing.assert_close(gradient, torch.full((16,), 50.0))


def test_nodes_start_from_their_own_row_of_the_behaviour_table() -> None:
    behaviour, graphs, ours = log().tables.behaviour, log().graphs, network()
    assert len(ours.nodes.items) == len(behaviour[["action", *SIDE]].drop_duplicates()) < len(behaviour)
    categories = items().tokens["category"]
    session = np.array([4, 250, 17])
    batch, code, terms = graphs.past(session), np.array([1, 0, 2]), np.ones((3, 2), dtype=np.float32)
    x = ours.start_of(batch, code, terms).detach().numpy()
    is_voucher = batch.row == VOUCHER
    member = np.repeat(batch.slot // len(GROUPS), batch.length)
    rows = behaviour.iloc[batch.row[~is_voucher]]
    known = 1 + np.array([categories.index(each) for each in rows["category"]])
    expected = np.column_stack(
        [
            items().rows(rows),
            ours.category.weight.detach().numpy()[known, 0],
            (rows["price_level"].to_numpy(dtype=float) - 4) / 2,
        ]
    )
    np.testing.assert_allclose(x[~is_voucher], expected, atol=1e-6)
    voucher = ours.voucher.weight.detach().numpy()[code[member[is_voucher]]]
    np.testing.assert_allclose(x[is_voucher], np.column_stack([voucher, terms[member[is_voucher]]]), atol=1e-6)
