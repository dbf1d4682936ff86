"""A step of DMBGN in C against the same in torch, and what it lists and its nodes start from against the tables."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from shadowprice.datasets.vouchers import generate
from shadowprice.encoders import voucher_graph
from shadowprice.encoders.item_embedding import SIDE, ItemEmbedding, embed_items
from shadowprice.encoders.kernel import compiled
from shadowprice.encoders.kernel.steps import StepPass
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.errors import InvalidInput
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.graphs.voucher_graphs import BEFORE_GROUPS, GROUPS, VOUCHER, spans
from shadowprice.responses.tabular.rows import fit_tabular
from shadowprice.responses.vouchers import dmbgn_history, dmbgn_network
from shadowprice.responses.vouchers.dmbgn_network import NODE, DmbgnNetwork, NodeInputs
from shadowprice.responses.vouchers.sessions import Past, SessionRows, Vouchers


@cache
def log() -> SessionLog:
    return SessionLog.build(generate(seed=3, sessions=300).tables)


@cache
def items() -> ItemEmbedding:
    return embed_items(log(), int(nanoseconds(log().tables.behaviour["ts"]).max()) + 1)


def network(*, average: bool = False, before_only: bool = False) -> DmbgnNetwork:
    """Untrained; vouchers at random."""
    random = np.random.default_rng(5)
    offers, sessions = len(log().offered), log().graphs.sessions
    terms = (random.normal(size=(n, 2)).astype(np.float32) for n in (sessions, offers))
    codes = (random.integers(0, offers + 1, n) for n in (sessions, offers))
    torch.manual_seed(0)
    return DmbgnNetwork(
        fit_tabular(log().requests()),
        NodeInputs.of(log(), items(), Vouchers(*codes, *terms)),
        offers,
        len(items().tokens["category"]),
        embedding=4,
        hidden=(8,),
        history=6,
        encoder=VoucherGraphEncoder(NODE),
        average=average,
        before_only=before_only,
    )


def rows_of(share: float) -> SessionRows:
    """Few sessions, so that many rows share them; one of the rows has none of its own."""
    random = np.random.default_rng(7)
    past = np.where(random.random((50, 6)) < share, random.integers(0, 40, (50, 6)), -1)
    session = random.integers(0, 300, 50)
    session[3] = -1
    level = torch.from_numpy(random.integers(0, len(log().offered), 50))
    return SessionRows(
        numeric=torch.zeros(50, 0),
        category=torch.zeros(50, 0, dtype=torch.int64),
        level=level,
        response=torch.zeros(50),
        weight=torch.ones(50),
        where=torch.from_numpy(np.column_stack([session, np.arange(50), np.arange(50), past])),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("average", "before_only"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_step_and_its_gradient_are_those_without_the_compiled_passes(
    share: float,
    average: bool,
    before_only: bool,
    dtype: torch.dtype,
    built: Callable[[CDLL | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built(compiled.LIBRARY)
    ours, rows = network(average=average, before_only=before_only).to(dtype), rows_of(share)
    of = [ours.category.weight, ours.voucher.weight, *ours.graph.parameters(), *ours.attention.parameters()]
    random = torch.Generator().manual_seed(3)

    def found() -> tuple[list[torch.Tensor], dict[int, torch.Tensor]]:
        recalled = ours.recall(rows)
        random.manual_seed(3)
        total = sum(
            (each * torch.randn(each.shape, generator=random, dtype=dtype)).sum()
            for each in (recalled.read, recalled.auxiliary)
        )
        gradients = torch.autograd.grad(total, of, materialize_grads=True, allow_unused=True)
        session, encoded = recalled.graphs()
        known = dict(zip(session.tolist(), encoded.both, strict=False))
        own = encoded.both[session.size :]
        return [recalled.read, recalled.auxiliary, own, *gradients], known

    ones, known = found()
    for module in (dmbgn_network, voucher_graph, dmbgn_history):
        monkeypatch.setattr(module, "IS_COMPILED", False)
    theirs, expected = found()
    for a, b in zip(ones, theirs, strict=True):
        if dtype is torch.float64:
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12 * max(float(b.detach().abs().max()), 1.0))
    # To 24 bits two gates may be equal that are not, and another node goes.
    a, b = (torch.cat([each.detach().flatten() for each in all_of]) for all_of in (ones, theirs))
    assert float((a - b).norm() / b.norm()) < 1e-3
    assert known.keys() == expected.keys()
    for session, each in known.items():
        torch.testing.assert_close(each, expected[session], rtol=1e-3, atol=1e-3)


def test_a_step_lists_every_session_once_and_of_the_rows_what_came_before(built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)
    ours, rows = network(), rows_of(0.5)
    listed = StepPass(ours._steps, rows.past, rows.session, rows.level, ours.base, ours._learned).listed()
    history = Past.of(rows.past)
    for name in ("row", "slot"):
        np.testing.assert_array_equal(listed[name], getattr(history, name))
    np.testing.assert_array_equal(listed["session"][listed["of"]], history.session)
    assert len(set(listed["session"].tolist())) == listed["session"].size
    members = np.concatenate([listed["session"], rows.session.numpy()])
    expected = [
        (len(GROUPS) * member + group, log().graphs.start[len(GROUPS) * session + group])
        for member, session in enumerate(members)
        for group in range(BEFORE_GROUPS if member >= listed["session"].size else len(GROUPS))
        if session >= 0
        and log().graphs.start[len(GROUPS) * session + group] < log().graphs.start[len(GROUPS) * session + group + 1]
    ]
    assert list(zip(listed["graph_slot"].tolist(), listed["first"].tolist(), strict=True)) == expected


def test_a_pass_over_what_came_after_a_target_is_refused(built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)
    ours, rows = network(), rows_of(0.5)
    leaks = StepPass(ours._steps, rows.past, rows.session, rows.level, ours.base, ours._learned)
    leaks.listed()["graph_slot"][-1] += BEFORE_GROUPS  # planted: the last row's own graph
    with pytest.raises(InvalidInput, match="target: holds behaviour after the collection"):
        leaks.forth()


@pytest.mark.parametrize("column", [0, 3, 8, None])
def test_rows_with_what_is_not_in_the_log_are_refused(column: int | None, built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)
    ours, rows = network(), rows_of(0.5)
    if column is None:
        rows.level[7] = len(log().offered)
    else:
        rows.where[7, column] = log().graphs.sessions
    with pytest.raises(InvalidInput, match="not in the log"):
        ours.recall(rows)


def test_rows_without_any_graph_read_the_last_bias(built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)
    ours, rows = network(), rows_of(0.0)
    recalled = ours.recall(replace(rows, where=torch.full((50, 9), -1)))
    assert torch.equal(recalled.read[:, 32:48], ours.graph.out.bias.expand(50, -1))
    (gradient,) = torch.autograd.grad(recalled.read.sum(), [ours.graph.out.bias])
    assert torch.equal(gradient, torch.full((16,), 50.0))


def test_nodes_start_from_their_own_row_of_the_behaviour_table() -> None:
    behaviour, graphs, ours = log().tables.behaviour, log().graphs, network()
    assert len(ours.nodes.items) == len(behaviour[["action", *SIDE]].drop_duplicates()) < len(behaviour)
    assert ours.nodes.items.ctypes.data % 64 == 0
    categories = items().tokens["category"]
    session = np.array([4, 250, 17])
    batch, code, terms = graphs.past(session), np.array([1, 0, 2]), np.ones((3, 2), dtype=np.float32)
    x = ours._nodes(batch, code, terms).features(batch).detach().numpy()
    is_voucher = batch.row == VOUCHER
    member = np.repeat(batch.slot // len(GROUPS), batch.length)
    np.testing.assert_array_equal(batch.row, graphs.row[spans(batch.first, batch.length)])
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
