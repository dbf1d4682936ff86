"""What a step of DMBGN lists, in C and in numpy, and what its nodes start from, against the tables row by row."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from functools import cache

import numpy as np
import pytest
import torch

from shadowprice.datasets.vouchers import generate
from shadowprice.encoders.item_embedding import SIDE, embed_items
from shadowprice.encoders.kernel import compiled
from shadowprice.graphs.sessions import SessionLog, nanoseconds
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, spans
from shadowprice.responses import dmbgn_lists
from shadowprice.responses.dmbgn_lists import StepLists, list_plain, list_step
from shadowprice.responses.dmbgn_network import DmbgnNetwork, NodeInputs
from shadowprice.responses.sessions import Vouchers
from shadowprice.responses.tabular import fit_tabular


@cache
def log() -> SessionLog:
    return SessionLog.build(generate(seed=3, sessions=300).tables)


def graphs_of(lists: StepLists) -> tuple[list[tuple[int, int, int]], list[list[tuple[int, int, int]]]]:
    """Group, first node and length of every graph: of each row, and of each session in each row's history, in turn."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    batch = lists.batch
    for slot, first, length in zip(batch.slot, batch.first, batch.length, strict=True):
        found.setdefault(slot // len(GROUPS), []).append((slot % len(GROUPS), first, length))
    own = [found.get(lists.session.size + row, []) for row in range(lists.past.rows)]
    return own, [found.get(session, []) for session in lists.of]


@pytest.mark.parametrize("before_only", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_sessions_and_graphs_of_a_step_are_those_in_numpy(
    share: float, before_only: bool, built: Callable[[CDLL | None], None]
) -> None:
    built(compiled.LIBRARY)
    random = np.random.default_rng(7)
    # Few sessions, so that many rows share them, and one of the rows has none of its own.
    past = np.where(random.random((50, 6)) < share, random.integers(0, 40, (50, 6)), -1)
    target = random.integers(0, 300, 50)
    target[3] = -1
    given = log().graphs, torch.from_numpy(past), torch.from_numpy(target)
    found, expected = (way(*given, before_only=before_only) for way in (list_step, list_plain))
    assert found.batch.size == expected.batch.size
    assert np.all(np.diff(found.batch.slot) > 0)
    np.testing.assert_array_equal(np.sort(found.session), expected.session)
    for name in ("row", "slot", "session"):
        np.testing.assert_array_equal(getattr(found.past, name), getattr(expected.past, name))
    np.testing.assert_array_equal(found.session[found.of], expected.session[expected.of])
    assert graphs_of(found) == graphs_of(expected)


def test_without_a_compiled_list_it_is_made_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dmbgn_lists, "IS_COMPILED", False)
    past, target = torch.tensor([[9, 2], [2, -1]]), torch.tensor([5, 6])
    found = list_step(log().graphs, past, target, before_only=False)
    assert (found.session.tolist(), found.of.tolist()) == ([2, 9], [1, 0, 0])


def test_nodes_start_from_their_own_row_of_the_behaviour_table() -> None:
    behaviour, graphs = log().tables.behaviour, log().graphs
    items = embed_items(log(), int(nanoseconds(behaviour["ts"]).max()) + 1)
    nodes = NodeInputs.of(log(), items, Vouchers.of(log(), log().offered, [0.0, 0.0, 1.0, 1.0]))
    assert len(nodes.items) == len(behaviour[["action", *SIDE]].drop_duplicates()) < len(behaviour)
    assert nodes.items.ctypes.data % 64 == 0
    inputs = fit_tabular(log().requests())
    categories = items.tokens["category"]
    network = DmbgnNetwork(
        inputs,
        nodes,
        len(log().offered),
        len(categories),
        embedding=4,
        hidden=(8,),
        history=2,
        average=False,
        before_only=False,
        ratio=0.9,
    )
    session = np.array([4, 250, 17])
    batch, code, terms = graphs.past(session), np.array([1, 0, 2]), np.ones((3, 2), dtype=np.float32)
    x = network._nodes(batch, code, terms).features(batch).detach().numpy()
    is_voucher = batch.row == VOUCHER
    member = np.repeat(batch.slot // len(GROUPS), batch.length)
    np.testing.assert_array_equal(batch.row, graphs.row[spans(batch.first, batch.length)])
    rows = behaviour.iloc[batch.row[~is_voucher]]
    known = 1 + np.array([categories.index(each) for each in rows["category"]])
    expected = np.column_stack(
        [
            items.rows(rows),
            network.category.weight.detach().numpy()[known, 0],
            (rows["price_level"].to_numpy(dtype=float) - 4) / 2,
        ]
    )
    np.testing.assert_allclose(x[~is_voucher], expected, atol=1e-6)
    voucher = network.voucher.weight.detach().numpy()[code[member[is_voucher]]]
    np.testing.assert_allclose(x[is_voucher], np.column_stack([voucher, terms[member[is_voucher]]]), atol=1e-6)
