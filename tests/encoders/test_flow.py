import pytest
import torch

from shadowprice.encoders.flow import Flow

NODES, WIDTH = 40, 5


def edges(seed: int, ordered: bool) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    # The last nodes have no edge, and some edges stand twice.
    ends = torch.randint(0, NODES - 3, (2, 150), generator=random)
    return ends[:, torch.argsort(ends[1], stable=True)] if ordered else ends


@pytest.mark.parametrize("ordered", [False, True])
def test_sums_and_gradients_are_those_of_gathering_and_adding(ordered: bool) -> None:
    index = edges(0, ordered)
    weight = torch.rand(150, requires_grad=True)
    hidden = torch.randn(NODES, WIDTH, requires_grad=True)
    wanted = torch.zeros(NODES, WIDTH).index_add(0, index[1], weight[:, None] * hidden[index[0]])
    found = Flow(index, NODES).send(weight, hidden)
    torch.testing.assert_close(found, wanted)
    upstream = torch.randn(NODES, WIDTH)
    for ours, theirs in zip(
        torch.autograd.grad(found, [weight, hidden], upstream),
        torch.autograd.grad(wanted, [weight, hidden], upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_a_graph_without_edges_sends_nothing() -> None:
    hidden = torch.randn(NODES, WIDTH, requires_grad=True)
    sent = Flow(torch.zeros(2, 0, dtype=torch.int64), NODES).send(torch.zeros(0), hidden)
    assert not sent.detach().any()
    sent.sum().backward()
    assert hidden.grad is not None
    assert not hidden.grad.any()


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    index, weight, hidden = edges(1, False), torch.rand(150), torch.randn(NODES, WIDTH)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = Flow(index, NODES).send(weight, hidden)
        torch.set_num_threads(2)
        assert torch.equal(Flow(index, NODES).send(weight, hidden), alone)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
@pytest.mark.parametrize("ordered", [False, True])
def test_a_gpu_finds_the_sums_and_gradients_of_the_processor_and_the_same_bits_again(ordered: bool) -> None:
    index, random = edges(2, ordered), torch.Generator().manual_seed(2)
    weight, hidden = torch.rand(150, generator=random), torch.randn(NODES, WIDTH, generator=random)
    upstream = torch.randn(NODES, WIDTH, generator=random)

    def compute(device: str) -> list[torch.Tensor]:
        given = [each.to(device).requires_grad_() for each in (weight, hidden)]
        found = Flow(index.to(device), NODES).send(*given)
        return [each.cpu() for each in (found, *torch.autograd.grad(found, given, upstream.to(device)))]

    first, again = compute("cuda"), compute("cuda")
    assert all(map(torch.equal, first, again))
    for ours, theirs in zip(first, compute("cpu"), strict=True):
        torch.testing.assert_close(ours.detach(), theirs.detach())
