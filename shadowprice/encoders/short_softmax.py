"""Softmax over few numbers at a time."""

from torch import Tensor


def short_softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension, (..., k) → (..., k), for a k below some twenty.

    torch works along its last dimension one row at a time, which costs the same for four numbers as for hundreds. With
    that dimension outermost it works on many rows at once, and both copies together are a fraction of what that saves
    (a seventh of the time at k = 4 or 13).
    """
    return x.transpose(0, -1).contiguous().softmax(dim=0).transpose(0, -1).contiguous()
