import pytest
import torch

from shadowprice.encoders.short_softmax import short_softmax


@pytest.mark.parametrize("shape", [(50, 4), (7, 3, 4), (5, 2, 13, 13), (1, 1), (0, 4)])
def test_it_is_the_softmax_over_the_last_dimension_also_of_a_view(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = 30 * torch.randn(*shape[:-1], shape[-1] + 5)[..., 5:]
    torch.testing.assert_close(short_softmax(x), x.softmax(dim=-1))


def test_what_is_masked_has_no_share_and_gradients_are_torchs() -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 3, 4, dtype=torch.float64)
    x[2, 1, :3] = -torch.inf
    assert short_softmax(x)[2, 1].tolist() == [0, 0, 0, 1]
    assert torch.autograd.gradcheck(short_softmax, torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True))
