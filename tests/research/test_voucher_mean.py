"""The mean of the item embeddings against a loop over the rows of the behaviour table."""

from functools import cache

import numpy as np
import pytest
import torch

from research.models.dmbgn import MeanItemEncoder
from shadowprice.datasets.vouchers import generate
from shadowprice.encoders.voucher_groups import GroupEncoder
from shadowprice.graphs.sessions import SessionLog
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, GraphBatch

FEATURES = 5


@cache
def log() -> SessionLog:
    return SessionLog.build(generate(seed=3, sessions=200).tables)


@cache
def table() -> torch.Tensor:
    """A vector of every behaviour row; the last row stands for vouchers and must not be read."""
    return torch.randn(len(log().tables.behaviour) + 1, FEATURES, generator=torch.Generator().manual_seed(2))


def features(batch: GraphBatch) -> torch.Tensor:
    return table()[torch.from_numpy(batch.row)]


def encoder() -> MeanItemEncoder:
    torch.manual_seed(0)
    return MeanItemEncoder(FEATURES)


def by_hand(ours: GroupEncoder, session: int, groups: tuple[str, ...]) -> torch.Tensor:
    """The average of the rows of each group, read from the nodes of the log's own graphs, through the last layer."""
    graphs, read = log().graphs, torch.zeros(len(GROUPS), FEATURES)
    for number, group in enumerate(GROUPS):
        at = session * len(GROUPS) + number
        rows = [row for row in graphs.row[graphs.start[at] : graphs.start[at + 1]].tolist() if row != VOUCHER]
        if group in groups and rows:
            read[number] = sum(table()[row] for row in rows) / len(rows)
    return ours.out.weight @ read.flatten() + ours.out.bias


def test_a_session_is_the_average_of_its_items_by_group() -> None:
    chosen, ours = np.array([7, 0, 120, 44, 199, 7]), encoder()
    found = ours(features(log().graphs.past(chosen)), log().graphs.past(chosen))
    torch.testing.assert_close(found, torch.stack([by_hand(ours, session, GROUPS) for session in chosen]))
    before = log().graphs.targets(chosen)
    expected = torch.stack([by_hand(ours, session, GROUPS[:2]) for session in chosen])
    torch.testing.assert_close(ours(features(before), before), expected)


def test_both_are_the_target_and_the_whole() -> None:
    chosen, ours = np.array([3, 81, 12]), encoder()
    batch = log().graphs.past(chosen)
    x = features(batch)
    before, whole = ours.both(x, batch)
    target = log().graphs.targets(chosen)
    torch.testing.assert_close(before, ours(features(target), target))
    torch.testing.assert_close(whole, ours(x, batch))


def test_neither_the_voucher_nor_the_order_of_the_items_is_read() -> None:
    """A graph network reads both: this is what the paper's variant leaves out."""
    chosen, ours = np.array([7, 120, 44]), encoder()
    batch = log().graphs.past(chosen)
    x, found = features(batch), ours(features(batch), batch)
    x[torch.from_numpy(batch.start)] += 100.0
    longest = int(batch.length.argmax())
    items = slice(batch.start[longest] + 1, batch.start[longest] + batch.length[longest])
    assert batch.length[longest] > 3
    x[items] = x[items].flip(0)
    torch.testing.assert_close(ours(x, batch), found)


def test_a_session_without_behaviour_is_the_bias() -> None:
    ours = encoder()
    empty = log().graphs.past(np.array([-1, -1]))
    torch.testing.assert_close(ours(features(empty), empty), ours.out.bias.expand(2, -1))


def test_the_gradient_is_that_of_differences() -> None:
    batch, ours = log().graphs.past(np.array([7, 44])), encoder().double()
    x = features(batch).double().requires_grad_()
    (found,) = torch.autograd.grad(ours(x, batch).sum(), [x])
    step = torch.zeros_like(x)
    item = int(np.flatnonzero(batch.row != VOUCHER)[2])
    step[item, 1] = 1e-2
    with torch.no_grad():
        difference = float((ours(x + step, batch) - ours(x - step, batch)).sum()) / 2e-2
    assert float(found[item, 1]) == pytest.approx(difference, rel=1e-4)
    assert not found[torch.from_numpy(batch.start)].any()


def test_no_session_at_all_is_no_row() -> None:
    empty = log().graphs.past(np.zeros(0, dtype=np.int64))
    assert encoder()(features(empty), empty).shape == (0, 16)
