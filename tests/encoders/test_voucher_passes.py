"""The compiled passes over voucher graphs and histories against the same in torch, and their gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace

import numpy as np
import pytest
import torch

from shadowprice.encoders.kernel import compiled, graphs, histories
from shadowprice.encoders.voucher_graph import VoucherGraphEncoder
from shadowprice.encoders.voucher_nodes import Learned, Nodes
from shadowprice.graphs.voucher_graphs import GROUPS, VOUCHER, GraphBatch
from shadowprice.responses.vouchers.dmbgn_history import Encoded, Histories, read_histories, read_plain
from shadowprice.responses.vouchers.sessions import Past, TargetAttention

NODES, KINDS, CODES, PRICES = 400, 200, 5, 2
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-5}


@pytest.fixture(autouse=True)
def _built(built: Callable[[CDLL | None], None]) -> None:
    built(compiled.LIBRARY)


@pytest.fixture(
    params=range(compiled.INSTRUCTIONS + 1), ids=["plain C", "AVX2", "AVX-512"][: compiled.INSTRUCTIONS + 1]
)
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every instruction set that this processor has."""
    for module in (graphs, histories):
        monkeypatch.setattr(module, "INSTRUCTIONS", request.param)


def batch_of(lengths: list[int], *, members: int, nearest: int = 6, seed: int = 0) -> GraphBatch:
    """Graphs of so many nodes, at slots drawn at random."""
    random = np.random.default_rng(seed)
    length = np.array(lengths)
    slot = np.sort(random.choice(members * len(GROUPS), length.size, replace=False))
    first = np.cumsum(length) - length
    source = np.arange(length.sum())
    source[first] = VOUCHER
    return GraphBatch(members, slot, length, first, source, nearest)


BATCHES: dict[str, Callable[[], GraphBatch]] = {
    "many": lambda: batch_of(np.random.default_rng(1).integers(1, 30, 60).tolist(), members=40),
    "longer than a tile": lambda: batch_of([250, 1, 2, 97, 96, 3], members=3),
    "one voucher near": lambda: batch_of([5, 2, 1, 9], members=4, nearest=1),
    "all near": lambda: batch_of([5, 12, 1, 9], members=4, nearest=100),
}


def nodes_of(batch: GraphBatch, dtype: torch.dtype, *, coarse: bool = False) -> Nodes:
    """Fixed numbers of behaviours and vouchers, and learned ones of categories and vouchers, as the model has them."""
    random = np.random.default_rng(2)
    fixed, own = (random.normal(size=shape).astype(np.float32) for shape in ((KINDS, 16), (batch.size, 2)))
    category, voucher = (torch.from_numpy(random.normal(size=shape)).to(dtype) for shape in ((3, 1), (CODES, 16)))
    base = torch.zeros(3 * PRICES + CODES, 18, dtype=dtype)
    base[: 3 * PRICES, 17] = torch.from_numpy(random.normal(size=3 * PRICES)).to(dtype)
    if coarse:  # of few values: nodes alike, scores alike
        fixed, own, category, voucher = fixed.round(), own.round(), category.round(), voucher.round()
    learned = [Learned(category.requires_grad_(), 16, PRICES), Learned(voucher.requires_grad_())]
    first = random.integers(0, NODES - batch.length + 1)  # graphs may share nodes
    kind, code = (random.integers(0, n, NODES).astype(np.int32) for n in (KINDS, 3 * PRICES))
    own_code = 3 * PRICES + random.integers(0, CODES, batch.size)
    return Nodes(base, learned, first, fixed, kind, code, own, own_code)


def encoder(dtype: torch.dtype, ratio: float = 0.9) -> VoucherGraphEncoder:
    torch.manual_seed(0)
    return VoucherGraphEncoder(18, ratio=ratio).to(dtype)


