"""Parts computed on threads against the same parts computed one after the other."""

import threading

import pytest
import torch

from shadowprice.encoders.side_by_side import side_by_side


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("learns", [True, False])
def test_the_parts_come_in_order_with_gradients_where_they_are_on_and_torch_has_its_threads_again(threads, learns):
    weight = torch.arange(6.0).view(2, 3).requires_grad_()
    inputs = [torch.full((4, 2), float(part)) for part in range(20)]
    with torch.set_grad_enabled(learns):
        found = side_by_side(lambda x: x @ weight, inputs)
        assert torch.is_grad_enabled() == learns
    for part, given in zip(found, inputs, strict=True):
        assert part.requires_grad == learns
        torch.testing.assert_close(part.detach(), (given @ weight).detach())
    assert torch.get_num_threads() == threads


@torch.no_grad()
def test_as_many_parts_run_at_once_as_torch_has_threads(threads):
    met = threading.Barrier(threads, timeout=20)
    side_by_side(lambda _: met.wait(), range(2 * threads))


def test_a_part_that_fails_fails_the_whole_and_torch_has_its_threads_again(threads):
    def compute(part: int) -> int:
        return 1 // (part - 3)

    with pytest.raises(ZeroDivisionError):
        side_by_side(compute, range(8))
    assert torch.get_num_threads() == threads