def gradients(found: tuple[torch.Tensor, ...], of: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Of a random sum of what was found."""
    random = torch.Generator().manual_seed(3)
    total = sum((each * torch.randn(each.shape, generator=random, dtype=each.dtype)).sum() for each in found)
    return torch.autograd.grad(total, of, materialize_grads=True)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", BATCHES)
def test_graphs_and_their_gradients_are_those_in_torch(name: str, dtype: torch.dtype) -> None:
    batch, tolerance = BATCHES[name](), TOLERANCE[dtype]
    for ratio in (0.9, 0.5, 1.0):
        nodes, ours = nodes_of(batch, dtype), encoder(dtype, ratio)
        of = [*ours.parameters(), *[each.values for each in nodes.learned]]
        read = ours.readout(nodes.features(batch), batch)
        before = torch.cat([read[:, :64], torch.zeros_like(read[:, 64:])], dim=1)
        expected, found = (ours.out(before), ours.out(read)), ours.both(nodes, batch)
        torch.testing.assert_close(ours(nodes, batch), found[1], rtol=0, atol=0)
        for ones, theirs in ((found, expected), (gradients(found, of), gradients(expected, of))):
            for a, b in zip(ones, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.detach().abs().max()))


def test_of_equal_gates_the_first_go_and_equal_maxima_share_their_gradient() -> None:
    batch = BATCHES["many"]()
    nodes, ours = nodes_of(batch, torch.float64, coarse=True), encoder(torch.float64, 1.0)
    of = [*ours.parameters(), *[each.values for each in nodes.learned]]
    found = (ours(nodes, batch),)
    expected = (ours.out(ours.readout(nodes.features(batch), batch)),)
    for a, b in zip(gradients(found, of), gradients(expected, of), strict=True):
        torch.testing.assert_close(a, b)
    # Without a sum above zero all gates are 0.
    alike = batch_of([9], members=1)
    weights = [each.detach() for each in encoder(torch.float64).parameters()]
    ordered = [*weights[:3], weights[6], *weights[3:6], weights[7], *weights[8:]]
    ordered[1], ordered[5] = (torch.full((16,), -1e3, dtype=torch.float64) for _ in range(2))
    computed = graphs.GraphPass(Nodes.dense(torch.zeros(9, 18, dtype=torch.float64), alike), alike, 0.5, ordered)
    computed.forth()
    assert computed.stays.tolist() == [[False] * 4 + [True] * 5, [False] * 6 + [True] * 3]


def test_gates_are_right_however_large_the_scores() -> None:
    batch = BATCHES["many"]()
    for scale in (1e-6, 1.0, 1e3):
        outputs = []
        for dtype in (torch.float32, torch.float64):
            ours = encoder(dtype, 1.0)
            x = scale * nodes_of(batch, dtype).features(batch)
            outputs.append(ours(x, batch).double() if dtype is torch.float32 else ours.out(ours.readout(x, batch)))
        torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5 * float(outputs[1].detach().abs().max()))


def test_the_gradient_of_graphs_is_that_of_differences() -> None:
    batch = batch_of([6, 1, 12, 3], members=2)
    nodes, ours = nodes_of(batch, torch.float64), encoder(torch.float64)
    of = [each.values for each in nodes.learned]

    def run(*learned: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [replace(part, values=values) for part, values in zip(nodes.learned, learned, strict=True)]
        return ours.both(replace(nodes, learned=parts), batch)

    assert torch.autograd.gradcheck(run, of)


def histories_of(dtype: torch.dtype, rows: int = 40, sessions: int = 15) -> Histories:
    """Rows with none to five past sessions, which they share."""
    random = np.random.default_rng(4)
    there = np.arange(5) < random.integers(0, 6, rows)[:, None]
    past = Past.of(torch.from_numpy(np.where(there, random.integers(0, sessions, (rows, 5)), -1)))
    session, place = np.unique(past.session, return_inverse=True)
    own, offers = (torch.from_numpy(random.normal(size=(n, 16))).to(dtype) for n in (session.size + rows, CODES))
    code = random.integers(0, CODES, session.size + rows)
    return Histories(past, place, Encoded(own.requires_grad_(), offers.requires_grad_(), code))


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("average", [False, True])
def test_histories_and_their_gradients_are_those_in_torch(average: bool, dtype: torch.dtype) -> None:
    given, tolerance = histories_of(dtype), TOLERANCE[dtype]
    torch.manual_seed(0)
    attention = TargetAttention(32, average=average).to(dtype)
    of = [given.encoded.behaviour, given.encoded.offers, *attention.parameters()]
    found, expected = read_histories(given, attention), read_plain(given, attention)
    for ones, theirs in ((found, expected), (gradients(found, of), gradients(expected, of))):
        for a, b in zip(ones, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(float(b.detach().abs().max()), 1.0))


def test_the_gradient_of_histories_is_that_of_differences() -> None:
    given = histories_of(torch.float64, rows=6, sessions=4)
    torch.manual_seed(1)
    attention = TargetAttention(32).double()

    def run(behaviour: torch.Tensor, offers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return read_histories(
            Histories(given.past, given.session, Encoded(behaviour, offers, given.encoded.code)), attention
        )

    assert torch.autograd.gradcheck(run, (given.encoded.behaviour, given.encoded.offers))


def test_rows_without_any_past_read_themselves_alone() -> None:
    past = Past.of(torch.full((3, 2), -1))
    own, offers = torch.randn(3, 16), torch.randn(2, 16)
    given = Histories(past, np.zeros(0, dtype=np.int64), Encoded(own, offers, np.array([1, 0, 1])))
    read, auxiliary = read_histories(given, TargetAttention(32))
    expected = torch.cat([torch.zeros(3, 32), own, offers[[1, 0, 1]], torch.zeros(3, 5)], dim=1)
    torch.testing.assert_close(read, expected)
    assert auxiliary.tolist() == [0, 0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_results_do_not_depend_on_the_number_of_threads(seed: int) -> None:
    random = np.random.default_rng(seed)
    batch = batch_of(random.integers(1, 30, 300).tolist(), members=150, seed=seed)
    nodes, ours = nodes_of(batch, torch.float32), encoder(torch.float32)
    given, attention = histories_of(torch.float32, rows=200, sessions=60), TargetAttention(32)
    learned = [each.values for each in nodes.learned]
    of = [*ours.parameters(), *learned, given.encoded.behaviour, *attention.parameters()]

    def run(threads: int) -> tuple[torch.Tensor, ...]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found = (*ours.both(nodes, batch), *read_histories(given, attention))
            return (*found, *gradients(found, of))
        finally:
            torch.set_num_threads(before)

    alone = run(1)
    for threads in (2, 5):
        assert all(torch.equal(a, b) for a, b in zip(run(threads), alone, strict=True))


def test_passes_are_handed_to_as_many_threads_as_torch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    asked: list[int] = []

    @ctypes.CFUNCTYPE(None, work, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    def team(of: Callable[[int], None], given: int, threads: int, flags: int) -> None:
        del flags
        asked.append(threads)
        for _ in range(threads):  # those who come when nothing is left find nothing to do
            of(given)

    batch = BATCHES["many"]()
    nodes, ours = nodes_of(batch, torch.float32), encoder(torch.float32)
    given, attention = histories_of(torch.float32), TargetAttention(32)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = (ours(nodes, batch), *read_histories(given, attention))
        for module in (graphs, histories):
            monkeypatch.setattr(module, "TEAM", ctypes.cast(team, ctypes.c_void_p).value)
        torch.set_num_threads(3)
        found = (ours(nodes, batch), *read_histories(given, attention))
    finally:
        torch.set_num_threads(before)
    assert asked == [3, 3, 3]  # graphs; past sessions, then rows
    assert all(torch.equal(a, b) for a, b in zip(found, alone, strict=True))


@pytest.mark.skipif("USE_OPENMP=ON" not in torch.__config__.show(), reason="torch has other threads")
def test_the_threads_of_torch_are_found() -> None:
    assert compiled.TEAM is not None
